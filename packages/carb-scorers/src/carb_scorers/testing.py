"""For tests of scorers, one's own included: a small data set, and a check of the contract."""

import random
from collections.abc import Sequence

from carb_data import BonSet, Dataset, Domain, Perturbation, Provenance, Response, Role
from carb_scorers.blind import blind
from carb_scorers.scorer import Results, Scorer, ScoreRequest, ScoreResult

_WORDS = "river lantern salt winter market drum paper garden bridge copper millet"


def example_dataset(count: int = 8, *, perturbed: bool = True) -> Dataset:
    """Meaningless but valid sets: four responses each, and where ``perturbed`` two perturbed
    texts."""
    draw = random.Random(0)

    def text(index: int) -> str:
        return " ".join(draw.choices(_WORDS.split(), k=draw.randint(3, 12))) + f" {index}."

    return Dataset(
        _example_set(number, [text(index) for index in range(7)], perturbed)
        for number in range(count)
    )


def _example_set(number: int, texts: Sequence[str], perturbed: bool) -> BonSet:
    roles = [Role.CHOSEN, Role.REJECTED, Role.REJECTED, Role.REJECTED]
    responses = [
        Response(id=f"{number}-{index}", text=text, role=role, language="en")
        for index, (text, role) in enumerate(zip(texts, roles, strict=False))
    ]
    changed = [
        one.changed(id=f"{one.id}-RP", text=text, perturbation=Perturbation.RP, original=one.id)
        for one, text in zip(responses, texts[4:6] if perturbed else (), strict=False)
    ]
    return BonSet(
        id=f"set-{number}",
        culture="english",
        domain=list(Domain)[number % len(Domain)],
        language="en",
        prompt=f"{texts[6].capitalize()} What is it?",
        responses=tuple(responses),
        perturbed=tuple(changed),
        provenance=Provenance(source="example", license="CC0-1.0", method="generated"),
    )


def example_requests(scorer: Scorer, count: int = 8) -> list[ScoreRequest]:
    """The requests that a scorer gets for ``example_dataset(count)``."""
    comparative = scorer.spec.comparative
    return [
        b.request
        for item in example_dataset(count)
        for b in blind(item, seed=0, comparative=comparative)
    ]


async def check_scorer(
    scorer: Scorer, requests: Sequence[ScoreRequest] | None = None, *, tolerance: float = 1e-5
) -> list[ScoreResult]:
    """Check that a scorer keeps the contract: a result per request, and scores that depend on
    nothing else.

    Args:
        scorer: any scorer; it is not closed.
        requests: the requests to score; null means requests about ``example_dataset``.
        tolerance: largest difference between two scores of one request; 1e-5 is the promise for
            float32.

    Returns:
        The results for ``requests``.

    Raises:
        AssertionError: with the broken promise and the item.
    """
    if requests is None:
        requests = example_requests(scorer)
    together = list(await scorer.score(requests))
    names = [request.request_id for request in requests]
    in_order = [result.request_id for result in together] == names
    assert in_order, "not one result per request, in order"
    for request, result in zip(requests, together, strict=True):
        wanted = {candidate.id for candidate in request.candidates}
        given = {*result.scores, *result.errors}
        assert result.error is not None or given == wanted, (
            f"{request.request_id}: not every candidate"
        )
    backwards = list(await scorer.score(requests[::-1]))
    _compare(together, backwards[::-1], tolerance, "the order of requests")
    alone = [result for request in requests for result in await scorer.score([request])]
    _compare(together, alone, tolerance, "the other requests in the batch")
    renamed = [r.changed(request_id=f"renamed-{r.request_id}") for r in requests]
    _compare(together, list(await scorer.score(renamed)), tolerance, "the item's id")
    assert await scorer.score([]) == [], "no requests must give no results"
    if not scorer.spec.comparative:
        turned = [r.changed(candidates=r.candidates[::-1]) for r in requests]
        _compare(together, list(await scorer.score(turned)), tolerance, "the order of candidates")
    return together


def _compare(one: Results, other: Results, tolerance: float, what: str) -> None:
    for a, b in zip(one, other, strict=True):
        failed = [(one.error is not None, one.errors.keys()) for one in (a, b)]
        assert failed[0] == failed[1], f"{a.request_id}: whether it fails depends on {what}"
        for key, score in a.scores.items():
            difference = abs(score - b.scores[key])
            assert difference <= tolerance, (
                f"{a.request_id}: scores depend on {what} ({difference:.3g} apart)"
            )
