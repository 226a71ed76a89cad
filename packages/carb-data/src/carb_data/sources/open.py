"""carb-open: the seed and all open sources in one benchmark, each cell filled to a cap, from several sources evenly.

A cell is a listed culture and a domain. Keys of a higher tier come first: what people voted for, wrote or catalogued
before what a model wrote. Within a tier the sources of a cell take turns, its local language and English as well. A
family is taken whole. Where the words of a source's cultural sets give right answers away, only as many of these are
taken as chance allows. Controls have cells of their own, so that they displace none.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from pydantic import Field

from carb_data.dataset import SEED, load
from carb_data.errors import CarbError
from carb_data.models import BonSet, Group
from carb_data.registry import cultures, is_main
from carb_data.sources.balance import Ahead, ahead_of_chance, balanced
from carb_data.sources.base import Names, Options, Source, rows, sources
from carb_data.sources.grouping import plain
from carb_data.sources.models import Skip
from carb_data.sources.published import find_files, published_names

__all__ = ["NAME", "SOURCE", "cell"]

NAME = "carb-open"

_TELLING = "left out for balance: the words of its answers or of its question give the right answer away"

Cell = tuple[str, str, Group]
_Bin = tuple[str, str, Group, bool]
"""A cell, and whether a set counts for it or is a mirror; each is filled on its own."""


class OpenOptions(Options):
    """Options of ``carb-open``."""

    sources: Names = Field((), description="Sources to draw from besides the seed; by default all open ones")
    cap: int = Field(
        250, ge=1, description="Most sets of a cell; as many mirrors, such as English sets of families, may be beside"
    )
    missing: bool = Field(False, description="Go on without sources whose files are not on this machine")


def build(path: Path, options: OpenOptions, seed: int) -> Iterator[BonSet | Skip]:  # noqa: ARG001 - a source's signature
    """Yield the seed, and what the cells take of each source; the rest as skips.

    Args:
        path: It has no effect here: each source's files are found by ``find_files``.
        options: The sources and the cap of each cell.
        seed: drives the sources, and which of their sets are taken.

    Raises:
        CarbError: a source's files are not on this machine, unless ``missing``.
    """
    taken: Counter[_Bin] = Counter()
    asked: set[tuple[str, str]] = set()
    for item in load(SEED):
        taken[_bin(item)] += 1
        asked.add((item.culture, plain(item.prompt_text)))
        yield item
    units = list(_units(options, seed))
    for silver in (False, True):
        yield from _fill([unit for unit in units if _is_silver(unit[0]) == silver], taken, asked, options.cap, seed)


def cell(item: BonSet) -> Cell:
    """The listed culture, the domain and whether a set is a control."""
    culture = cultures.root(item.culture).id if item.culture in cultures else item.culture
    return culture, item.domain.value, "control" if item.group == "control" else "culture"


def _bin(item: BonSet) -> _Bin:
    return *cell(item), item.family is None or is_main(item.culture, item.language)


def _is_silver(item: BonSet) -> bool:
    return item.provenance.tier == "silver"


def _units(options: OpenOptions, seed: int) -> Iterator[list[BonSet]]:
    """Families, and sets that belong to none, of all sources."""
    for name in options.sources or _open_names():
        try:
            find_files(sources[name].files or name)
        except CarbError:
            if options.missing and not options.sources:
                continue
            raise
        families: dict[str, list[BonSet]] = defaultdict(list)
        for row in rows(name, seed=seed):
            if isinstance(row, BonSet):
                families[row.family or row.id].append(row)
        yield from families.values()


def _open_names() -> list[str]:
    known = set(published_names())
    found = [name for name in sources if name != NAME and (sources[name].files or name) in known]
    return sorted(found, key=lambda name: (name == "blend", name))  # what its families ask is not asked again


def _fill(
    units: Sequence[list[BonSet]], taken: Counter[_Bin], asked: set[tuple[str, str]], cap: int, seed: int
) -> Iterator[BonSet | Skip]:
    """Take turns among the sources and languages of every bin until it is full; what is left over is skipped."""
    bins: dict[_Bin, dict[tuple[str, str], list[list[BonSet]]]] = defaultdict(lambda: defaultdict(list))
    for unit in units:
        first = min(unit, key=lambda item: (_bin(item)[0] not in _listed(), not _bin(item)[3], item.id))
        bins[_bin(first)][first.provenance.source, first.language].append(unit)
    ahead = _ahead(units)
    for place in sorted(bins, key=lambda place: (not place[3], str(place))):
        for members, fits in _in_turn(bins[place], ahead, 2 * cap, seed):
            reason = _why_not(members, place, taken, asked, cap) or (None if fits else _TELLING)
            for item in members:
                if reason is None:
                    taken[_bin(item)] += 1
                    asked.add((item.culture, plain(item.prompt_text)))
                    yield item
                else:
                    yield Skip(source_id=item.id, reason=reason, culture=item.culture, language=item.language)


def _ahead(units: Sequence[list[BonSet]]) -> dict[str, tuple[float, float]]:
    """How far attacks are ahead of chance in the cultural sets that are no mirrors, by source and language."""
    strata: dict[tuple[str, str], list[BonSet]] = defaultdict(list)
    for item in itertools.chain.from_iterable(units):
        if _bin(item)[3] and item.group != "control":
            strata[item.provenance.source, item.language].append(item)
    return {name: row for items in strata.values() for name, row in ahead_of_chance(items).items()}


def _in_turn(
    strata: Mapping[tuple[str, str], list[list[BonSet]]], ahead: Ahead, most: int, seed: int
) -> Iterator[tuple[Sequence[BonSet], bool]]:
    queues = [
        balanced(sorted(units, key=lambda unit: sha256(f"{seed}\0{unit[0].id}".encode()).digest()), ahead, most)
        for _, units in sorted(strata.items())
    ]
    for turn in itertools.zip_longest(*queues):
        yield from (unit for unit in turn if unit is not None)


def _why_not(
    unit: Sequence[BonSet], place: _Bin, taken: Counter[_Bin], asked: set[tuple[str, str]], cap: int
) -> str | None:
    if place[0] not in _listed():
        return "it is about no culture of the benchmark"
    if all(taken[_bin(item)] >= cap for item in unit if _bin(item)[0] in _listed() and _bin(item)[3] == place[3]):
        return "its cell is full"
    if unit[0].provenance.source == "blend" and any((i.culture, plain(i.prompt_text)) in asked for i in unit):
        return "its question is asked already"
    return None


def _listed() -> set[str]:
    return {culture.id for culture in cultures}


SOURCE = Source(
    name=NAME,
    description="The seed and all open sources in one balanced benchmark, from files that carb data fetch got",
    license="those of its sources",
    rows=build,
    options=OpenOptions,
    files="",
)
