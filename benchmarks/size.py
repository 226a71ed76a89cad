"""Prints how large the project is beside its budgets; the exit code is 1 where one is passed.

Usage: python benchmarks/size.py [--no-wheels] [--where] [--pages]

A token is one of Python's own tokenizer, without comments, line breaks, indents and docstrings. A
code line holds at least one.
"""

from __future__ import annotations

import ast
import io
import itertools
import re
import subprocess
import sys
import tempfile
import token
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from inspect import signature
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGES = ["carb-data", "carb-scorers", "carb-metrics", "tal-rlvr", "carb-cli"]
WIDE = 100
"""Columns of the longest line."""
PRAGMA = re.compile(r"  # (?:noqa|type: ignore).*$")
"""A checker's comment, which has to stand on the line."""
LONG = 40
"""Lines of a function, its docstring aside, above which it counts as long."""
SKIPPED = {
    token.COMMENT,
    token.NL,
    token.NEWLINE,
    token.INDENT,
    token.DEDENT,
    token.ENCODING,
    token.ENDMARKER,
}
"""What the tokenizer yields beside tokens of code."""


class Budget(NamedTuple):
    """How large something may be, and how large it should become."""

    most: float
    """A change that passes it is refused."""
    goal: float


BUDGETS: dict[str, Budget] = {
    "tokens under packages/*/src": Budget(261_000, 190_000),
    "tokens a code line": Budget(8.0, 8.0),
    "- carb-data": Budget(8.1, 8.5),
    "- carb-scorers": Budget(8.0, 8.0),
    "- carb-metrics": Budget(8.1, 8.5),
    "- tal-rlvr": Budget(8.0, 8.0),
    "- carb-cli": Budget(8.1, 8.5),
    f"lines over {WIDE} columns": Budget(0, 0),
    f"functions over {LONG} lines": Budget(7, 8),
    "leaf commands": Budget(25, 25),
    "parameters of commands": Budget(150, 150),
    "names at the root of carb-metrics": Budget(30, 30),
    "words of documentation": Budget(30_000, 30_000),
    "circles of imports": Budget(0, 0),
    "file names in two packages or folders": Budget(5, 12),
    "names from another package's submodules that no root lists": Budget(120, 120),
    "kilobytes of the five wheels": Budget(3_000, 3_000),
}


class Density(NamedTuple):
    """How much code there is, and on how many lines."""

    tokens: int
    lines: int

    @property
    def per_line(self) -> float:
        return self.tokens / max(1, self.lines)


def sources(package: str) -> list[Path]:
    return sorted((ROOT / "packages" / package / "src").rglob("*.py"))


def density(paths: Iterable[Path]) -> Density:
    """Tokens of Python without comments and docstrings, and the lines that hold one."""
    tokens = code_lines = 0
    for path in paths:
        held: set[int] = set()
        statement_begins = True
        for one in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
            if one.type in SKIPPED:
                statement_begins |= one.type in (token.NEWLINE, token.INDENT, token.DEDENT)
                continue
            docstring = statement_begins and one.type == token.STRING
            statement_begins = False
            if not docstring:
                tokens += 1
                held.update(range(one.start[0], one.end[0] + 1))
        code_lines += len(held)
    return Density(tokens, code_lines)


def long_functions() -> list[str]:
    """Functions of more than ``LONG`` lines, their docstrings aside."""
    named = []
    for path in itertools.chain.from_iterable(map(sources, PACKAGES)):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            first = node.body[0]
            docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            skipped = (first.end_lineno or 0) - first.lineno + 1 if docstring else 0
            length = (node.end_lineno or 0) - node.lineno + 1 - skipped
            if length > LONG:
                named.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name} {length}")
    return named


def wide_lines() -> list[str]:
    """Lines of code and prose over ``WIDE`` columns; tables, headings, links and code of Markdown
    stay whole, and so do prompts."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*.py", "*.html", "*.css", "*.js", "*.html.jinja", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    named = []
    for name in filter(None, listed.stdout.split("\0")):
        if not (ROOT / name).is_file():
            continue
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(prose(lines) if name.endswith(".md") else lines, 1):
            if len(PRAGMA.sub("", line)) > WIDE:
                named.append(f"{name}:{number}")
    return named


def prose(lines: Iterable[str]) -> Iterator[str]:
    """The lines of a page, empty where they cannot be broken."""
    fenced = False
    for line in lines:
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        whole = line.lstrip().startswith(("|", "#", "![", "[", "<"))
        unbroken = max(map(len, line.split()), default=0) > WIDE // 2
        yield "" if fenced or fence or whole or unbroken else line


def listed_names(path: Path) -> set[str]:
    """The names of a module's ``__all__``, read from its source."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def submodule_names() -> int:
    """Imports of a name from another package's submodule that the package's root does not list."""
    roots = {name.replace("-", "_"): name for name in PACKAGES}
    public = {
        module: listed_names(ROOT / "packages" / name / "src" / module / "__init__.py")
        for module, name in roots.items()
    }
    count = 0
    for own, name in roots.items():
        for path in sources(name):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.ImportFrom) or node.level or not node.module:
                    continue
                other, _, submodule = node.module.partition(".")
                if other in roots and other != own and submodule:
                    count += sum(alias.name not in public[other] for alias in node.names)
    return count


def commands() -> tuple[int, int]:
    """Leaf commands, and the parameters that they take together; a model as a parameter counts by
    its fields."""
    from importlib import import_module

    from carb_cli.main import COMMANDS, EVERYWHERE, GROUPS

    places = [place for place, _ in COMMANDS.values()]
    places += [place for own, _ in GROUPS.values() for place, _ in own.values()]
    parameters = 0
    for place in places:
        module, _, name = place.partition(":")
        function = getattr(import_module(module), name)
        for parameter in signature(function, eval_str=True).parameters.values():
            parameters += fields(parameter.annotation)
    return len(places), parameters + len({*re.findall(r"--[a-z-]+", EVERYWHERE)})


def fields(annotation: object) -> int:
    """The options that one parameter of a command stands for."""
    inner = getattr(annotation, "__origin__", None) or annotation
    inner = (
        getattr(annotation, "__args__", (inner,))[0]
        if hasattr(annotation, "__metadata__")
        else inner
    )
    for names in ("model_fields", "__dataclass_fields__"):
        if isinstance(inner, type) and hasattr(inner, names):
            return len(getattr(inner, names))
    return 1


def pages() -> dict[str, str]:
    """Every page that a reader can open: written ones, generated ones, READMEs and cards;
    changelogs are not read."""
    written = [
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
    ]
    written += [path for path in (ROOT / "packages").rglob("*.md") if path.name != "CHANGELOG.md"]
    made = {
        str(path): path.read_text(encoding="utf-8")
        for path in written
        if path.name != "CHANGELOG.md"
    }
    sys.path.insert(0, str(ROOT / "docs"))
    from make_reference import generated

    return made | generated()


def imports(path: Path, module: str, known: set[str]) -> set[str]:
    """Modules of the workspace that a file imports, anywhere in it: an import inside a function
    ties files as well."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    # the packages above a module are loaded with it
    return {name for name in found & known if name != module and not module.startswith(f"{name}.")}


def circles() -> list[set[str]]:
    """Groups of modules that import each other (strongly connected components of two and more)."""
    places: dict[str, Path] = {}
    for package in PACKAGES:
        folder = ROOT / "packages" / package / "src"
        for path in folder.rglob("*.py"):
            parts = [
                part
                for part in path.relative_to(folder).with_suffix("").parts
                if part != "__init__"
            ]
            places[".".join(parts)] = path
    graph = {name: imports(path, name, set(places)) for name, path in places.items()}
    reach: dict[str, set[str]] = {}
    for name in graph:
        seen: set[str] = set()
        waiting = [*graph[name]]
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                waiting += graph[one]
        reach[name] = seen
    rings: list[set[str]] = []
    for name in sorted(graph):
        ring = {other for other in reach[name] if name in reach[other]} | {name}
        if name in reach[name] and ring not in rings:
            rings.append(ring)
    return rings


def repeated_names() -> dict[str, list[str]]:
    """Names of source files that stand in two packages or folders."""
    found: dict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for path in sources(package):
            if path.name not in ("__init__.py", "__main__.py"):
                found[path.name].append(str(path.relative_to(ROOT)))
    return {name: places for name, places in sorted(found.items()) if len(places) > 1}


def wheels() -> int:
    """Kilobytes of the five wheels."""
    with tempfile.TemporaryDirectory() as folder:
        build = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            folder,
        ]
        subprocess.run([*build, *(str(ROOT / "packages" / name) for name in PACKAGES)], check=True)
        return sum(path.stat().st_size for path in Path(folder).glob("*.whl")) // 1000


def measured(with_wheels: bool) -> dict[str, float]:
    by_package = {package: density(sources(package)) for package in PACKAGES}
    total = Density(*map(sum, zip(*by_package.values(), strict=True)))
    leaves, parameters = commands()
    import carb_metrics

    figures: dict[str, float] = {
        "tokens under packages/*/src": total.tokens,
        "tokens a code line": total.per_line,
        **{f"- {package}": one.per_line for package, one in by_package.items()},
        f"lines over {WIDE} columns": len(wide_lines()),
        f"functions over {LONG} lines": len(long_functions()),
        "leaf commands": leaves,
        "parameters of commands": parameters,
        "names at the root of carb-metrics": len(carb_metrics.__all__),
        "words of documentation": sum(len(text.split()) for text in pages().values()),
        "circles of imports": len(circles()),
        "file names in two packages or folders": len(repeated_names()),
        "names from another package's submodules that no root lists": submodule_names(),
    }
    if with_wheels:
        figures["kilobytes of the five wheels"] = wheels()
    return figures


def main() -> int:
    figures = measured(with_wheels="--no-wheels" not in sys.argv)
    passed = 0
    for name, budget in BUDGETS.items():
        if name in figures:
            over = round(figures[name], 1) > budget.most
            passed += over
            digits = ",.1f" if isinstance(budget.most, float) else ",.0f"
            goal = f"   goal {budget.goal:,}" if budget.goal < budget.most else ""
            print(
                f"{name:60}{figures[name]:>9{digits}} of {budget.most:>8{digits}}{goal}"
                + "   over" * over
            )
    for ring in circles():
        print("circle:", ", ".join(sorted(ring)))
    for name, paths in repeated_names().items():
        print(f"{name} stands in {', '.join(paths)}")
    for name in [*long_functions(), *wide_lines()] if "--where" in sys.argv else []:
        print(name)
    words = Counter(
        {name.removeprefix(f"{ROOT}/"): len(text.split()) for name, text in pages().items()}
    )
    if "--pages" in sys.argv:
        for name, count in words.most_common():
            print(f"{count:>7,} {name}")
    return int(passed > 0)


if __name__ == "__main__":
    sys.exit(main())
