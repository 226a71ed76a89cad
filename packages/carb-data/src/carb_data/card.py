"""A data card: what a data set holds, by cell, source, licence and tier, as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from carb_data.audit.attacks import AuditReport
from carb_data.dataset import Dataset
from carb_data.models import BonSet, Domain
from carb_data.registry import cultures, is_main

__all__ = ["card", "cells"]


_COLUMNS = (
    "Sets that count for the culture + mirrors, such as English sets of families + controls (school knowledge, "
    "harm everywhere, general preference)."
)


def cells(dataset: Dataset) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Culture and domain to three counts: main sets, mirrors, and controls.

    A culture is one of the listed ones, with its varieties; sets about others are in no cell.
    """
    found = {(culture.id, domain.value): [0, 0, 0] for culture in cultures for domain in Domain}
    for item in dataset:
        root = cultures.root(item.culture).id if item.culture in cultures else item.culture
        if (root, item.domain.value) in found:
            found[root, item.domain.value][_column(item)] += 1
    return {place: (counts[0], counts[1], counts[2]) for place, counts in found.items()}


def _column(item: BonSet) -> int:
    if item.group == "control":
        return 2
    return 0 if item.family is None or is_main(item.culture, item.language) else 1


def card(dataset: Dataset, name: str, audit: AuditReport | None = None) -> str:
    """The card.

    Args:
        dataset: The sets of the data set.
        name: The heading of the card.
        audit: what attacks on the answers alone got; without it the card says nothing of them.
    """
    counts = cells(dataset)
    rows = [
        [culture.name, *(" + ".join(map(str, counts[culture.id, domain.value])) for domain in Domain)]
        for culture in cultures
    ]
    full = sum(main + mirrors >= 100 for main, mirrors, _ in counts.values())
    parts = [
        f"# {name}",
        f"{len(dataset)} sets, fingerprint `{dataset.fingerprint}`.",
        _COLUMNS,
        f"{full} of {len(counts)} cells have 100 cultural sets or more.",
        _table(["culture", *Domain], rows),
        _counted("source", (item.provenance.source for item in dataset)),
        _counted("licence", (item.provenance.license for item in dataset)),
        _counted("tier", (item.provenance.tier or "not said" for item in dataset)),
        _counted("language", (item.language for item in dataset)),
    ]
    if audit is not None:
        whole = [attack for attack in audit.working if attack.level in ("all", "main")]
        lines = [
            [a.attack, a.level, *(f"{x:.3f}" for x in (a.accuracy, a.low, a.high, a.chance) if x is not None)]
            for a in whole
        ]
        said = "Attacks from the answers alone whose interval lies above chance, over all sets or without mirrors:"
        table = _table(["attack", "sets", "accuracy", "low", "high", "chance"], lines)
        parts += [said, table] if lines else [f"{said} none."]
    return "\n\n".join(parts) + "\n"


def _counted(what: str, values: Iterable[str]) -> str:
    return _table([what, "sets"], [[name, str(n)] for name, n in Counter(values).most_common()])


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
