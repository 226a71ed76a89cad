"""A scorer that does not read the place is at chance exactly, whatever kind of scorer it is."""

import zlib

import pytest

from carb_data import Dataset, load
from carb_metrics import family_accuracy
from carb_scorers import Scorer, evaluate
from fake_scorer import FakeScorer, Rule


def test_place_blind_scorers_of_every_kind_are_at_chance_exactly() -> None:
    """A scorer that likes a position, or wins pairs by it, is place-blind: the sets of a family
    show one order."""
    rules: dict[str, tuple[Rule, bool]] = {
        "position": (lambda texts: [-float(place) for place in range(len(texts))], True),
        "middle": (
            lambda texts: [float(place == 1) + len(text) / 1e4 for place, text in enumerate(texts)],
            True,
        ),
        "pairs": (
            lambda texts: [
                sum(
                    len(text) >= len(other) - (place < n)
                    for n, other in enumerate(texts)
                    if n != place
                )
                for place, text in enumerate(texts)
            ],
            True,
        ),
        "rated": (lambda texts: [zlib.crc32(text.encode()) / 2**32 for text in texts], False),
    }
    sets = Dataset(item for item in load("carb-seed") if item.family)
    scorers: list[Scorer | str] = [
        FakeScorer(rule, name=name, comparative=c) for name, (rule, c) in rules.items()
    ]
    scores = evaluate(sets, [*scorers, "baseline:length", "baseline:label", "baseline:language"])
    found = family_accuracy(scores, sets)
    assert found is not None
    assert len(found.rows) == 7
    for row in found.rows:
        assert row.families > 400
        assert row.row.estimate == pytest.approx(row.chance, abs=1e-12), row.scorer
        assert row.place_win.estimate == 0.5, row.scorer
