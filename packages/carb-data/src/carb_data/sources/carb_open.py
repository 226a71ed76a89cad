"""carb-open: the seed and all open sources in one benchmark, each cell filled to a cap, from
several sources evenly.

A cell is a listed culture and a domain. Keys of a higher tier come first: what people voted for,
wrote or catalogued before what a model wrote. Within a tier the sources of a cell take turns, its
local language and English as well. A family is taken whole. Where the words of a source's cultural
sets tell the right answer, only as many of these sets are taken as leave that attack at chance.
Controls have cells of their own, so that they displace none.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from pydantic import Field

from carb_data.audit import share_won
from carb_data.dataset import SEED, load
from carb_data.declaration import Declaration, Names, Skip
from carb_data.models import BonSet, Frozen, Group, Role
from carb_data.overlap import plain
from carb_data.registry import cultures, is_main
from carb_data.sources.source_files import fetchable
from carb_data.sources.source_registry import rows
from carb_data.surface import overlap

__all__ = ["OPTIONS", "build", "cell"]

_LEAKS = "left out for balance: the words of its answers or of its question tell the right answer"

Cell = tuple[str, str, Group]
_Bin = tuple[str, str, Group, bool]
"""A cell, and whether a set counts for it or is a mirror; each is filled on its own."""
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
    cap: int = Field(250, ge=1)
    """Most sets of a cell; as many mirrors, such as English sets of families, may be beside."""


OPTIONS = OpenOptions


def build(_: Declaration, path: Path, options: OpenOptions, seed: int) -> Iterator[BonSet | Skip]:  # noqa: ARG001
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
    return (
        cultures.root_id(item.culture),
        item.domain.value,
        "control" if item.group == "control" else "culture",
    )


def _bin(item: BonSet) -> _Bin:
    return *cell(item), item.family is None or is_main(item.culture, item.language)


def _units(options: OpenOptions, seed: int) -> Iterator[_Unit]:
    open_names = [name for name, source in fetchable().items() if source.in_carb_open]
    for name in options.sources or open_names:
        families: dict[str, _Unit] = defaultdict(list)
        for row in rows(name, seed=seed):
            if isinstance(row, BonSet):
                families[row.family or row.id].append(row)
        yield from families.values()


def _fill(
    units: Sequence[_Unit], taken: Counter[_Bin], cap: int, seed: int
) -> Iterator[BonSet | Skip]:
    """Take turns among the sources and languages of every bin until it is full; what is left over
    is skipped."""
    listed = {culture.id for culture in cultures}
    bins: dict[_Bin, dict[tuple[str, str], list[_Unit]]] = defaultdict(lambda: defaultdict(list))
    for unit in units:
        first = min(
            unit, key=lambda item: (_bin(item)[0] not in listed, not _bin(item)[3], item.id)
        )
        bins[_bin(first)][first.provenance.source, first.language].append(unit)
    excess = _excess(units)
    for place in sorted(bins, key=lambda place: (not place[3], str(place))):
        for members, fits in _in_turn(bins[place], excess, 2 * cap, seed):
            counting = {
                _bin(item)
                for item in members
                if _bin(item)[0] in listed and _bin(item)[3] == place[3]
            }
            reason = None if fits else _LEAKS
            if place[0] not in listed:
                reason = "it is about no culture of the benchmark"
            elif all(taken[own] >= cap for own in counting):
                reason = "its cell is full"
            for item in members:
                if reason is None:
                    taken[_bin(item)] += 1
                    yield item
                else:
                    yield Skip(
                        source_id=item.id,
                        reason=reason,
                        culture=item.culture,
                        language=item.language,
                    )


def _excess(units: Sequence[_Unit]) -> Excess:
    """The excess of attacks on the cultural sets that are no mirrors, learned by source and
    language."""
    strata: dict[tuple[str, str], list[BonSet]] = defaultdict(list)
    for item in itertools.chain.from_iterable(units):
        if _bin(item)[3] and item.group != "control":
            strata[item.provenance.source, item.language].append(item)
    return {
        name: row for items in strata.values() for name, row in excess_over_chance(items).items()
    }


def _in_turn(
    strata: Mapping[tuple[str, str], list[_Unit]], excess: Excess, most: int, seed: int
) -> Iterator[tuple[Sequence[BonSet], bool]]:
    queues = [
        balanced(
            sorted(units, key=lambda unit: sha256(f"{seed}\0{unit[0].id}".encode()).digest()),
            excess,
            most,
        )
        for _, units in sorted(strata.items())
    ]
    for turn in itertools.zip_longest(*queues):
        yield from (unit for unit in turn if unit is not None)


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
    shared = [
        _over_chance(item, overlap(item.prompt_text, tuple(r.text for r in item.responses)))
        for item in items
    ]
    words = [_over_chance(item, row) for item, row in zip(items, _word_values(items), strict=True)]
    chances = [1 / len(item.responses) for item in items]
    least = _WORKS * math.sqrt(sum(chance * (1 - chance) for chance in chances))
    pair = [row if sum(row) > least else [0.0] * len(items) for row in (shared, words)]
    return {item.id: (first, second) for item, first, second in zip(items, *pair, strict=True)}


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
    waiting = [(unit, [excess[item.id] for item in unit if item.id in excess]) for unit in units]
    sums = [
        (unit, sum(row[0] for row in rows), sum(row[1] for row in rows)) for unit, rows in waiting
    ]
    overlap = words = 0.0
    for _ in range(most):
        fits = (
            n for n, (_, *own) in enumerate(sums) if _fits(overlap, own[0]) and _fits(words, own[1])
        )
        place = next(fits, None)
        if place is None:
            break
        unit, more_overlap, more_words = sums.pop(place)
        overlap, words = overlap + more_overlap, words + more_words
        yield unit, True
    yield from ((unit, False) for unit, *_ in sums)


def _fits(so_far: float, more: float) -> bool:
    return more <= 0 or so_far + more <= _SLACK


def _over_chance(item: BonSet, values: Sequence[float]) -> float:
    return share_won(item, values) - 1 / len(item.responses)


def _word_values(items: Sequence[BonSet]) -> list[list[float]]:
    """For each answer the mean weight of its words; a set's own source item and family teach it
    nothing."""
    pieces = [[_pieces(response.text) for response in item.responses] for item in items]
    names = [item.family or item.source_item for item in items]
    own: dict[str, tuple[Counter[str], Counter[str]]] = defaultdict(lambda: (Counter(), Counter()))
    for item, name, parts in zip(items, names, pieces, strict=True):
        for response, held in zip(item.responses, parts, strict=True):
            own[name][response.role is not Role.CHOSEN].update(held)
    right, wrong = Counter[str](), Counter[str]()
    for first, second in own.values():
        right.update(first)
        wrong.update(second)
    rows = []
    for name, parts in zip(names, pieces, strict=True):
        first, second = own[name]
        weights = {
            piece: math.log(
                (right[piece] - first[piece] + _PRIOR) / (wrong[piece] - second[piece] + _PRIOR)
            )
            for piece in frozenset().union(*parts)
        }
        rows.append(
            [
                round(math.fsum(weights[piece] for piece in held) / (len(held) or 1), 9)
                for held in parts
            ]
        )
    return rows


def _pieces(text: str) -> frozenset[str]:
    """Words, and runs of up to three characters, which are all that a script without spaces has."""
    said = plain(text)
    return frozenset(said.split()) | {
        said[n : n + size] for size in (1, 2, 3) for n in range(len(said) - size + 1)
    }
