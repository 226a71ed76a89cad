"""Progress of long work: lines that change on a terminal, plain lines when piped."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any

from rich.markup import escape
from rich.progress import (
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from carb_cli.display import note, notes, safe
from carb_cli.main import invoked

PLAIN_EVERY = 2.0
"""Seconds between progress lines when the output is not a terminal."""

Report = Callable[[str, int, int, str], None]
"""``(task, done, total, detail)``; ``total`` 0 is unknown."""


@contextmanager
def progress(*, rest: bool = True, every: float = PLAIN_EVERY) -> Iterator[Report]:
    """Progress of named tasks: lines that change on a terminal, else plain lines; none with
    --quiet.

    Args:
        rest: whether to say how long the rest takes, which needs steps that take equally long.
        every: seconds between plain lines.
    """
    if invoked.quiet:
        yield lambda _task, _done, _total, _detail: None
    elif notes.is_terminal and not notes.is_dumb_terminal:
        with _live(rest) as show:
            yield show
    else:
        last: dict[str, float] = {}

        def line(task: str, done: int, total: int, detail: str) -> None:
            now = time.monotonic()
            count = f"{done}/{total}" if total else f"{done or ''}"
            if (total and done >= total) or now - last.get(task, 0.0) >= every:
                last[task] = now
                note(" ".join(filter(None, (f"{task}:", count, detail))))

        yield line


@contextmanager
def announced(say: Callable[[], None], after: float) -> Iterator[None]:
    """Within, say something once, should it take longer than some seconds."""
    timer = Timer(after, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def _live(rest: bool) -> Iterator[Report]:
    columns = [
        TextColumn("{task.description}", table_column=Column(no_wrap=True, max_width=28)),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TimeRemainingColumn(compact=True) if rest else TimeElapsedColumn(),
        TextColumn("{task.fields[detail]}", table_column=Column(no_wrap=True)),
    ]
    with Progress(*columns, console=notes) as shown:
        known: dict[str, Any] = {}

        def show(task: str, done: int, total: int, detail: str) -> None:
            if task not in known:
                known[task] = shown.add_task(escape(safe(task)), total=total or None, detail="")
            shown.update(
                known[task], completed=done, total=total or None, detail=escape(safe(detail))
            )

        yield show
