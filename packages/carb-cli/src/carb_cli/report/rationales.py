"""What judges wrote, out of the journals of runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import TypeAdapter

from carb_data import CarbError
from carb_scorers.contract import ScoreResult
from carb_scorers.journal import JournalHead
from carb_scorers.parts import read_parts

_results = TypeAdapter(list[ScoreResult])


def rationales(folders: Sequence[Path]) -> dict[str, dict[str, str]]:
    """By scorer and set id; scorers that wrote nothing are left out, and so are judgements of perturbed texts.

    They explain, and no number depends on them, so a journal that is gone or damaged gives what can be read of it.
    """
    found: dict[str, dict[str, str]] = {}
    for folder in folders:
        for journal in sorted((folder / "journal").glob("*.jsonl")):
            try:
                name, results = _read(journal)
                for result in results:
                    if result.rationale:
                        found.setdefault(name, {})[result.request_id] = result.rationale
            except (OSError, ValueError, CarbError):
                continue
    return found


def _read(journal: Path) -> tuple[str, Iterator[ScoreResult]]:
    """The name of the scorer, and the results in its journal and in the parts beside it."""
    with journal.open("rb") as file:
        name = JournalHead.model_validate_json(file.readline()).spec.name

    def results() -> Iterator[ScoreResult]:
        with journal.open("rb") as file:
            next(file, None)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # torn by an interruption
                content = json.loads(line)
                yield from _results.validate_python(content if isinstance(content, list) else [content])
        parts = journal.with_suffix(".parts")
        if parts.is_dir():
            yield from read_parts(parts)

    return name, results()
