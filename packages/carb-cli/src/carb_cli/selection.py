"""The sets that a command scores."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Annotated, NamedTuple

from cyclopts import Parameter, validators

from carb_cli.display import advice
from carb_cli.family_table import is_complete
from carb_cli.main import invoked
from carb_cli.options import Names, OptionGroup
from carb_cli.progress import announced, progress
from carb_data import (
    BonSet,
    CarbError,
    Dataset,
    copies_sentence,
    is_main,
    load,
    uncollected,
    unsaid,
)
from carb_data import cultures as registry


@Parameter(name="*")
@dataclass(frozen=True)
class SetOptions(OptionGroup):
    """Options that say which sets of the data are scored."""

    limit: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None
    """At most so many sets: complete families first, spread over domains. Default: all."""
    cultures: Names = ()
    """Only the sets about these cultures; may be repeated. Default: all."""
    domains: Names = ()
    """Only the sets of these domains; may be repeated. Default: all."""
    perturbed: bool = False
    """Score the perturbed texts too: more calls, and a section on robustness in the report."""


EVERY_SET = SetOptions()
PATIENCE = 1.0
"""Seconds after which reading shows its progress."""


def select(data: Sequence[str], options: SetOptions = EVERY_SET) -> Dataset:
    """Load data sets and narrow them down.

    Raises:
        CarbError: nothing is left, a culture or domain is unknown, or two data sets share a set's
            id.
    """
    several = len(data) > 1
    datasets = [loaded(name, prefix=several) for name in data]
    dataset = Dataset(chain(*datasets)) if several else datasets[0]
    if options.cultures or options.domains:
        dataset = _narrowed(dataset, options.cultures, options.domains)
    if options.limit is not None:
        dataset = spread(dataset, options.limit)
    if not len(dataset):
        raise CarbError(
            "No sets are left to score; loosen --limit, --cultures or --domains. A family of "
            "mirrored sets counts for a culture whose language it is in."
        )
    if copies := len(dataset.origins.copies):
        advice(copies_sentence(copies, len(dataset)))
    if options.perturbed:
        return dataset
    return dataset.without_perturbed()


def loaded(name: str, *, prefix: bool = False) -> Dataset:
    """A data set; the command line fills in a missing culture, domain or language, and limits the
    rows to leave out. How it was read is printed on stderr.

    Args:
        name: carb-seed, a path, or hf://owner/name.
        prefix: whether ids in a table begin with its file's name.

    Raises:
        CarbError: it holds no sets, nothing lacks what is given, or there is no such culture.
    """
    with progress() as report:
        start = time.monotonic()

        def rows(done: int, total: int) -> None:
            if time.monotonic() - start > PATIENCE:
                report(name, done, total, "rows")

        given = invoked.filling
        begun = partial(report, name, 0, 0, "reading")
        with uncollected(lasting=True), announced(begun, PATIENCE):
            dataset = load(
                name,
                registry=registry,
                prefix=prefix,
                skip_bad=invoked.skip_bad,
                progress=rows,
                **given,
            )
    for sentence in (*dataset.notes, *unsaid(dataset)):
        advice(f"{name}: {sentence}")
    if not len(dataset):
        raise CarbError(f"{name} holds no sets.")
    return dataset


def reviewable(data: str, cultures: Sequence[str] = ()) -> Dataset:
    """The sets that people of some cultures can judge: about the place where they live, in their
    own language.

    Mirrors about other places are left out, unlike in a run: people can judge only the answer for
    their own place. Sets in another language are taken if there are none in their own.

    Args:
        data: carb-seed, a path, or hf://owner/name.
        cultures: cultures whose sets, and whose varieties' sets, are wanted; all sets if empty.

    Raises:
        CarbError: nothing is left, or a culture is unknown.
    """
    dataset = select((data,), SetOptions(perturbed=True))
    if not cultures:
        return dataset
    wanted = dataset.filter(cultures=set(cultures))
    mains = wanted.filter(lambda item: is_main(item.culture, item.language))
    kept = wanted
    if len(mains):
        kept = mains
    sizes = Counter(item.culture for item in kept)
    for culture in cultures:
        places = [
            f"{name} ({count})"
            for name, count in sorted(sizes.items())
            if name in registry and registry[name].parent == culture
        ]
        if len(places) > 1:
            raise CarbError(
                f"'{culture}' has several places, and people are asked about the one where they "
                f"live. Name one of them with its sets: {', '.join(places)}. For everybody who "
                "speaks the language, name them all."
            )
    if not len(kept):
        raise CarbError(
            f"{data} holds no sets about {' or '.join(cultures)}; name another --culture."
        )
    return kept


def _narrowed(dataset: Dataset, cultures: Sequence[str], domains: Sequence[str]) -> Dataset:
    """The sets of some cultures and domains, with the mirrors that belong to them: a family stays
    whole."""
    wanted = dataset.filter(cultures=set(cultures) or None, domains=set(domains) or None)
    families = set()
    alone = set()
    for item in wanted:
        if item.family is None:
            alone.add(item.id)
        elif is_main(item.culture, item.language):
            families.add(item.family)
    return dataset.filter(lambda item: item.id in alone or item.family in families)


class _Unit(NamedTuple):
    """A family or a single set, and what decides its turn."""

    sets: list[BonSet]
    incomplete: bool
    turn: int
    """How many units of its culture and domain come before it."""
    culture: int
    domain: int


def spread(dataset: Dataset, limit: int) -> Dataset:
    """At most ``limit`` sets, spread evenly over cultures, languages and domains; in the original
    order.

    The sets are taken in turns. A turn takes one set of each culture in each of its languages. The
    domain changes from culture to culture and from turn to turn: a few sets hold many languages and
    all domains. A country's culture counts as the one into which it rolls up. A family of mirrored
    sets stays whole. It is taken where there is room for all of its sets, and counts for its first
    set that is not a mirror. Complete families, which a place effect needs, come before everything
    else.
    """
    families: dict[tuple[str, str], list[BonSet]] = {}
    for item in dataset:
        name = ("family", item.family) if item.family else ("set", item.id)
        families.setdefault(name, []).append(item)
    cultures: dict[tuple[str, str], int] = {}
    domains: dict[str, int] = {}
    begun: Counter[tuple[bool, int, int]] = Counter()
    units = []
    for sets in families.values():
        mains = (item for item in sets if is_main(item.culture, item.language))
        first = next(mains, sets[0])
        spoken = (registry.root_id(first.culture), first.language)
        culture = cultures.setdefault(spoken, len(cultures))
        domain = domains.setdefault(first.domain, len(domains))
        incomplete = not is_complete(sets)
        group = (incomplete, culture, domain)
        units.append(_Unit(sets, incomplete, begun[group], culture, domain))
        begun[group] += 1

    def order(unit: _Unit) -> tuple[bool, int, int, int]:
        shifted = (unit.domain - unit.culture) % len(domains)
        return unit.incomplete, unit.turn, shifted, unit.culture

    kept: set[str] = set()
    for unit in sorted(units, key=order):
        if len(kept) + len(unit.sets) <= limit:
            kept.update(item.id for item in unit.sets)
    return dataset.filter(lambda item: item.id in kept)


def chance(dataset: Dataset) -> float | None:
    """Accuracy of a random pick without ties: the mean of 1/N; null for an empty data set."""
    shares = [1 / len(item.responses) for item in dataset]
    if not shares:
        return None
    return sum(shares) / len(shares)
