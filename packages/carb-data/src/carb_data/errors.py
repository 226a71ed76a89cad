"""Errors that the user can fix: defect, place and remedy; a missing extra among them."""

import importlib
import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

HUB_ANSWERS_WITHIN = 5.0
"""Seconds after which the model hub counts as out of reach."""
SHOWN_PROBLEMS = 20


class CarbError(Exception):
    """A mistake in the input, the options or the installation.

    Its message is meant to be read by the user as it stands; command lines print it without a
    traceback.
    """


class UnknownNameError(CarbError, KeyError):
    """Nothing has that name."""

    def __str__(self) -> str:  # KeyError would show the repr
        return str(self.args[0])


@dataclass(frozen=True)
class Problem:
    """One defect of one line of a file."""

    file: str
    line: int
    field: str
    reason: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}"
        if self.field:
            return f"{where}: {self.field}: {self.reason}"
        return f"{where}: {self.reason}"


class DataError(CarbError):
    """A data file that does not hold valid sets; ``problems`` lists every defect found."""

    def __init__(self, problems: Sequence[Problem], hint: str = "") -> None:
        self.problems = tuple(problems)
        same: dict[Problem, list[int]] = {}
        for problem in problems:
            kind = replace(problem, line=0)
            same.setdefault(kind, []).append(problem.line)
        count = len(problems)
        listed = 0
        ending = "s"
        if count == 1:
            ending = ""
        lines = [f"{count} problem{ending} in the data; nothing was loaded."]
        shown = list(same.items())[:SHOWN_PROBLEMS]
        for kind, (first, *others) in shown:
            lines.append(f"{replace(kind, line=first)}{_also(others)}")
            listed += 1 + len(others)
        if listed < count:
            lines.append(f"... and {count - listed} more; `carb data check --json` lists them all.")
        if hint:
            lines.append(hint)
        super().__init__("\n".join(lines))


def _also(lines: Sequence[int]) -> str:
    if not lines:
        return ""
    listed = ", ".join(map(str, lines[:3]))
    if len(lines) > 3:
        listed += ", …"
    if len(lines) == 1:
        return f" (also in line {listed})"
    return f" (also in {len(lines)} more lines: {listed})"


def install_line(need: str) -> str:
    """The command that adds an extra, for the way in which the package was installed.

    Args:
        need: a distribution and one of its extras, such as ``carb-scorers[hf]``.

    Returns:
        A line for a shell. A package that was installed from a folder or a repository is installed
        from there again (``direct_url.json``, PEP 610); any other from the package index.
    """
    package, _, extra = need.removesuffix("]").partition("[")
    try:
        text = distribution(package).read_text("direct_url.json")
        record = json.loads(text or "{}")
    except (PackageNotFoundError, ValueError):
        record = {}
    url = record.get("url", "")
    option = ""
    if "vcs_info" in record:
        need = f"{need} @ {record['vcs_info']['vcs']}+{url}"
        if "subdirectory" in record:
            need += f"#subdirectory={record['subdirectory']}"
    elif "dir_info" in record and url.startswith("file:"):
        need = f"{url2pathname(urlsplit(url).path)}[{extra}]"
        if record["dir_info"].get("editable"):
            option = "-e "
    return f"pip install {option}{shlex.quote(need)}"


class MissingExtraError(CarbError, ImportError):
    """An optional dependency that the request needs is not installed."""

    def __init__(self, module: str, need: str) -> None:
        super().__init__(
            f"This needs the Python module '{module}', which is not installed. "
            f"Install it with: {install_line(need)}"
        )


def require(module: str, need: str) -> Any:
    """Import ``module``, or raise the error that names the extra that installs it.

    Args:
        module: dotted module name, for example ``"torch"``.
        need: the distribution and its extra that install it, for example ``"carb-scorers[hf]"``.

    Raises:
        MissingExtraError: the module, or the top-level package that holds it, is not installed. Any
            other import failure (a broken installation) is passed on as it is.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        absent, *_ = (error.name or "").split(".")
        wanted, *_ = module.split(".")
        if absent == wanted:
            raise MissingExtraError(module, need) from None
        raise


def home_path(path: str) -> Path:
    """A path with the home folder of ``~`` or ``~NAME``; as it is where nobody has that name."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - pathlib's own raises there
