"""The packages compose as drawn in the README: who may import whom, what an import loads, and what
is promised."""

import ast
import re
import subprocess
import sys
from importlib import import_module
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


@pytest.mark.parametrize(
    ("module", "heavy"),
    [*((m, HEAVY) for m in MODULES), ("carb_cli.commands.run", [*HEAVY, "carb_metrics"])],
)
def test_an_import_loads_nothing_heavy(module: str, heavy: list[str]) -> None:
    """What comes after a run's first score is not loaded before it."""
    code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
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
    project = tomllib.loads((ROOT / "packages" / distribution / "pyproject.toml").read_text())[
        "project"
    ]
    listed = [
        *project["dependencies"],
        *(d for extra in project.get("optional-dependencies", {}).values() for d in extra),
    ]
    ours = {name for name in MODULES for d in listed if d.startswith(name.replace("_", "-"))} - {
        module
    }
    assert ours <= ALLOWED[module]
    base = " ".join(project["dependencies"])
    assert not any(heavy in base for heavy in HEAVY)


def exported(module: str) -> set[str]:
    """The names in ``__all__`` of a module, read from its source; none where it has no such
    list."""
    path = file_of(module)
    if path is None:
        return set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets
        ):
            return set(ast.literal_eval(node.value))
    return set()


def file_of(module: str) -> Path | None:
    """The source file of a module of the workspace; none where there is no such module."""
    package, *rest = module.split(".")
    place = ROOT / "packages" / package.replace("_", "-") / "src" / package / Path(*rest)
    found = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return found if found.is_file() else None


def foreign_names(path: Path, package: str) -> list[tuple[int, str, str]]:
    """Line, module and name of everything that a file uses of the workspace's other packages."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    others = set(MODULES) - {package}
    used: list[tuple[int, str, str]] = []
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            there = [a for a in node.names if a.name.partition(".")[0] in others]
            used += [
                (node.lineno, a.name, "")
                for a in node.names
                if a.name.partition(".")[0] in others and not a.asname
            ]
            modules |= {a.asname: a.name for a in there if a.asname}
        elif (
            isinstance(node, ast.ImportFrom)
            and not node.level
            and (node.module or "").partition(".")[0] in others
        ):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if file_of(whole) is not None and alias.name not in exported(node.module or ""):
                    modules[alias.asname or alias.name] = whole
                else:
                    used.append((node.lineno, node.module or "", alias.name))
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in modules
        ):
            whole = modules[node.value.id]
            if file_of(f"{whole}.{node.attr}") is None:
                used.append((node.lineno, whole, node.attr))
    return used


@pytest.mark.parametrize("module", MODULES)
def test_a_package_uses_only_those_that_it_may_and_by_their_public_names_alone(module: str) -> None:
    """Public is what ``__all__`` of a package's root or of a module lists; everything else is free
    to change."""
    folder = ROOT / "packages" / module.replace("_", "-") / "src" / module
    files = sorted(folder.rglob("*.py"))
    assert files
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {used}.{name}"
        for path in files
        for line, used, name in foreign_names(path, module)
        if used.partition(".")[0] not in ALLOWED[module]
        or any(part.startswith("_") for part in used.split("."))
        or name not in exported(used)
    ]
    assert wrong == []


PROMISED = {
    "carb_data": "Culture cultures Domain Perturbation Response BonSet Fact Provenance Citation "
    "Votes Dataset load "
    "ScoreTable",
    "carb_scorers.generate": "construct perturb",
    "carb_scorers": "Scorer ScorerSpec ScoreRequest ScoreResult evaluate open_scorer score",
    "carb_scorers.models": "LanguageModel Generation Choices Continuation",
    "carb_metrics": "bon_accuracy breakdown compare rank correlate perturbation_sensitivity "
    "cross_lingual_consistency agreement surface_floor item_analysis judge_bias",
    "tal_rlvr": "render_prompt parse_judgement Judgement FormatError correctness_reward "
    "criteria_reward total_reward "
    "ThinkAsLocalsTrainer TrainingMix check_contamination judge_as_scorer",
}
FIELDS = {
    "carb_data.Response": (
        "id text role language culture generator perturbation original source votes"
    ),
    "carb_data.Citation": "url title accessed fact",
    "carb_data.BonSet": "id culture domain topic language prompt responses perturbed "
    "provenance family kind place form",
    "carb_data.Fact": "id topic domain culture statement kind source also says",
    "carb_scorers.ScoreRequest": "request_id prompt candidates culture language",
    "carb_scorers.ScoreResult": "request_id scores rationale usage error errors",
    "carb_scorers.ScorerSpec": "name kind model revision parameters comparative in_flight",
}
COMMANDS = (
    "eval run report compare validity bon train serve doctor models "
    "data.list data.show data.check data.build data.fetch data.split data.construct data.perturb "
    "review.serve review.page review.collect review.apply results.add results.check results.site"
)


@pytest.mark.parametrize("module", PROMISED)
def test_promised_names_are_exported(module: str) -> None:
    assert set(PROMISED[module].split()) <= set(import_module(module).__all__)


@pytest.mark.parametrize("model", FIELDS)
def test_promised_fields_are_there(model: str) -> None:
    module, _, name = model.rpartition(".")
    assert set(FIELDS[model].split()) <= set(getattr(import_module(module), name).model_fields)


def test_the_commands_are_those_that_are_promised() -> None:
    from carb_cli.main import COMMANDS as single
    from carb_cli.main import GROUPS

    grouped = {f"{group}.{name}" for group, (own, _) in GROUPS.items() for name in own}
    assert {*single, *grouped} == set(COMMANDS.split())


def test_the_formatter_is_nowhere_switched_off() -> None:
    """A budget of lines is met by deleting, not by layouts that the formatter would undo."""
    sources = [
        path
        for part in ("packages", "tests", "examples", "benchmarks")
        for path in (ROOT / part).rglob("*.py")
    ]
    assert [
        str(path) for path in sources if re.search(r"#\s*fmt\s*:", path.read_text(encoding="utf-8"))
    ] == []


def test_web_files_keep_the_columns_of_python() -> None:
    """A budget of lines is not met by longer ones, either."""
    folder = ROOT / "packages" / "carb-cli" / "src"
    files = [
        path for path in folder.rglob("*") if path.suffix in {".js", ".css", ".html", ".jinja"}
    ]
    assert {path.suffix for path in files} == {".js", ".css", ".html", ".jinja"}
    lines = [
        (path.name, line)
        for path in files
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    assert [(name, line) for name, line in lines if len(line) > 120] == []
