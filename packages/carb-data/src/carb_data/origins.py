"""Ties between sets that are not independent: of one source item, family or fact, and copies."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain, pairwise, product

import polars as pl
from polars import col

from carb_data.collector import uncollected
from carb_data.joined import Joined
from carb_data.models import BonSet, cited
from carb_data.overlap import COMMON, LEAST, THRESHOLD, normalise, windows

MOST_SETS = 100_000
"""Near-copies are looked for in data sets of at most so many sets; copies always are."""
ALIKE = 0.5
"""Share of two right answers' pairs of characters that makes them variants of one."""

_NUMBER = re.compile(r"\d+")
_START = 64
"""Characters of a question that are compared first."""


class Origins(dict[str, str]):
    """Set id to origin: the least name of a source item among all that are tied to the set.

    The name does not depend on the order of the sets.
    """

    def __init__(self, names: Mapping[str, str], copies: Iterable[str]) -> None:
        super().__init__(names)
        self.copies = frozenset(copies)
        """Ids of sets that copy, or nearly copy, a set from another source item. Of each group one
        set, with its source item, is left out."""


def copies_sentence(copies: int, sets: int) -> str:
    """How many sets are copies, for a reader."""
    return (
        f"{copies:,} of {sets:,} sets are copies or near-copies of sets from another source item. "
        "Intervals count such copies once; carb data check names them."
    )


@uncollected()
def origins(items: Sequence[BonSet]) -> Origins:
    """The origin of each set.

    Sets of one source item or family are tied, and sets with answers that follow one fact
    (``Citation.fact``). So are sets with the same prompt and the same right answer, and
    near-copies. There one family holds ``THRESHOLD`` of the n-grams of the other, and a right
    answer of both is alike. Ties connect: sets tied to the same set have one origin.
    """
    joined = Joined()
    of_sources = [(item, item.source_item) for item in items]
    for item, source in of_sources:
        if item.family:
            joined.tie(source, ("family", item.family))
    units: defaultdict[str, list[BonSet]] = defaultdict(list)
    if len(items) <= MOST_SETS:
        for item, source in of_sources:
            name = joined.name(source)
            units[name].append(item)
    for item, source in of_sources:
        for fact in cited(item.responses):
            joined.tie(source, ("fact", fact))
    before = [joined.name(source) for _, source in of_sources]
    starts = [_start(item) for item, _ in of_sources]
    times = Counter(starts)
    for (item, source), start in zip(of_sources, starts, strict=True):
        if times[start] > 1:
            joined.tie(source, _asked(item))
    for one, other in _near_copies(units, joined):
        joined.join(one, other)
    after = {item.id: joined.name(source) for item, source in of_sources}
    pairs = zip(items, before, strict=True)
    copies = [item.id for item, name in pairs if after[item.id] != name]
    return Origins(after, copies)


def _start(item: BonSet) -> int:
    """What sets with the same question share, at a tenth of the cost of ``_asked``: a number of how
    the question begins."""
    text = item.prompt_text
    start = normalise(text[:_START])
    if len(start) < _START // 2:
        start = normalise(text)
    return hash(start[: _START // 4])


def _asked(item: BonSet) -> bytes | None:
    """A digest of question and right answer, since a million of the texts are large; null where
    the question is punctuation, which is no evidence."""
    prompt = normalise(item.prompt_text)
    if not prompt:
        return None
    answer = item.chosen.text
    text = f"{prompt}\0{normalise(answer) or answer}"
    content = text.encode("utf-8", "surrogatepass")
    return blake2b(content, digest_size=16).digest()


def _near_copies(
    units: Mapping[str, Sequence[BonSet]], joined: Joined
) -> Iterator[tuple[str, str]]:
    """Pairs of units of which one nearly holds the other, and a right answer of both is alike."""
    names = sorted(units)
    origin = [joined.name(name) for name in names]
    ordered = [units[name] for name in names]
    for one, other in _held(ordered):
        if origin[one] == origin[other]:
            continue
        pairs = product(_right(ordered[one]), _right(ordered[other]))
        if any(_alike(*pair) for pair in pairs):
            yield names[one], names[other]


def _right(items: Sequence[BonSet]) -> set[str]:
    return {normalise(item.chosen.text) for item in items}


def _held(units: Sequence[Sequence[BonSet]]) -> list[tuple[int, int]]:
    """Pairs of units, by number: the second holds ``THRESHOLD`` of the n-grams of the first, which
    has no more than it.

    An n-gram in more than ``COMMON`` of them is boilerplate, and no evidence. Most n-grams stand in
    one unit alone, so few units share enough with others to be held; only these are paired. N-grams
    of the same units (``owners``, a hash of their numbers) are counted together.
    """
    size = col("size")
    telling = col("width") <= COMMON
    enough = THRESHOLD * size
    grams = [_grams(of_unit) for of_unit in units]
    counts = [*map(len, grams)]
    sizes = pl.DataFrame({"unit": range(len(units)), "size": counts})
    several = _shared_grams(sizes, grams)
    by_unit = several.group_by("unit")
    of_units = by_unit.agg(
        shared=telling.sum(),
        boilerplate=(~telling).sum(),
    )
    sizes = sizes.join(of_units, on="unit")
    sizes = sizes.with_columns(size - col("boilerplate"))
    sizes = sizes.filter(size >= LEAST)
    within = sizes.filter(col("shared") >= enough)
    known = _counted(several.filter(telling), within)
    held = known.join(within, on="unit")
    sized = known.join(sizes, on="unit")
    pairs = held.join(sized, on="owners", suffix="_b")
    smaller = size <= col("size_b")
    distinct = col("unit") != col("unit_b")
    pairs = pairs.filter(distinct, smaller)
    by_pair = pairs.group_by("unit", "unit_b", "size")
    count = col("count")
    near = by_pair.agg(count.sum())
    near = near.filter(count >= enough)
    near = near.select("unit", "unit_b")
    return near.sort("unit", "unit_b").rows()


def _counted(evidence: pl.DataFrame, within: pl.DataFrame) -> pl.DataFrame:
    """``count`` of the n-grams of each unit that have the same ``owners``.

    Args:
        evidence: ``unit`` and ``gram`` of each n-gram that counts.
        within: the units that others may hold; n-grams of no such unit are left out.
    """
    of_held = evidence.join(within, on="unit", how="semi")
    common = evidence.join(of_held, on="gram", how="semi")
    owners = col("unit").hash().sum()
    common = common.with_columns(owners=owners.over("gram"))
    return common.group_by("unit", "owners").agg(count=pl.len())


def _shared_grams(sizes: pl.DataFrame, grams: Iterable[set[int]]) -> pl.DataFrame:
    """``unit`` and ``gram`` of each n-gram of several units, with ``width``, their number.

    Args:
        sizes: ``unit``, its number, and ``size``, the number of its n-grams.
        grams: those of each unit.
    """
    filled = sizes.filter(col("size") > 0)
    numbers = filled.select(col("unit").repeat_by("size").explode())
    every = [*chain.from_iterable(grams)]
    rows = numbers.with_columns(gram=pl.Series(every, dtype=pl.Int64))
    several = rows.filter(col("gram").is_duplicated())  # few
    return several.with_columns(width=pl.len().over("gram"))


def _grams(items: Sequence[BonSet]) -> set[int]:
    """Hashes of the n-grams of all texts of some sets; a text too short for one is one itself."""
    texts = {text for item in items for text in (item.prompt_text, *item.texts)}
    grams: set[int] = set()
    for text in map(normalise, texts):
        if text:
            pieces = windows(text) or [text]
            grams.update(map(hash, pieces))
    return grams


def _alike(one: str, other: str) -> bool:
    """Whether two right answers are variants of one; with other numbers they are two."""
    if one == other:
        return True
    if _NUMBER.findall(one) != _NUMBER.findall(other):
        return False
    first = {*pairwise(one)}
    second = {*pairwise(other)}
    shared = first & second
    size = len(first) + len(second)
    return 2 * len(shared) > ALIKE * size
