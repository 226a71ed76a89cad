"""Hiding the labels before scoring and joining them back afterwards.

This module is the only place that knows both which response is right and what a scorer was shown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import polars as pl

from carb_data import BonSet, Dataset, Response, ScoreTable
from carb_data.table import COLUMNS
from carb_scorers.scorer import Candidate, ScoreRequest, ScoreResult, failed

__all__ = ["blind", "in_order"]


@dataclass(frozen=True, slots=True)
class Blinded:
    """A request, the set that it is about, and which response each of its candidates is."""

    item_id: str
    request: ScoreRequest
    recorded: Mapping[str, str]
    """Candidate id to response id, for those candidates whose score goes into the table."""


def blind(item: BonSet, *, seed: int, comparative: bool) -> Iterator[Blinded]:
    """The requests that score all responses of a set, labels hidden.

    Candidates are ordered by a hash of the seed, the family (without one, the item) and their text.
    So the order is random, can be repeated, and depends on neither role nor place in the file nor
    the rest of the data set. The sets of a family show one order: a scorer that likes a position is
    at chance there, exactly. Ids are positions. A request about a perturbed text is named by a
    hash, since its number could give its original away.

    Args:
        item: the set to turn into requests.
        seed: the seed of the candidates' order.
        comparative: whether scores depend on the other candidates; then each perturbed text takes
            the place of its original in a request of its own, otherwise all texts share one
            request.
    """
    if not comparative:
        everything = (*item.responses, *item.perturbed)
        yield _request(item, item.id, everything, {r.id for r in everything}, seed)
        return
    yield _request(item, item.id, item.responses, {r.id for r in item.responses}, seed)
    for variant in item.perturbed:
        shown = [variant if r.id == variant.original else r for r in item.responses]
        name = hashlib.sha256(
            f"{seed}\0{item.id}\0{variant.id}".encode("utf-8", "surrogatepass")
        ).hexdigest()
        yield _request(item, f"{item.id}~{name[:12]}", shown, {variant.id}, seed)


def in_order(item: BonSet, shown: Sequence[Response], seed: int) -> list[Response]:
    """Responses of a set in the order in which a scorer is given them; see ``blind``."""
    places = {}
    for response in shown:
        content = f"{seed}\0{item.family or item.id}\0{response.text}".encode(
            "utf-8", "surrogatepass"
        )
        among_equals = content + f"\0{response.id}".encode("utf-8", "surrogatepass")
        places[response.id] = (
            hashlib.sha256(content).digest(),
            hashlib.sha256(among_equals).digest(),
        )
    return sorted(shown, key=lambda response: places[response.id])


def _request(
    item: BonSet, request_id: str, shown: Sequence[Response], recorded: set[str], seed: int
) -> Blinded:
    presented = [
        (str(position), response)
        for position, response in enumerate(in_order(item, shown, seed), 1)
    ]
    request = ScoreRequest(
        request_id=request_id,
        prompt=item.prompt,
        candidates=tuple(Candidate(id=key, text=response.text) for key, response in presented),
        culture=item.culture,
        language=item.language,
    )
    names = {key: response.id for key, response in presented if response.id in recorded}
    return Blinded(item.id, request.compacted(), names)


def checked(request: ScoreRequest, result: ScoreResult, *, comparative: bool) -> ScoreResult:
    """The result as it is, or an error row where a scorer broke the contract."""
    if result.request_id != request.request_id:
        return failed(request, "contract", f"the scorer answered for '{result.request_id}'")
    expected = {candidate.id for candidate in request.candidates}
    given = {*result.scores, *result.errors}
    if result.error is None and given != expected:
        return failed(
            request, "contract", f"scores for {sorted(given)} instead of {sorted(expected)}"
        )
    if result.errors and comparative:
        return failed(
            request,
            "contract",
            "a scorer that compares its candidates gave scores to some of them only",
        )
    return result


def unblind(
    dataset: Dataset, scorer: str, outcomes: Iterable[tuple[Blinded, ScoreResult]]
) -> ScoreTable:
    """Join the labels back: a row per response, in the order of the data set and its outcomes; null
    where it failed."""

    def rows() -> Iterator[tuple[object, ...]]:
        of_items = groupby(outcomes, key=lambda outcome: outcome[0].item_id)
        for item, (named, own) in zip(dataset, of_items, strict=True):
            if (
                named != item.id
            ):  # ids of responses repeat, so a wrong order would give wrong scores without a word
                raise ValueError(f"outcomes of {named!r} stand where those of {item.id!r} are due")
            scores = {
                response_id: result.scores[key]
                for blinded, result in own
                for key, response_id in blinded.recorded.items()
                if key in result.scores
            }
            for response in (*item.responses, *item.perturbed):
                yield (
                    scorer,
                    item.id,
                    response.id,
                    str(response.role),
                    item.culture,
                    str(item.domain),
                    response.language,
                    response.perturbation and str(response.perturbation),
                    response.original,
                    scores.get(response.id),
                )

    return ScoreTable(pl.DataFrame(rows(), schema=COLUMNS, orient="row"))
