"""The Hub's own formats of results: ``.eval_results/*.yaml`` of a model, and ``eval.yaml`` of a
data set.

Source: https://huggingface.co/docs/hub/eval-results. Texts are written as JSON strings, which are
valid YAML.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from carb_cli.display import number
from carb_cli.results.entry import ResultEntry

PARTS = {"--limit", "--cultures", "--domains"}
"""Options that make a run score only a part of its data set."""


def hub_files(entry: ResultEntry) -> dict[Path, str]:
    """The files of an entry by their paths in the folder of results; empty where no whole Hub data
    set was scored."""
    names, options = entry.run.dataset.names, {part.partition("=")[0] for part in entry.run.command}
    if len(names) != 1 or not names[0].startswith("hf://") or options & PARTS:
        return {}
    data, _, revision = names[0].removeprefix("hf://").strip("/").partition("@")
    pinned = f"    revision: {revision}\n" if re.fullmatch("[0-9a-f]{40}", revision) else ""
    accuracy, row, win = entry.numbers.accuracy, entry.numbers.row, entry.numbers.place_win
    tasks = {
        "place_win": None if win is None else _percent(win.estimate, win.low, win.high),
        "row": None if row is None else _percent(row.estimate, row.low, row.high),
        "accuracy": _percent(accuracy.accuracy, accuracy.low, accuracy.high),
    }
    groups = {
        task: values
        for task, values in tasks.items()
        if values is not None and values[0] is not None
    }
    source = (
        f"{entry.numbers.sets:,} sets, {entry.numbers.failed:,} failed; carb "
        f"{entry.run.versions.get('carb-cli')}"
    )

    def notes(low: float | None, high: float | None) -> str:
        interval = f"95% interval {number(low)} to {number(high)}"
        return json.dumps(f"{interval}; {source}", ensure_ascii=False)

    results = [
        f"- dataset:\n    id: {json.dumps(data)}\n    task_id: {task}\n{pinned}"
        f"  value: {value:.4f}\n  date: "
        f"{json.dumps(entry.run.created.isoformat(timespec='seconds'))}\n"
        f"  notes: {notes(low, high)}\n"
        for task, (value, low, high) in groups.items()
    ]
    benchmark = (
        f"name: {json.dumps(data)}\ndescription: How well reward models judge answers to "
        "cultural questions\n"
        "evaluation_framework: carb\ntasks:\n" + "".join(f"  - id: {task}\n" for task in groups)
    )
    target = entry.folder / ".eval_results" / "carb.yaml"
    return {target: "".join(results), entry.folder.parent / "eval.yaml": benchmark}


def _percent(*shares: float | None) -> tuple[float | None, ...]:
    return tuple(None if share is None else 100 * share for share in shares)
