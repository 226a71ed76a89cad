"""Which sets a command scores."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from carb_cli import display
from carb_cli.main import invoked
from carb_cli.options import OptionGroup, Several
from carb_cli.progress import announced, progress
from carb_data import CarbError, Dataset, copies_sentence, is_main, load, uncollected, unsaid
from carb_data import cultures as registry


@Parameter(name="*")
@dataclass(frozen=True)
class SetOptions(OptionGroup):
    """Options that say which sets of the data are scored."""

    limit: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None
    """At most so many sets: complete families first, spread over domains. Default: all."""
    cultures: Annotated[tuple[str, ...], Several] = ()
    """Only the sets about these cultures; may be repeated. Default: all."""
    domains: Annotated[tuple[str, ...], Several] = ()
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
    dataset = Dataset(item for name in data for item in loaded(name, prefix=several))
    if not len(dataset):
        raise CarbError(f"{' and '.join(data)} {'holds' if len(data) == 1 else 'hold'} no sets.")
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
        display.advice(copies_sentence(copies, len(dataset)))
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
        detects = Path(name).is_file() and "language" not in given
        detail = "reading; a language that no column gives is detected" if detects else "reading"
        with uncollected(lasting=True), announced(partial(report, name, 0, 0, detail), PATIENCE):
            dataset = load(
                name,
                registry=registry,
                prefix=prefix,
                skip_bad=invoked.skip_bad,
                progress=rows,
                **given,
            )
    for sentence in (*dataset.notes, *unsaid(dataset)):
        display.advice(f"{name}: {sentence}")
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
    wanted = dataset
    if cultures:
        wanted = dataset.filter(cultures=set(cultures))
    mains = wanted
    if cultures:
        mains = wanted.filter(lambda item: is_main(item.culture, item.language))
    kept = mains if len(mains) else wanted
    for culture in cultures:
        places = Counter(
            i.culture
            for i in kept
            if i.culture in registry and registry[i.culture].parent == culture
        )
        if len(places) > 1:
            named = ", ".join(f"{place} ({count})" for place, count in sorted(places.items()))
            raise CarbError(
                f"'{culture}' has several places, and people are asked about the one where they "
                f"live. Name one of them with its sets: {named}. For everybody who speaks the "
                "language, name them all."
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
    items = list(dataset)
    units: dict[str, list[int]] = {}
    for index, item in enumerate(items):
        units.setdefault(f"family:{item.family}" if item.family else f"set:{item.id}", []).append(
            index
        )
    cultures: dict[tuple[str, str], int] = {}
    domains: dict[str, int] = {}
    taken: Counter[tuple[bool, int, int]] = Counter()
    keyed = []
    for places in units.values():
        first = next(
            (items[p] for p in places if is_main(items[p].culture, items[p].language)),
            items[places[0]],
        )
        root = registry.root_id(first.culture)
        culture = cultures.setdefault((root, first.language), len(cultures))
        domain = domains.setdefault(str(first.domain), len(domains))
        later = len({items[p].chosen.text for p in places}) < len(first.responses)
        keyed.append((later, taken[later, culture, domain], domain, culture, places))
        taken[later, culture, domain] += 1
    turns = (
        (later, n, (domain - culture) % len(domains), culture, p)
        for later, n, domain, culture, p in keyed
    )
    kept: set[int] = set()
    for *_, places in sorted(turns):
        if len(kept) + len(places) <= limit:
            kept.update(places)
    return Dataset(item for index, item in enumerate(items) if index in kept)


def chance(dataset: Dataset) -> float | None:
    """Accuracy of a random pick without ties: the mean of 1/N; null for an empty data set."""
    sizes = [len(item.responses) for item in dataset]
    if not sizes:
        return None
    return sum(1 / size for size in sizes) / len(sizes)
