"""carb-open: the seed and all open sources in one benchmark, each cell filled to a cap, from
several sources evenly.

A cell is a listed culture and a domain. Keys of a higher tier come first: people's votes, texts and
catalogues before a model's texts. Within a tier the sources of a cell take turns, its local
language and English as well. A family is taken whole. The words of a source's cultural sets may
give the right answer away. Then only as many of them are taken as leave that attack at chance.
Controls have cells of their own, so that they displace none.
"""

import itertools
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import sub
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from carb_data.audit import Rows, share_won
from carb_data.dataset import SEED, load
from carb_data.declaration import Declaration, Names, Skip, order_key
from carb_data.models import BonSet, Frozen, Group, Role
from carb_data.overlap import plain
from carb_data.registry import cultures, is_mirror
from carb_data.sources.source_files import fetchable
from carb_data.sources.source_registry import rows
from carb_data.surface import overlap

_LEAKS = "left out for balance: the words of its answers or of its question tell the right answer"

Cell = tuple[str, str, Group]
_Stratum = tuple[str, str]
"""A source and a language."""
_Unit = list[BonSet]
"""A family, or a set that belongs to none."""
Excess = Mapping[str, tuple[float, float]]
"""Set id to the excess of two attacks over chance: 1 - 1/N where an attack is right, else -1/N."""
_PRIOR = 0.5
_SLACK = 1.0
"""How many sets an attack may be above chance in a draw."""
_WORKS = statistics.NormalDist().inv_cdf(0.995)
"""An attack works on a source that it wins by more standard errors than this: its 99% interval is
above chance."""


class OpenOptions(Frozen):
    """Options of ``carb-open``."""

    sources: Names = ()
    """Sources to draw from besides the seed; by default all open ones."""
    cap: int = Field(default=250, ge=1)
    """Most sets of a cell; as many mirrors, such as English sets of families, may be beside."""


OPTIONS = OpenOptions


def build(
    _: Declaration,
    path: Path,  # noqa: ARG001
    options: OpenOptions,
    seed: int,
) -> Iterator[BonSet | Skip]:
    """Yield the seed, and what the cells take of each source; the rest as skips.

    The seed drives the sources, and which of their sets are taken. The path has no effect:
    ``find_files`` finds theirs.

    Raises:
        CarbError: a source's files are not on this machine.
    """
    taken: Counter[_Bin] = Counter()
    for item in load(SEED):
        taken[_bin(item)] += 1
        yield item
    units = list(_units(options, seed))
    for silver in (False, True):
        tier = [unit for unit in units if (unit[0].provenance.tier == "silver") == silver]
        yield from _fill(tier, taken, options.cap, seed)


def cell(item: BonSet) -> Cell:
    """The listed culture, the domain and whether a set is a control."""
    return cultures.root_id(item.culture), item.domain.value, item.group


class _Bin(NamedTuple):
    """A culture, a domain and a group that are filled on their own, the mirrors apart."""

    culture: str
    domain: str
    group: Group
    counts: bool
    """Whether its sets count for the cell, or are mirrors."""

    @property
    def is_listed(self) -> bool:
        """Whether the benchmark lists the culture."""
        return self.culture in cultures.listed


def _bin(item: BonSet) -> _Bin:
    return _Bin(*cell(item), counts=not is_mirror(item))


def _units(options: OpenOptions, seed: int) -> Iterator[_Unit]:
    sources = fetchable()
    open_names = [name for name in sources if sources[name].in_carb_open]
    for name in options.sources or open_names:
        families: dict[str, _Unit] = defaultdict(list)
        for row in rows(name, seed=seed):
            if isinstance(row, BonSet):
                unit = row.family or row.id
                families[unit].append(row)
        yield from families.values()


def _fill(
    units: Sequence[_Unit],
    taken: Counter[_Bin],
    cap: int,
    seed: int,
) -> Iterator[BonSet | Skip]:
    """Take turns among the sources and languages of every bin until it is full; what is left over
    is skipped."""
    bins: dict[_Bin, dict[_Stratum, list[_Unit]]] = defaultdict(lambda: defaultdict(list))
    for unit in units:
        first = min(unit, key=_rank)
        bins[_bin(first)][_stratum(first)].append(unit)
    excess = _excess(units)
    targets = sorted(bins, key=lambda one: (not one.counts, str(tuple(one))))
    for target in targets:
        for members, fits in _in_turn(bins[target], excess, 2 * cap, seed):
            reason = None
            if not target.is_listed:
                reason = "it is about no culture of the benchmark"
            elif all(taken[one] >= cap for one in _counting(members, target)):
                reason = "its cell is full"
            elif not fits:
                reason = _LEAKS
            for item in members:
                if reason is None:
                    taken[_bin(item)] += 1
                    yield item
                else:
                    yield Skip.of(item, reason)


def _rank(item: BonSet) -> tuple[bool, bool, str]:
    """The set of a family that decides its bin has the lowest rank."""
    target = _bin(item)
    return not target.is_listed, not target.counts, item.id


def _stratum(item: BonSet) -> _Stratum:
    return item.provenance.source, item.language


def _counting(members: Iterable[BonSet], target: _Bin) -> set[_Bin]:
    """The bins that a family's members fill: of listed cultures, and mirrors or not as its own."""
    bins = set(map(_bin, members))
    return {one for one in bins if one.is_listed and one.counts == target.counts}


def _excess(units: Sequence[_Unit]) -> Excess:
    """The excess of attacks on the cultural sets that are no mirrors, learned by source and
    language."""
    strata: dict[_Stratum, list[BonSet]] = defaultdict(list)
    for item in itertools.chain.from_iterable(units):
        if _bin(item).counts and item.group != "control":
            strata[_stratum(item)].append(item)
    excess: dict[str, tuple[float, float]] = {}
    for items in strata.values():
        excess |= excess_over_chance(items)
    return excess


def _in_turn(
    strata: Mapping[_Stratum, list[_Unit]],
    excess: Excess,
    most: int,
    seed: int,
) -> Iterator[tuple[Sequence[BonSet], bool]]:
    queues = []
    for stratum in sorted(strata):
        units = sorted(strata[stratum], key=lambda unit: order_key(seed, unit[0].id))
        queues.append(balanced(units, excess, most))
    for turn in itertools.zip_longest(*queues):
        yield from filter(None, turn)


# a draw in which neither the words of the answers nor those of the question tell the right answer


def excess_over_chance(items: Sequence[BonSet]) -> dict[str, tuple[float, float]]:
    """Attack sets by what an answer shares with its question, and by words that stand in right
    answers.

    A word weighs as much as it is oftener in right answers than in wrong ones, in the other source
    items. That needs no library, so that a build is the same on every machine. An attack that does
    not work on the sets as a whole has no excess in any of them.

    Args:
        items: sets of one source and language; words are learned from all of them.
    """
    shared = [overlap(item.prompt_text, item.texts) for item in items]
    names = [item.id for item in items]
    overlaps = _excess_of(items, shared)
    words = _excess_of(items, _word_values(items))
    return dict(zip(names, zip(overlaps, words, strict=True), strict=True))


def _excess_of(items: Sequence[BonSet], values: Rows) -> list[float]:
    """The excess of an attack in each set; none where it does not work on all together."""
    chances = [1 / len(item.responses) for item in items]
    variances = [chance * (1 - chance) for chance in chances]
    error = math.sqrt(sum(variances))
    excess = list(map(sub, map(share_won, items, values), chances))
    if sum(excess) > _WORKS * error:
        return excess
    return [0.0] * len(items)


def balanced(
    units: Sequence[Sequence[BonSet]], excess: Excess, most: int
) -> Iterator[tuple[Sequence[BonSet], bool]]:
    """Yield units, each with whether it may be taken: never one that would put an attack above
    chance.

    A unit that has to wait comes as soon as others have made room for it.

    Args:
        units: what is taken as a whole, in the order wished for.
        excess: what ``excess_over_chance`` found; a set that is not in it counts for nothing.
        most: number of units after which none may be taken any more.
    """
    waiting = [(unit, *_sums(unit, excess)) for unit in units]
    overlap = words = 0.0
    for _ in range(most):
        fitting = (
            index
            for index, (_, more_overlap, more_words) in enumerate(waiting)
            if _fits(overlap, more_overlap) and _fits(words, more_words)
        )
        index = next(fitting, None)
        if index is None:
            break
        unit, more_overlap, more_words = waiting.pop(index)
        overlap += more_overlap
        words += more_words
        yield unit, True
    for unit, *_sum in waiting:
        yield unit, False


def _sums(unit: Iterable[BonSet], excess: Excess) -> tuple[float, float]:
    """The excess of both attacks over a unit's sets."""
    overlap = words = 0.0
    for item in unit:
        more_overlap, more_words = excess.get(item.id, (0.0, 0.0))
        overlap += more_overlap
        words += more_words
    return overlap, words


def _fits(so_far: float, more: float) -> bool:
    return more <= 0 or so_far + more <= _SLACK


def _word_values(items: Sequence[BonSet]) -> list[list[float]]:
    """For each answer the mean weight of its words; a set's own source item and family teach it
    nothing."""
    right: dict[str, Counter[str]] = defaultdict(Counter)
    wrong: dict[str, Counter[str]] = defaultdict(Counter)
    for item in items:
        name = item.family or item.source_item
        for response in item.responses:
            counts = wrong
            if response.role is Role.CHOSEN:
                counts = right
            counts[name].update(_pieces(response.text))
    all_right = _total(right.values())
    all_wrong = _total(wrong.values())
    rows = []
    for item in items:
        name = item.family or item.source_item
        in_right = right[name]
        in_wrong = wrong[name]
        pieces = [_pieces(response.text) for response in item.responses]
        weights = {}
        for piece in frozenset().union(*pieces):
            more = all_right[piece] - in_right[piece] + _PRIOR
            less = all_wrong[piece] - in_wrong[piece] + _PRIOR
            weights[piece] = math.log(more / less)
        rows.append([_mean(weights, held) for held in pieces])
    return rows


def _total(counts: Iterable[Counter[str]]) -> Counter[str]:
    total = Counter[str]()
    for one in counts:
        total.update(one)
    return total


def _mean(weights: Mapping[str, float], pieces: frozenset[str]) -> float:
    total = math.fsum(weights[piece] for piece in pieces)
    mean = total / max(1, len(pieces))
    return round(mean, 9)


@lru_cache(maxsize=2**14)  # mirrored sets repeat their answers
def _pieces(text: str) -> frozenset[str]:
    """Words, and runs of up to three characters, which are all that a script without spaces has."""
    normal = plain(text)
    pieces = set(normal.split())
    for size in (1, 2, 3):
        for start in range(len(normal) - size + 1):
            pieces.add(normal[start : start + size])
    return frozenset(pieces)
