"""What commands print: results to stdout, progress and notes to stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

PLAIN_EVERY = 2.0
"""Seconds between progress lines when the output is not a terminal."""

console = Console(highlight=False, emoji=False)
notes = Console(stderr=True, highlight=False, emoji=False)

Report = Callable[[str, int, int, str], None]
"""``(task, done, total, detail)``."""


def print_json(content: Any) -> None:
    """Print a value as JSON on stdout, nothing else."""
    sys.stdout.write(json.dumps(content, ensure_ascii=False, indent=2, default=str) + "\n")


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[str] = ()) -> None:
    """Print a table. Cells are plain text: nothing in them is read as markup."""
    shown = Table(title=escape(title), title_justify="left", header_style="bold")
    for column in columns:
        shown.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(escape(str(cell)) for cell in row))
    console.print(shown)


def pairs(title: str, content: Mapping[str, object]) -> None:
    """Print names and values."""
    table(title, ["", ""], list(content.items()))


@contextmanager
def progress(quiet: bool = False) -> Iterator[Report]:
    """Progress of named tasks: bars on a terminal, a plain line every two seconds otherwise."""
    if quiet:
        yield lambda _task, _done, _total, _detail: None
    elif notes.is_terminal:
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[detail]}"),
            console=notes,
        ) as bars:
            known: dict[str, Any] = {}

            def show(task: str, done: int, total: int, detail: str) -> None:
                if task not in known:
                    known[task] = bars.add_task(escape(task), total=total, detail="")
                bars.update(known[task], completed=done, total=total, detail=escape(detail))

            yield show
    else:
        last: dict[str, float] = {}

        def line(task: str, done: int, total: int, detail: str) -> None:
            now = time.monotonic()
            if done >= total or now - last.get(task, 0.0) >= PLAIN_EVERY:
                last[task] = now
                notes.print(f"{task}: {done}/{total} {detail}".rstrip(), markup=False, soft_wrap=True)

        yield line
