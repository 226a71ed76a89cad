"""What the machine and the installation have."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from carb_cli.output import OutputPart
from carb_data import install_line

PACKAGES = ("carb-data", "carb-metrics", "carb-scorers", "tal-rlvr", "carb-cli")
WHAT_FOR = {
    ("carb-data", "hf"): "data sets from the Hugging Face hub",
    ("carb-data", "checks"): "language and contamination checks of data sets, and perturbing them",
    ("carb-data", "construct"): "writing data sets with models behind a server",
    ("carb-data", "local"): "writing data sets with local models",
    ("carb-data", "datasets"): "folders of the datasets library",
    ("carb-data", "excel"): "sources whose files are spreadsheets",
    ("carb-data", "fetch"): "getting public sources",
    ("carb-data", "pdf"): "the codebook of the World Values Survey as PDF",
    ("carb-scorers", "inspect"): "scorers inside Inspect",
    ("carb-scorers", "hf"): "classifiers, judges and implicit rewards on transformers",
    ("carb-scorers", "api"): "judges behind an OpenAI-compatible server",
    ("carb-scorers", "vllm"): "judges and classifiers on vLLM",
    ("carb-scorers", "ray"): "runs over many machines",
    ("carb-scorers", "language"): "the language baseline, by a statistical detector",
    ("carb-cli", "review"): "the review page for native speakers, and its sheets",
    ("tal-rlvr", "train"): "training Think-as-Locals judges",
    ("tal-rlvr", "gpu"): "training on GPUs, with vLLM",
    ("tal-rlvr", "verifiers"): "the judge's task as an environment of verifiers",
}
KEYS = ("HF_TOKEN", "OPENAI_API_KEY")


class Package(OutputPart):
    """An installed package."""

    name: str
    version: str | None
    """Null where it is not installed."""


class Extra(OutputPart):
    """An optional part of a package."""

    package: str
    extra: str
    what_for: str
    missing: tuple[str, ...]
    """Distributions that are not installed."""
    install: str


class TorchState(OutputPart):
    """The installed torch."""

    version: str
    cuda: str | None
    """Version of CUDA that torch was built for; null for a CPU build."""
    problem: str | None = None
    """Why it cannot be imported."""


class Gpu(OutputPart):
    """A GPU that torch sees. Sizes in bytes."""

    name: str
    total: int
    free: int


class Cache(OutputPart):
    """A folder where downloads are kept."""

    path: Path
    exists: bool
    bytes: int


def python() -> str:
    """Version and implementation."""
    return f"{platform.python_version()} ({platform.python_implementation()})"


def system() -> str:
    """Operating system and processor type."""
    return f"{platform.system()} {platform.machine()}"


def installed(name: str) -> str | None:
    """The version of a distribution; null where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def packages() -> tuple[Package, ...]:
    """The five packages of the project."""
    return tuple(Package(name=name, version=installed(name)) for name in PACKAGES)


def extras() -> tuple[Extra, ...]:
    """Every extra of every package, with what is missing for it."""
    found = []
    for package in PACKAGES:
        if installed(package) is None:
            continue
        names = metadata.metadata(package).get_all("Provides-Extra") or []
        for extra in sorted(names):
            if (package, extra) == ("carb-cli", "all"):
                continue  # a name for the others
            needs = [
                n for n in map(str, metadata.requires(package) or []) if re.search(rf"extra == ['\"]{extra}['\"]", n)
            ]
            found.append(
                Extra(
                    package=package,
                    extra=extra,
                    what_for=WHAT_FOR.get((package, extra), f"{package}[{extra}]"),
                    missing=tuple(name for name in map(_distribution, needs) if installed(name) is None),
                    install=install_line(package, extra),
                )
            )
    return tuple(found)


def _distribution(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]


def torch_state() -> TorchState | None:
    """State of torch; null where it is not installed."""
    version = installed("torch")
    if version is None:
        return None
    try:
        import torch
    except Exception as error:  # a broken installation is what doctor is there to find
        return TorchState(version=version, cuda=None, problem=f"{type(error).__name__}: {error}")
    return TorchState(version=version, cuda=torch.version.cuda)


def gpus() -> tuple[Gpu, ...]:
    """The GPUs that torch sees."""
    try:
        import torch

        if not torch.cuda.is_available():
            return ()
        found = []
        for number in range(torch.cuda.device_count()):
            free, total = torch.cuda.mem_get_info(number)
            found.append(Gpu(name=torch.cuda.get_device_name(number), total=total, free=free))
        return tuple(found)
    except Exception:  # no torch, or a driver that fails: there is no GPU to use
        return ()


def free_memory() -> int | None:
    """Bytes of main memory that a new process could use; null where the system does not say."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    match = re.search(r"^MemAvailable:\s+(\d+) kB", text, flags=re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def scorer_kinds() -> tuple[str, ...]:
    """Kinds of scorers that are at hand."""
    from carb_scorers.spec import kinds

    return tuple(kinds())


def source_names() -> tuple[str, ...]:
    """Sources that are at hand."""
    from carb_data.sources import sources

    return tuple(sources)


def caches() -> tuple[Cache, ...]:
    """Where models and data sets are kept."""
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    return tuple(_cache(path) for path in (Path(os.environ.get("HF_HUB_CACHE", home / "hub")), home / "datasets"))


def _cache(path: Path) -> Cache:
    if not path.is_dir():
        return Cache(path=path, exists=False, bytes=0)
    sizes = (file.stat().st_size for file in path.rglob("*") if file.is_file() and not file.is_symlink())
    return Cache(path=path, exists=True, bytes=sum(sizes))


def keys(variables: Mapping[str, str]) -> dict[str, bool]:
    """Which keys are set: the usual ones, and every variable that is named like one."""
    others = sorted(name for name in variables if name.endswith("_API_KEY") and name not in KEYS)
    return {name: bool(variables.get(name)) for name in (*KEYS, *others)}
