"""Which sets a run scores."""

from __future__ import annotations

from collections.abc import Sequence

from carb_data import CarbError, Dataset, Domain, load
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
    unknown = sorted(set(domains) - {str(d) for d in Domain})
    if unknown:
        raise CarbError(f"Unknown domain {', '.join(unknown)}; there are {', '.join(Domain)}.")
    wanted = {c.id for name in cultures for c in (registry[name], *registry.varieties(name))}
    dataset = Dataset(item for name in data for item in load(name))
    dataset = dataset.filter(cultures=wanted or None, domains=domains or None)
    if limit is not None:
        dataset = spread(dataset, limit)
    if not perturbed:
        dataset = Dataset(item.model_copy(update={"perturbed": ()}) for item in dataset)
    if not len(dataset):
        raise CarbError("No sets are left to score; loosen --limit, --cultures or --domains.")
    return dataset


def spread(dataset: Dataset, limit: int) -> Dataset:
    """The first sets of each culture and domain in turn, until there are ``limit``; in the original order."""
    if limit < 1:
        raise CarbError(f"--limit must be at least 1, got {limit}.")
    rank: dict[tuple[str, str], int] = {}
    keyed = []
    for place, item in enumerate(dataset):
        group = (item.culture, str(item.domain))
        rank[group] = rank.get(group, 0) + 1
        keyed.append((rank[group], place))
    kept = {place for _, place in sorted(keyed)[:limit]}
    return Dataset(item for place, item in enumerate(dataset) if place in kept)
