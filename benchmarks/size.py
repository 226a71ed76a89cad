"""Prints how large the project is beside its budgets; the exit code is 1 where one is passed.

Usage: python benchmarks/size.py [--no-wheels]
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from inspect import signature
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ["carb-data", "carb-scorers", "carb-metrics", "tal-rlvr", "carb-cli"]
SOURCE = {".py", ".js", ".html", ".jinja", ".css"}
BUDGETS = {
    "source lines under packages/*/src": 32_000,
    "- carb-data": 6_500,
    "- carb-scorers": 8_000,
    "- carb-metrics": 4_800,
    "- tal-rlvr": 4_000,
    "- carb-cli": 8_700,
    "leaf commands": 25,
    "parameters of commands": 175,
    "names at the root of carb-metrics": 40,
    "test lines": 20_000,
    "words of documentation": 45_000,
    "circles of imports": 0,
    "file names in two packages or folders": 12,
    "kilobytes of the five wheels": 3_000,
    "lines of examples": 2_500,
}


def lines(paths: Iterable[Path]) -> int:
    return sum(len(path.read_bytes().splitlines()) for path in paths)


def sources(package: str) -> list[Path]:
    folder = ROOT / "packages" / package / "src"
    return sorted(path for path in folder.rglob("*") if path.suffix in SOURCE and path.is_file())


def tests() -> Iterator[Path]:
    for folder in (ROOT / "tests", *(ROOT / "packages").glob("*/tests")):
        yield from folder.rglob("*.py")


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


def measured(with_wheels: bool) -> dict[str, int]:
    found = {f"- {package}": lines(sources(package)) for package in PACKAGES}
    leaves, parameters = commands()
    import carb_metrics

    found |= {
        "source lines under packages/*/src": sum(found.values()),
        "leaf commands": leaves,
        "parameters of commands": parameters,
        "names at the root of carb-metrics": len(carb_metrics.__all__),
        "test lines": lines(tests()),
        "words of documentation": sum(len(text.split()) for text in pages().values()),
        "circles of imports": len(circles()),
        "file names in two packages or folders": len(repeated_names()),
        "lines of examples": lines((ROOT / "examples").rglob("*.py")),
    }
    if with_wheels:
        found["kilobytes of the five wheels"] = wheels()
    return found


def main() -> int:
    found = measured(with_wheels="--no-wheels" not in sys.argv)
    passed = 0
    for name, budget in BUDGETS.items():
        if name in found:
            over = found[name] > budget
            passed += over
            print(f"{name:42} {found[name]:>8,} of {budget:>7,}" + "   over" * over)
    for ring in circles():
        print("circle:", ", ".join(sorted(ring)))
    for name, places in repeated_names().items():
        print(f"{name} stands in {', '.join(places)}")
    words = Counter(
        {name.removeprefix(f"{ROOT}/"): len(text.split()) for name, text in pages().items()}
    )
    if "--pages" in sys.argv:
        for name, count in words.most_common():
            print(f"{count:>7,} {name}")
    return int(passed > 0)


if __name__ == "__main__":
    sys.exit(main())
