"""Writes the pages of docs/api: every public module, which is one with an ``__all__``, with the names in it.

``python docs/make_reference.py`` calls it. Modules are read and not imported, so that no extra is needed.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTE = "<!-- Made by `python docs/make_reference.py`; a test holds it to the code. -->"
PACKAGES = ["carb-data", "carb-metrics", "carb-scorers", "tal-rlvr", "carb-cli"]
SAID = {
    "carb_cli": "Most of the command line has no Python API of its own: every capability is a function of the other "
    "packages. What it adds for programs is JSON, described in [JSON outputs](../reference/json.md)."
}


def exported(path: Path) -> list[str] | None:
    """The names in a module's ``__all__``; none where it has no such list."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and any(getattr(to, "id", "") == "__all__" for to in node.targets):
            return [str(name) for name in ast.literal_eval(node.value)]
    return None


def modules(package: str) -> dict[str, list[str]]:
    """The public modules of a package, its root first, with the names that each exports."""
    source = ROOT / "packages" / package / "src"
    found = {}
    for path in source.rglob("*.py"):
        parts = [part for part in path.relative_to(source).with_suffix("").parts if part != "__init__"]
        names = exported(path)
        if names is not None and not any(part.startswith("_") for part in parts):
            found[".".join(parts)] = names
    return dict(sorted(found.items()))


def page(package: str) -> str:
    """The page of a package. A name is shown once: in the first of its modules that exports it."""
    root = package.replace("-", "_")
    lines = [NOTE, f"# {root}", "", *([SAID[root], ""] if root in SAID else [])]
    shown: set[str] = set()
    for module, names in modules(package).items():
        new = sorted({name for name in names if name not in shown and not name.startswith("__")})
        shown |= set(names)
        lines += [] if module == root else [f"## {module}", ""]
        if new:
            lines += [f"::: {module}", "    options:", f"      members: [{', '.join(new)}]", ""]
        else:
            lines += ["All its names are described above.", ""]
    return "\n".join(lines)


def pages() -> dict[Path, str]:
    """Every page of docs/api."""
    return {ROOT / "docs" / "api" / f"{name.replace('-', '_')}.md": page(name) for name in PACKAGES}
