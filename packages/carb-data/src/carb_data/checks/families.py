"""Mirrored families in which a scorer that does not read the place earns something else than 1/N."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from carb_data.checks.report import Finding
from carb_data.models import BonSet, Role

__all__ = ["find_incomplete_families"]


def find_incomplete_families(items: Iterable[BonSet]) -> Iterator[Finding]:
    """Families in which an answer is right in no set, or is missing from one. Each is reported at its first set."""
    families: dict[str, list[BonSet]] = {}
    for item in items:
        if item.family is not None:
            families.setdefault(item.family, []).append(item)
    for name, sets in families.items():
        shown = [{response.text for response in item.responses} for item in sets]
        right = {response.text for item in sets for response in item.responses if response.role is Role.CHOSEN}
        if never := len(set.union(*shown) - right):
            what = f"lacks sets: {never} of its {never + len(right)} answers are right in none"
        elif any(texts != right for texts in shown):
            what = "has sets that show different answers"
        else:
            continue
        yield Finding(
            severity="warning",
            check="family",
            item_id=sets[0].id,
            field="family",
            message=f"'{name}' {what}; accuracy over families leaves it out",
        )
