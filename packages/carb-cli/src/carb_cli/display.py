"""Output for people: results to stdout, progress and notes to stderr."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:  # carb_metrics takes half a second to import
    from carb_metrics import Interval

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_ANY_WIDTH = 10_000
_INDENT = 2
PIPED_WIDTH = 200
"""Columns when the output goes to a file or another program."""


def safe(text: str) -> str:
    """Text that cannot steer a terminal: control characters and bidirectional overrides become
    visible escapes."""
    return _UNSAFE.sub(
        lambda match: match[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text
    )


class _Console(Console):
    used = False
    """Whether something was printed."""

    def print(self, *objects: Any, **options: Any) -> None:
        self.used = True
        try:
            super().print(*objects, **options)
        except OSError:  # a full disk
            if not self.stderr:
                raise
            self.on_broken_pipe()

    def on_broken_pipe(self) -> None:
        """Leave it to ``main``, for which a reader that stopped reading is no failure.

        Notes that cannot be written are no reason to end the work: they go nowhere from here on.
        """
        if not self.stderr:
            raise BrokenPipeError
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stderr__.fileno() if sys.__stderr__ else 2)


def _console(stderr: bool) -> _Console:
    made = _Console(stderr=stderr, highlight=False, emoji=False)
    if made.width < 1 or (
        not made.is_terminal and "COLUMNS" not in os.environ
    ):  # COLUMNS=0 shows nothing
        made.width = PIPED_WIDTH
    return made


console = _console(stderr=False)
notes = _console(stderr=True)


def printed() -> bool:
    """Whether something was printed for people."""
    return console.used or notes.used


def say(text: str) -> None:
    """Print a line of a result."""
    console.print(safe(text), markup=False, soft_wrap=True)


def sentences(text: str) -> None:
    """Print sentences of a result, broken at the terminal's width."""
    console.print(safe(text), markup=False, soft_wrap=not console.is_terminal)


def note(text: str) -> None:
    """Print a line beside the result, on stderr."""
    notes.print(safe(text), markup=False, soft_wrap=True)


def advice(text: str) -> None:
    """Print sentences beside the result, on stderr, broken at the terminal's width."""
    notes.print(safe(text), markup=False, soft_wrap=not notes.is_terminal)


def table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[str] = ()
) -> None:
    """Print a table. Cells are plain text: nothing in them is read as markup or steers the
    terminal.

    Where the terminal is too narrow for it, each row becomes a paragraph, so that no word is
    broken.
    """
    title = safe(title)
    texts = [[safe(str(cell)) for cell in row] for row in rows]
    shown = Table(title=escape(title), title_justify="left", title_style="bold")
    shown.box = box.SIMPLE_HEAD
    for column in columns:
        shown.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in texts:
        shown.add_row(*map(escape, row))
    unlimited = console.options.update(max_width=_ANY_WIDTH)
    wide = Measurement.get(console, unlimited, shown).maximum
    if wide <= console.width:
        console.print(shown)
        return
    console.print(Text(title, style="bold"))
    for row in texts:
        words = []
        for column, cell in zip(columns, row, strict=True):
            if cell:
                words.append(f"{column} {cell}" if column in right else cell)
        _paragraph(words)


def _paragraph(words: Sequence[str]) -> None:
    """Print the cells of a row on lines that fit the terminal, those after the first indented
    further."""
    lines: list[str] = []
    for text in words:
        indent = _INDENT * min(len(lines), 2)
        if lines and cell_len(f"{lines[-1]} · {text}") <= console.width - indent:
            lines[-1] += f" · {text}"
        else:
            lines.append(text)
    for number, line in enumerate(lines, 1):
        indent = _INDENT * min(number, 2)
        console.print(Padding(Text(line), (0, 0, 0, indent), expand=False))


def percent(value: float | None) -> str:
    """A share as a percentage with one digit, or a dash where there is none."""
    if value is None:
        return "–"
    return f"{100 * value:z.1f}".replace("-", "−")


def signed(value: float | None) -> str:
    """A difference of shares in points, with its sign; empty where there is none."""
    if value is None:
        return ""
    return f"{100 * value:+z.1f}".replace("-", "−")


def number(value: float | None, digits: int = 2) -> str:
    """A number with a proper minus, or a dash where there is none."""
    if value is None:
        return "–"
    return f"{value:.{digits}f}".replace("-", "−")


def whole(value: int | None) -> str:
    """A count, or a dash where it is not known."""
    if value is None:
        return "–"
    return f"{value:,}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """``1 set``, ``2 sets``; ``many`` is the plural where it is not ``one`` with an s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def money(value: float | None) -> str:
    """A cost with at least two decimals and two significant digits; a dash where there is none."""
    digits = 2
    if value:
        digits = max(2, 1 - math.floor(math.log10(value)))
    if value is None:
        return "–"
    return f"{value:,.{digits}f}"


def p_value(value: float | None) -> str:
    """A p value, as in a table; a small one in scientific notation."""
    if value is None:
        return "–"
    if value < 1e-16:
        return "< 1e-16"
    if value < 0.001:
        return f"{value:.2e}"
    return f"{value:.3f}"


def p_clause(value: float | None) -> str:
    """The same in a sentence: ``p = 0.021``."""
    shown = p_value(value)
    if shown.startswith("<"):
        return f"p {shown}"
    return f"p = {shown}"


def interval(low: float | None, high: float | None) -> str:
    """Two shares as percentages."""
    if low is None or high is None:
        return ""
    return f"{percent(low)} – {percent(high)}"


def shown(estimate: Interval) -> str:
    """A share as a percentage with its interval; one of no width, as of a baseline that is blind by
    construction, is none."""
    limits = ""
    if estimate.low != estimate.high:
        limits = f" [{interval(estimate.low, estimate.high)}]"
    return f"{percent(estimate.estimate)}%{limits}"


def size(number: float) -> str:
    """Bytes as people say them: ``512 MB``, ``23.4 GB``."""
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def duration(seconds: float) -> str:
    """A time as people say it: ``40.0 s``, ``12 minutes``, ``3.1 hours``."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours"
