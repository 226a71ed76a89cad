"""Hiding the labels before scoring and joining them back afterwards.

This module alone knows both the right response and the request of a scorer.
"""

import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from carb_data import UNSPECIFIED, BonSet, Dataset, Response, ScoreTable
from carb_scorers.scorer import Candidate, ScoreRequest, ScoreResult, failed

__all__ = ["blind"]


_CANDIDATE = Candidate(id="1", text="text").compacted()
_REQUEST = ScoreRequest(
    request_id="name", prompt="text", candidates=(_CANDIDATE,), culture=UNSPECIFIED, language="en"
).compacted()
"""A request whose values are exchanged: those of a set were checked when it was made."""


class Blinded(NamedTuple):
    """A request, the set that it is about, and which response each of its candidates is: the
    map that no scorer is given. All are made when they are wanted, since a million of them are
    large."""

    request_id: str
    """The opaque id of the request."""
    item: BonSet
    seed: int
    comparative: bool
    told: bool
    variant: Response | None = None
    """The perturbed text that it is about, for a comparative scorer."""

    @property
    def request(self) -> ScoreRequest:
        """The request for the scorer."""
        candidates = [
            _CANDIDATE.changed(id=str(position), text=response.text)
            for position, response in enumerate(self._ordered(), 1)
        ]
        return _REQUEST.changed(
            request_id=self.request_id,
            prompt=self.item.prompt,
            candidates=tuple(candidates),
            culture=self.item.culture if self.told else UNSPECIFIED,
            language=self.item.language,
        )

    @property
    def recorded(self) -> Mapping[str, str]:
        """Candidate id to response id, for those candidates whose score goes into the table."""
        return {
            str(position): response.id
            for position, response in enumerate(self._ordered(), 1)
            if self.variant is None or response is self.variant
        }

    def _ordered(self) -> list[Response]:
        shown = list(self.item.responses)
        if self.variant is not None:
            ids = [response.id for response in shown]
            shown[ids.index(str(self.variant.original))] = self.variant
        elif not self.comparative:
            shown += self.item.perturbed
        return in_order(self.item, shown, self.seed)


Asked = Blinded | ScoreRequest


def made(asked: Asked) -> ScoreRequest:
    """The request itself; that of a blinded set is made now."""
    if isinstance(asked, Blinded):
        return asked.request
    return asked


def blind(
    item: BonSet,
    *,
    seed: int,
    comparative: bool,
    told: bool = False,
) -> Iterator[Blinded]:
    """The requests that score all responses of a set, labels hidden.

    Candidates are ordered by a hash of the seed, the family (without one, the item) and their text.
    So the order is random, can be repeated, and depends on neither role nor position in the file
    nor the rest of the data set. The sets of a family, with the place named or implied, show one
    order: a scorer that likes a position is at chance there, exactly. Ids of candidates are
    positions. A request is named by a hash, since the set's id holds its place.

    Args:
        item: the set to turn into requests.
        seed: the seed of the candidates' order.
        comparative: whether scores depend on the other candidates. If so, each perturbed text
            replaces its original in a request of its own; otherwise all texts share one request.
        told: whether the requests name the set's culture; see ``told_culture``.
    """
    yield Blinded(request_name(item.id, seed), item, seed, comparative, told)
    if comparative:
        for variant in item.perturbed:
            name = request_name(item.id, seed, variant.id)
            yield Blinded(name, item, seed, comparative, told, variant)


def request_name(item_id: str, seed: int, variant: str = "") -> str:
    """The opaque id of the request about a set, 24 hex digits.

    Args:
        item_id: The id of the set.
        seed: The seed of the evaluation.
        variant: The id of the perturbed response that the request is about; empty for none.
    """
    name = hashlib.sha256(_bytes(f"{seed}\0{item_id}\0{variant}")).hexdigest()
    return sys.intern(name[:24])  # as a result of the journal keeps it


def in_order(item: BonSet, shown: Sequence[Response], seed: int) -> list[Response]:
    """Put responses of a set into the order in which a scorer is given them.

    The order follows hashes of the seed, the family and each text. It looks random, is the same in
    every run with the seed, and tells nothing of the right answer.

    Args:
        item: The set.
        shown: Its responses, or perturbed versions of them.
        seed: The seed of the evaluation.
    """
    family = item.wording_of or item.family or item.id
    begun = hashlib.sha256(_bytes(f"{seed}\0{family}\0"))

    def hashed(response: Response, after: str = "") -> bytes:
        whole = begun.copy()
        whole.update(_bytes(response.text + after))
        return whole.digest()

    if len({response.text for response in shown}) == len(shown):
        return sorted(shown, key=hashed)

    # equal texts are told apart by their ids, and only then
    def rank(response: Response) -> tuple[bytes, bytes]:
        return hashed(response), hashed(response, f"\0{response.id}")

    return sorted(shown, key=rank)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def checked(request: ScoreRequest, result: ScoreResult, *, comparative: bool) -> ScoreResult:
    """The result as it is, or an error row where a scorer broke the contract."""
    expected = {candidate.id for candidate in request.candidates}
    given = {*result.scores, *result.errors}
    if result.request_id != request.request_id:
        fault = f"the scorer answered for '{result.request_id}'"
    elif result.error is None and given != expected:
        fault = f"scores for {sorted(given)} instead of {sorted(expected)}"
    elif result.errors and comparative:
        fault = "a scorer that compares its candidates gave scores to some of them only"
    else:
        return result
    return failed(request, "contract", fault)


def unblind(
    dataset: Dataset, scorer: str, outcomes: Iterable[tuple[Blinded, ScoreResult]]
) -> ScoreTable:
    """Join the labels back: a row per response, in the order of the data set and its outcomes; null
    where it failed."""

    def of_sets() -> Iterator[tuple[BonSet, dict[str, float | None]]]:
        of_items = groupby(outcomes, key=lambda outcome: outcome[0].item.id)
        for item, (named, results) in zip(dataset, of_items, strict=True):
            if (
                named != item.id
            ):  # ids of responses repeat, so a wrong order would give wrong scores without a word
                raise ValueError(f"outcomes of {named!r} stand where those of {item.id!r} are due")
            ids = (response.id for response in item.answers)
            scores: dict[str, float | None] = dict.fromkeys(ids)
            for blinded, result in results:
                for key, response_id in blinded.recorded.items():
                    scores[response_id] = result.scores.get(key)
            yield item, scores

    return ScoreTable.of_sets(scorer, of_sets())
