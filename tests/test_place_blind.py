"""A scorer that does not read the place is at chance exactly, whatever kind of scorer it is."""

import zlib
from collections.abc import Callable, Sequence

import pytest

from carb_data import Dataset, load
from carb_metrics import family_accuracy
from carb_scorers import Scorer, ScoreRequest, ScoreResult, ScorerSpec, evaluate


class PlaceBlind:
    """Scores by a rule that sees the answers and their order, and never the question."""

    def __init__(self, name: str, rule: Callable[[Sequence[str]], Sequence[float]], *, comparative: bool) -> None:
        self.spec = ScorerSpec(name=name, kind="test", comparative=comparative)
        self._rule = rule

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        found = []
        for request in requests:
            scores = self._rule([candidate.text for candidate in request.candidates])
            keyed = {candidate.id: score for candidate, score in zip(request.candidates, scores, strict=True)}
            found.append(ScoreResult(request_id=request.request_id, scores=keyed))
        return found

    async def aclose(self) -> None:
        pass


def test_place_blind_scorers_of_every_kind_are_at_chance_exactly() -> None:
    """A scorer that likes a position, or wins pairs by it, is place-blind: the sets of a family show one order."""
    rules: dict[str, tuple[Callable[[Sequence[str]], Sequence[float]], bool]] = {
        "position": (lambda texts: [-float(place) for place in range(len(texts))], True),
        "middle": (lambda texts: [float(place == 1) + len(text) / 1e4 for place, text in enumerate(texts)], True),
        "pairs": (
            lambda texts: [
                sum(len(text) >= len(other) - (place < n) for n, other in enumerate(texts) if n != place)
                for place, text in enumerate(texts)
            ],
            True,
        ),
        "rated": (lambda texts: [zlib.crc32(text.encode()) / 2**32 for text in texts], False),
    }
    sets = Dataset(item for item in load("carb-seed") if item.family)
    scorers: list[Scorer | str] = [PlaceBlind(name, rule, comparative=c) for name, (rule, c) in rules.items()]
    scores = evaluate(sets, [*scorers, "baseline:length", "baseline:label", "baseline:language"])
    found = family_accuracy(scores, sets)
    assert found is not None
    assert len(found.rows) == 7
    for row in found.rows:
        assert row.families > 400
        for reading in (row.row, row.column, row.matching):
            assert reading.estimate == pytest.approx(row.chance, abs=1e-12), row.scorer
        assert row.place_effect.estimate == pytest.approx(0, abs=1e-9), row.scorer
