"""What judges were shown and wrote, out of the journals of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from carb_data import CarbError
from carb_scorers.run.score_journal import read_journal


@dataclass(slots=True)
class JudgeTexts:
    """What one judge wrote of each set, and in which orders it was asked."""

    texts: dict[str, str] = field(default_factory=dict)
    """By set id; judgements of perturbed texts are left out."""
    asked: tuple[tuple[int, ...], ...] = ()
    """Places in the given order of the answers as each question showed them, alike for all sets: (0, 1, 2, 3), and
    (3, 2, 1, 0) for a judge that is asked in both orders."""


def written(folders: Sequence[Path]) -> dict[str, JudgeTexts]:
    """By scorer; those that wrote nothing and were shown nothing side by side are left out.

    It explains, and no number depends on it, so a journal that is gone or damaged gives what can be read of it.
    """
    found: dict[str, JudgeTexts] = {}
    for folder in folders:
        for journal in sorted((folder / "journal").glob("*.jsonl")):
            try:
                head, results = read_journal(journal)
            except (OSError, ValueError, CarbError):
                continue
            one = JudgeTexts({key: result.rationale for key, result in results.items() if result.rationale})
            shown = next((result.presentations for result in results.values() if result.presentations), ())
            one.asked = tuple(tuple(int(key) - 1 for key in each.order) for each in shown)
            if one.texts or one.asked:
                found[head.spec.name] = one
    return found
