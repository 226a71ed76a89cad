"""Which sets a run scores."""

from __future__ import annotations

from collections.abc import Sequence

from carb_data import BonSet, CarbError, Dataset, is_main, load
from carb_data import cultures as registry


def select(
    data: Sequence[str],
    *,
    limit: int | None = None,
    cultures: Sequence[str] = (),
    domains: Sequence[str] = (),
    perturbed: bool = True,
) -> Dataset:
    """Load data sets and narrow them down.

    Raises:
        CarbError: nothing is left, a culture or domain is unknown, or two data sets share a set's id.
    """
    dataset = Dataset(item for name in data for item in load(name))
    if not len(dataset):
        raise CarbError(f"{' and '.join(data)} {'holds' if len(data) == 1 else 'hold'} no sets.")
    if cultures or domains:
        dataset = _narrowed(dataset, cultures, domains)
    if limit is not None:
        dataset = spread(dataset, limit)
    if not perturbed:
        dataset = Dataset(item.model_copy(update={"perturbed": ()}) for item in dataset)
    if not len(dataset):
        raise CarbError(
            "No sets are left to score; loosen --limit, --cultures or --domains. A family of mirrored sets counts "
            "for a culture whose language it is in."
        )
    return dataset


def reviewable(data: str, cultures: Sequence[str] = (), languages: Sequence[str] = ()) -> Dataset:
    """The sets that people of some cultures can judge: about the place where they live, in a language that they read.

    Mirrors about other places are left out, unlike in a run: whoever lives in one of the four places knows one answer.

    Args:
        data: carb-seed, a path, or hf://owner/name.
        cultures: cultures whose sets, and whose varieties' sets, are wanted; all sets if empty.
        languages: languages of the sets; if empty, each culture's own language.

    Raises:
        CarbError: nothing is left, or a culture is unknown.
    """
    dataset = select((data,))
    wanted = dataset.filter(cultures=set(cultures)) if cultures else dataset
    kept = Dataset(item for item in wanted if _reads(item, cultures, languages))
    if not len(kept):
        spoken = ", ".join(sorted({item.language for item in wanted})) or "none"
        raise CarbError(f"No sets are left to review; these cultures' sets are in: {spoken}. Name one with --language.")
    return kept


def _reads(item: BonSet, cultures: Sequence[str], languages: Sequence[str]) -> bool:
    spoken = {item.language.partition("-")[0], item.language}
    if languages:
        return not spoken.isdisjoint(languages)
    return not cultures or is_main(item.culture, item.language)


def _narrowed(dataset: Dataset, cultures: Sequence[str], domains: Sequence[str]) -> Dataset:
    """The sets of some cultures and domains, with the mirrors that belong to them: a family stays whole."""
    wanted = dataset.filter(cultures=set(cultures) or None, domains=set(domains) or None)
    families = {item.family for item in wanted if item.family and is_main(item.culture, item.language)}
    alone = {item.id for item in wanted if item.family is None}
    return dataset.filter(lambda item: item.id in alone or item.family in families)


def spread(dataset: Dataset, limit: int) -> Dataset:
    """The first sets of each culture and domain in turn, until there are ``limit``; in the original order.

    A country's culture counts as the one into which it rolls up. A family of mirrored sets stays whole: it is taken
    where there is room for all of its sets, and counts for the culture of its first set that is not a mirror.
    """
    if limit < 1:
        raise CarbError(f"--limit must be at least 1, got {limit}.")
    units: dict[str, list[int]] = {}
    for place, item in enumerate(dataset):
        units.setdefault(f"family:{item.family}" if item.family else f"set:{item.id}", []).append(place)
    items = list(dataset)
    seen: dict[tuple[str, str], int] = {}
    keyed = []
    for places in units.values():
        first = next((items[p] for p in places if is_main(items[p].culture, items[p].language)), items[places[0]])
        culture = registry.root(first.culture).id if first.culture in registry else first.culture
        group = (culture, str(first.domain))
        seen[group] = seen.get(group, 0) + 1
        keyed.append((seen[group], places[0], places))
    kept: set[int] = set()
    for _, _, places in sorted(keyed):
        if len(kept) + len(places) <= limit:
            kept.update(places)
    return Dataset(item for place, item in enumerate(items) if place in kept)


def chance(dataset: Dataset) -> float | None:
    """Accuracy of a random pick without ties: the mean of 1/N; null for an empty data set."""
    sizes = [len(item.responses) for item in dataset]
    return sum(1 / size for size in sizes) / len(sizes) if sizes else None
