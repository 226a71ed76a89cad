"""What judges wrote, out of the journals of runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from carb_data import CarbError
from carb_scorers.run.score_journal import read_journal


def rationales(folders: Sequence[Path]) -> dict[str, dict[str, str]]:
    """By scorer and set id; scorers that wrote nothing are left out, and so are judgements of perturbed texts.

    They explain, and no number depends on them, so a journal that is gone or damaged gives what can be read of it.
    """
    found: dict[str, dict[str, str]] = {}
    for folder in folders:
        for journal in sorted((folder / "journal").glob("*.jsonl")):
            try:
                head, results = read_journal(journal)
                for key, result in results.items():
                    if result.rationale:
                        found.setdefault(head.spec.name, {})[key] = result.rationale
            except (OSError, ValueError, CarbError):
                continue
    return found
