"""The packages compose as drawn in the README: who may import whom, and what an import may load."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = ["carb_data", "carb_metrics", "carb_scorers", "tal_rlvr", "carb_cli"]
ALLOWED = {
    "carb_data": set(),
    "carb_metrics": {"carb_data"},
    "carb_scorers": {"carb_data"},
    "tal_rlvr": {"carb_data", "carb_metrics", "carb_scorers"},
    "carb_cli": {"carb_data", "carb_metrics", "carb_scorers", "tal_rlvr"},
}
HEAVY = ["torch", "transformers", "vllm", "ray", "trl"]


def imported(path: Path) -> set[str]:
    """Top-level names of every import statement of a file, at any depth."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("module", MODULES)
def test_a_package_imports_only_what_it_may(module: str) -> None:
    folder = ROOT / "packages" / module.replace("_", "-") / "src" / module
    files = list(folder.rglob("*.py"))
    assert files
    wrong = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        for name in imported(path) & set(MODULES)
        if name not in ALLOWED[module] | {module}
    }
    assert not wrong


@pytest.mark.parametrize("module", MODULES)
def test_an_import_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", MODULES)
def test_public_names_are_complete_and_typed(module: str) -> None:
    package = __import__(module)
    assert isinstance(package.__all__, list)
    assert all(isinstance(name, str) and hasattr(package, name) for name in package.__all__)
    assert (Path(package.__file__).parent / "py.typed").is_file()


@pytest.mark.parametrize("module", MODULES)
def test_declared_dependencies_follow_the_drawing(module: str) -> None:
    import tomllib

    distribution = module.replace("_", "-")
    project = tomllib.loads((ROOT / "packages" / distribution / "pyproject.toml").read_text())["project"]
    listed = [
        *project["dependencies"],
        *(d for extra in project.get("optional-dependencies", {}).values() for d in extra),
    ]
    ours = {name for name in MODULES for d in listed if d.startswith(name.replace("_", "-"))} - {module}
    assert ours <= ALLOWED[module]
    base = " ".join(project["dependencies"])
    assert not any(heavy in base for heavy in HEAVY)


def exported(module: str) -> set[str]:
    """The names in ``__all__`` of a module, read from its source; none where it has no such list."""
    package, *rest = module.split(".")
    place = ROOT / "packages" / package.replace("_", "-") / "src" / package / Path(*rest)
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    if not path.is_file():
        return set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return set(ast.literal_eval(node.value))
    return set()


@pytest.mark.parametrize("module", MODULES)
def test_other_packages_are_used_by_their_public_names_alone(module: str) -> None:
    """Public is what a package's root or a public module exports; everything else is free to change."""
    folder = ROOT / "packages" / module.replace("_", "-") / "src" / module
    wrong = []
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or node.level or node.module is None:
                continue
            if node.module.partition(".")[0] not in set(MODULES) - {module}:
                continue
            hidden = any(part.startswith("_") for part in node.module.split("."))
            public = exported(node.module)
            wrong += [
                f"{path.relative_to(ROOT)}:{node.lineno}: {node.module}.{alias.name}"
                for alias in node.names
                if hidden or alias.name not in public | modules_in(node.module)
            ]
    assert wrong == []


def modules_in(package: str) -> set[str]:
    """The modules of a package, by name."""
    top, *rest = package.split(".")
    place = ROOT / "packages" / top.replace("_", "-") / "src" / top / Path(*rest)
    return {path.stem for path in place.glob("*.py")} | {path.name for path in place.glob("*/") if path.is_dir()}
