"""Errors that are the user's to mend: what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SHOWN_PROBLEMS = 20


class CarbError(Exception):
    """A mistake in the input, the options or the installation.

    Its message is meant to be read by the user as it stands; command lines print it without a traceback.
    """


@dataclass(frozen=True, slots=True)
class Problem:
    """One defect of one line of a file."""

    file: str
    line: int
    field: str
    reason: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}"
        return f"{where}: {self.field}: {self.reason}" if self.field else f"{where}: {self.reason}"


class DataError(CarbError):
    """A data file that does not hold valid sets; ``problems`` lists every defect found."""

    def __init__(self, problems: Sequence[Problem], hint: str = "") -> None:
        self.problems = tuple(problems)
        lines = [str(problem) for problem in self.problems[:SHOWN_PROBLEMS]]
        hidden = len(self.problems) - len(lines)
        if hidden > 0:
            lines.append(f"... and {hidden} more; `carb data validate --json` lists them all.")
        count = len(self.problems)
        head = f"{count} problem{'' if count == 1 else 's'} in the data; nothing was loaded."
        super().__init__("\n".join([head, *lines, *([hint] if hint else [])]))


class MissingExtraError(CarbError, ImportError):
    """An optional dependency that the request needs is not installed."""

    def __init__(self, package: str, extra: str, module: str) -> None:
        super().__init__(
            f"This needs the Python module '{module}', which is not installed. "
            f"Install it with: pip install '{package}[{extra}]'"
        )
