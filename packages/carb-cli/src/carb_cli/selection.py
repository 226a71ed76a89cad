"""Which sets a run scores."""

from __future__ import annotations

from collections.abc import Sequence

from carb_data import CarbError, Dataset, is_main, load
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
    if cultures or domains:
        dataset = _narrowed(dataset, cultures, domains)
    if limit is not None:
        dataset = spread(dataset, limit)
    if not perturbed:
        dataset = Dataset(item.model_copy(update={"perturbed": ()}) for item in dataset)
    if not len(dataset):
        raise CarbError("No sets are left to score; loosen --limit, --cultures or --domains.")
    return dataset


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
