"""carb-open: the seed and all open sources in one benchmark, each cell filled to a cap, from several sources evenly.

A cell is a listed culture and a domain. Keys of a higher tier come first: what people voted for, wrote or catalogued
before what a model wrote. Within a tier the sources of a cell take turns, its local language and English as well. A
family is taken whole. Where the words of a source's cultural sets tell the right answer, only as many of these sets
are taken as leave that attack at chance. Controls have cells of their own, so that they displace none.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from pydantic import Field

from carb_data.dataset import SEED, load
from carb_data.models import BonSet, Frozen, Group
from carb_data.registry import cultures, is_main
from carb_data.sources.balance import Excess, balanced, excess_over_chance
from carb_data.sources.declaration import Declaration
from carb_data.sources.source_build import rows
from carb_data.sources.source_files import fetchable
from carb_data.sources.source_interface import Names, Skip

__all__ = ["OPTIONS", "build", "cell"]

_LEAKS = "left out for balance: the words of its answers or of its question tell the right answer"

Cell = tuple[str, str, Group]
_Bin = tuple[str, str, Group, bool]
"""A cell, and whether a set counts for it or is a mirror; each is filled on its own."""
_Unit = list[BonSet]
"""A family, or a set that belongs to none."""


class OpenOptions(Frozen):
    """OpenOptions of ``carb-open``."""

    sources: Names = ()
    """Sources to draw from besides the seed; by default all open ones."""
    cap: int = Field(250, ge=1)
    """Most sets of a cell; as many mirrors, such as English sets of families, may be beside."""


OPTIONS = OpenOptions


def build(_: Declaration, path: Path, options: OpenOptions, seed: int) -> Iterator[BonSet | Skip]:  # noqa: ARG001
    """Yield the seed, and what the cells take of each source; the rest as skips.

    The seed drives the sources, and which of their sets are taken. The path has no effect: ``find_files`` finds theirs.

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
    culture = cultures.root(item.culture).id if item.culture in cultures else item.culture
    return culture, item.domain.value, "control" if item.group == "control" else "culture"


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


def _fill(units: Sequence[_Unit], taken: Counter[_Bin], cap: int, seed: int) -> Iterator[BonSet | Skip]:
    """Take turns among the sources and languages of every bin until it is full; what is left over is skipped."""
    listed = {culture.id for culture in cultures}
    bins: dict[_Bin, dict[tuple[str, str], list[_Unit]]] = defaultdict(lambda: defaultdict(list))
    for unit in units:
        first = min(unit, key=lambda item: (_bin(item)[0] not in listed, not _bin(item)[3], item.id))
        bins[_bin(first)][first.provenance.source, first.language].append(unit)
    excess = _excess(units)
    for place in sorted(bins, key=lambda place: (not place[3], str(place))):
        for members, fits in _in_turn(bins[place], excess, 2 * cap, seed):
            counting = {_bin(item) for item in members if _bin(item)[0] in listed and _bin(item)[3] == place[3]}
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
                    yield Skip(source_id=item.id, reason=reason, culture=item.culture, language=item.language)


def _excess(units: Sequence[_Unit]) -> Excess:
    """The excess of attacks on the cultural sets that are no mirrors, learned by source and language."""
    strata: dict[tuple[str, str], list[BonSet]] = defaultdict(list)
    for item in itertools.chain.from_iterable(units):
        if _bin(item)[3] and item.group != "control":
            strata[item.provenance.source, item.language].append(item)
    return {name: row for items in strata.values() for name, row in excess_over_chance(items).items()}


def _in_turn(
    strata: Mapping[tuple[str, str], list[_Unit]], excess: Excess, most: int, seed: int
) -> Iterator[tuple[Sequence[BonSet], bool]]:
    queues = [
        balanced(sorted(units, key=lambda unit: sha256(f"{seed}\0{unit[0].id}".encode()).digest()), excess, most)
        for _, units in sorted(strata.items())
    ]
    for turn in itertools.zip_longest(*queues):
        yield from (unit for unit in turn if unit is not None)
