"""Which sets are not independent: those of one source item, family or fact, and copies."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product

import polars as pl

from carb_data.joined import Joined
from carb_data.models import BonSet, cited
from carb_data.overlap import COMMON, LEAST, THRESHOLD, ngrams, normalise

__all__ = ["Origins", "copies_sentence", "origins"]

MOST_SETS = 100_000
"""Near-copies are looked for in data sets of at most so many sets; copies always are."""
ALIKE = 0.5
"""Share of two right answers' pairs of characters that makes them variants of one."""

_NUMBER = re.compile(r"\d+")


class Origins(dict[str, str]):
    """Set id to origin: the least name of a source item among all that are tied to the set.

    The name does not depend on the order of the sets.
    """

    def __init__(self, names: Mapping[str, str], copies: Iterable[str]) -> None:
        super().__init__(names)
        self.copies = frozenset(copies)
        """Ids of sets that are copies or near-copies of a set from another source item; of each
        group one, with its source item, is left out."""


def copies_sentence(copies: int, sets: int) -> str:
    """How many sets are copies, for a reader."""
    return (
        f"{copies:,} of {sets:,} sets are copies or near-copies of sets from another source item. "
        "Intervals count such copies once; carb data check names them."
    )


def origins(items: Sequence[BonSet]) -> Origins:
    """The origin of each set.

    Tied are sets of one source item or family; sets of which answers follow one fact
    (``Citation.fact``); sets with the same prompt and the same right answer; and near-copies: one
    family holds ``THRESHOLD`` of the n-grams of the other, and a right answer of both is alike.
    Ties connect: what is tied to the same set has one origin.
    """
    joined = Joined()
    for item in items:
        joined.tie(item.source_item, item.family and ("family", item.family))
    units: defaultdict[str, list[BonSet]] = defaultdict(list)
    for item in items:
        units[joined.name(item.source_item)].append(item)
    for item in items:
        for fact in cited(item.responses):
            joined.tie(item.source_item, ("fact", fact))
    before = {item.id: joined.name(item.source_item) for item in items}
    for item in items:
        joined.tie(item.source_item, _asked(item))
    if len(items) <= MOST_SETS:
        for one, other in _near_copies(units, joined):
            joined.join(one, other)
    after = {item.id: joined.name(item.source_item) for item in items}
    return Origins(after, (name for name, origin in after.items() if origin != before[name]))


def _asked(item: BonSet) -> tuple[str, str] | None:
    """Question and right answer; null where the question is punctuation, which is no evidence."""
    prompt = normalise(item.prompt_text)
    return (prompt, normalise(item.chosen.text) or item.chosen.text) if prompt else None


def _near_copies(
    units: Mapping[str, Sequence[BonSet]], joined: Joined
) -> Iterator[tuple[str, str]]:
    """Pairs of units of which one nearly holds the other.

    An n-gram in more than ``COMMON`` of them is boilerplate, and no evidence.
    """
    names = sorted(units)
    origin = [joined.name(name) for name in names]
    size, shared = Counter[int](), Counter[tuple[int, int]]()
    for numbers, grams in _owners([units[name] for name in names]).items():
        size.update(dict.fromkeys(numbers, grams))
        for one, other in combinations(numbers, 2):
            if origin[one] != origin[other]:
                shared[one, other] += grams
    right = [{normalise(item.chosen.text) for item in units[name]} for name in names]
    for (one, other), count in shared.items():
        if count < THRESHOLD * LEAST:
            continue
        least = min(size[one], size[other])
        near = least >= LEAST and count >= THRESHOLD * least
        if near and any(_alike(*pair) for pair in product(right[one], right[other])):
            yield names[one], names[other]


def _owners(units: Sequence[Sequence[BonSet]]) -> Counter[tuple[int, ...]]:
    """Units that share n-grams, as rising numbers, and how many; n-grams of more than ``COMMON``
    units are left out.

    Most n-grams stand in one unit alone, so they are numbers in a table, not keys of a dict.
    """
    grams = [list(map(hash, _grams(unit))) for unit in units]
    numbers = pl.Series("unit", range(len(units)), dtype=pl.Int64)
    table = pl.DataFrame({"unit": numbers, "gram": pl.Series(grams, dtype=pl.List(pl.Int64))})
    rows = table.explode("gram").drop_nulls().with_columns(owners=pl.len().over("gram"))
    alone = rows.filter(pl.col("owners") == 1).group_by("unit").len()
    shared = rows.filter(pl.col("owners").is_between(2, COMMON))
    groups = shared.group_by("gram").agg(pl.col("unit").sort())
    counts = Counter(tuple(group) for group in groups["unit"].to_list())
    counts.update({(unit,): count for unit, count in alone.rows()})
    return counts


def _grams(items: Sequence[BonSet]) -> set[str]:
    """The n-grams of all texts of some sets; a text too short for one is one itself."""
    answers = (response.text for item in items for response in item.responses)
    texts = {normalise(text) for text in {*answers, *(item.prompt_text for item in items)}}
    return {gram for text in texts - {""} for gram in ngrams(text) or {text}}


def _alike(one: str, other: str) -> bool:
    """Whether two right answers are variants of one; with other numbers they are two."""
    pairs = [{text[at : at + 2] for at in range(len(text) - 1)} for text in (one, other)]
    near = 2 * len(pairs[0] & pairs[1]) > ALIKE * sum(map(len, pairs))
    return one == other or (near and _NUMBER.findall(one) == _NUMBER.findall(other))
