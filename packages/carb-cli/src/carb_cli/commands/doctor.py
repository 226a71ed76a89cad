"""``carb doctor``: installed and missing parts, with the use of each."""

import os
import platform
import re
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module, metadata
from io import StringIO
from typing import Any

from carb_cli.display import note, size, table
from carb_cli.json_output import print_json
from carb_cli.machine import free_memory, gpus
from carb_cli.main import TABLES, invoked
from carb_cli.options import Json
from carb_data import install_line

PACKAGES = ("carb-data", "carb-metrics", "carb-scorers", "tal-rlvr", "carb-cli")
WHAT_FOR = TABLES["extras"]


def doctor(*, json: Json = False) -> None:
    """List the installed parts, the missing ones, and the use of each.

    For example:

        carb doctor
    """
    state: dict[str, Any] = {
        "machine": _machine(),
        "packages": {name: metadata.version(name) for name in PACKAGES},
        "extras": extras(),
    }
    if json:
        print_json(state)
        return
    machine = list(state["machine"].items())
    packages = list(state["packages"].items())
    table("This machine", ["what", "value"], machine)
    table("Packages", ["package", "version"], packages)
    rows = [(extra["what_for"], _state(extra), extra["install"]) for extra in state["extras"]]
    table("Extras", ["what for", "state", "how to install"], rows)


def installed(name: str) -> str | None:
    """The version of a distribution; null where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _state(extra: Mapping[str, Any]) -> str:
    if extra["missing"]:
        return f"no: {', '.join(extra['missing'])}"
    broken = [f"{name} does not import ({why})" for name, why in extra["broken"].items()]
    return "; ".join(broken) or "installed"


def broken(name: str, owners: Mapping[str, set[str]]) -> str | None:
    """Why an installed distribution cannot be imported; null where it can, or has no module of
    its own.

    Args:
        name: the distribution.
        owners: the distributions of each module, from ``owners_of_modules``.
    """
    wanted = _plain(name)
    modules = [module for module, owners in owners.items() if wanted in owners]
    named_so = [module for module in modules if _plain(module) == wanted]
    for module in named_so or modules[:1]:
        try:
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                import_module(module)
        except Exception as error:  # a library may fail on import in any way; it is reported
            return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return None


def owners_of_modules() -> dict[str, set[str]]:
    """The distributions of each module that can be imported."""
    return {
        module: {_plain(name) for name in names}
        for module, names in sorted(metadata.packages_distributions().items())
        if module.isidentifier() and not module.startswith("_")
    }


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def extras() -> list[dict[str, Any]]:
    """Every extra of every package: its use, its missing or broken libraries, and the line that
    installs it."""
    rows = []
    if not invoked.quiet:
        note("Importing the installed libraries: some seconds.")
    owners = owners_of_modules()
    for package in PACKAGES:
        needs = [str(need) for need in metadata.requires(package) or []]
        for extra in sorted(metadata.metadata(package).get_all("Provides-Extra") or []):
            if extra in ("all", "test"):
                continue  # a name for the others, and what a maintainer needs
            wanted = [need for need in needs if re.search(rf"extra == ['\"]{extra}['\"]", need)]
            names = {re.split(r"[^A-Za-z0-9._-]", need, maxsplit=1)[0] for need in wanted}
            present = sorted(name for name in names if installed(name) is not None)
            faults = {name: broken(name, owners) for name in present}
            full = f"{package}[{extra}]"
            row = {
                "package": package,
                "extra": extra,
                "what_for": WHAT_FOR[full],
                "missing": sorted(names.difference(present)),
                "broken": {name: why for name, why in faults.items() if why is not None},
                "install": install_line(full),
            }
            rows.append(row)
    return rows


def _machine() -> dict[str, str]:
    free = free_memory()
    memory = "unknown"
    if free is not None:
        memory = size(free)
    cards = []
    for gpu in gpus():
        of_total = f"{size(gpu.free)} free of {size(gpu.total)}"
        cards.append(f"{gpu.name} ({of_total})")
    kind = f"{platform.system()} {platform.machine()}"
    return {
        "Python": platform.python_version(),
        "system": f"{kind}, {os.cpu_count() or 1} cores, {memory} memory free",
        "PyTorch": installed("torch") or "not installed",
        "vLLM": installed("vllm") or "not installed",
        "GPUs": ", ".join(cards) or "none: models run on the CPU",
    }
