"""``carb doctor``: what is installed, what is missing, and what it is for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import Field

from carb_cli import display, environment
from carb_cli.environment import Cache, Extra, Gpu, Package, TorchState
from carb_cli.main import FAILED, OK
from carb_cli.memory import ModelNeeds, needs_of
from carb_cli.options import Json
from carb_cli.output import Output


class Doctor(Output):
    """Output of ``carb doctor --json``."""

    schema_: Literal["carb.doctor/1"] = Field(default="carb.doctor/1", alias="schema")
    python: str
    system: str
    cores: int
    memory: int | None
    """Bytes of main memory that are free; null where the system does not say."""
    packages: tuple[Package, ...]
    extras: tuple[Extra, ...]
    torch: TorchState | None
    """Null where torch is not installed."""
    vllm: str | None
    """Version; null where it is not installed."""
    gpus: tuple[Gpu, ...]
    scorers: tuple[str, ...]
    """Kinds that ``carb run --scorer`` knows."""
    sources: tuple[str, ...]
    caches: tuple[Cache, ...]
    keys: dict[str, bool]
    """Whether each environment variable is set. Values are never read into the output."""
    model: ModelNeeds | None
    """What the model asked for needs; null without ``--model``."""


def doctor(*, model: str | None = None, json: Json = False) -> int:
    """Say what is installed, what is missing, and what it is for.

    With --model, exits with 1 when that model does not fit into the memory at hand.

    For example:

        carb doctor

    Parameters
    ----------
    model
        A model's folder, or a hub id that was fetched before: says whether it fits into the memory of this machine.
    """
    gpus = environment.gpus()
    memory = environment.free_memory()
    found = Doctor(
        python=environment.python(),
        system=environment.system(),
        cores=os.cpu_count() or 1,
        memory=memory,
        packages=environment.packages(),
        extras=environment.extras(),
        torch=environment.torch_state(),
        vllm=environment.installed("vllm"),
        gpus=gpus,
        scorers=environment.scorer_kinds(),
        sources=environment.source_names(),
        caches=environment.caches(),
        keys=environment.keys(os.environ),
        model=None if model is None else needs_of(model, gpus=gpus, memory=memory),
    )
    if json:
        found.print()
    else:
        _show(found)
    return FAILED if found.model is not None and not found.model.fits else OK


def _show(found: Doctor) -> None:
    memory = "unknown" if found.memory is None else display.size(found.memory)
    if found.torch is None:
        torch = "not installed"
    elif found.torch.problem is not None:
        torch = f"{found.torch.version}, broken: {found.torch.problem}"
    else:
        torch = f"{found.torch.version}, CUDA {found.torch.cuda or 'absent'}"
    gpus = ", ".join(f"{g.name} ({display.size(g.free)} free of {display.size(g.total)})" for g in found.gpus)
    display.pairs(
        "This machine",
        {
            "Python": found.python,
            "system": f"{found.system}, {found.cores} cores, {memory} memory free",
            "PyTorch": torch,
            "vLLM": found.vllm or "not installed",
            "GPUs": gpus or "none: models run on the CPU",
            "scorers": ", ".join(found.scorers),
            "sources": ", ".join(found.sources),
        },
    )
    display.table("Packages", ["package", "version"], [(p.name, p.version or "missing") for p in found.packages])
    rows = [
        (e.what_for, "installed" if not e.missing else f"no: {', '.join(e.missing)}", e.install) for e in found.extras
    ]
    display.table("Extras", ["what for", "state", "how to install"], rows)
    display.pairs("Caches", {str(c.path): display.size(c.bytes) if c.exists else "not there yet" for c in found.caches})
    display.pairs(
        "Keys in the environment", {name: "set" if there else "not set" for name, there in found.keys.items()}
    )
    if found.model is not None:
        need = found.model
        display.pairs(
            f"Model {Path(need.name).name}",
            {
                "parameters": f"{need.parameters / 1e9:.2f} billion",
                "needs": f"about {display.size(need.bfloat16)} in bfloat16, {display.size(need.float32)} in float32",
                "fits": need.verdict,
            },
        )
