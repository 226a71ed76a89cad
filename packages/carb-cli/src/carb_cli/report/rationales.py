"""What judges wrote, out of the journals of runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from carb_scorers.journal import journal_path
from carb_scorers.records import RunRecord


def rationales(folders: Sequence[Path]) -> dict[str, dict[str, str]]:
    """By scorer and set id; scorers that wrote nothing are left out, and so are judgements of perturbed texts."""
    found: dict[str, dict[str, str]] = {}
    for folder in folders:
        for scorer in RunRecord.read(folder).scorers:
            name = scorer.spec.name
            written = {
                r["item_id"]: r["rationale"]
                for r in _results(journal_path(folder / "journal", name))
                if r.get("rationale")
            }
            if written:
                found[name] = written
    return found


def _results(path: Path) -> Iterator[Mapping[str, Any]]:
    """The results in a journal; one that is torn, gone or of another form gives what can be read."""
    try:
        with path.open(encoding="utf-8") as file:
            next(file, None)  # what the journal belongs to
            for line in file:
                try:
                    content = json.loads(line)
                except ValueError:
                    return
                yield from content if isinstance(content, list) else [content]
    except OSError:
        return
