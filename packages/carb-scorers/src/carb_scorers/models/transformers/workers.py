"""A worker on each device; on a CPU two that share the weights, each with a share of the threads.

A pass over one item is short, so that threads which share one spend much of their time waiting for one another
(``benchmarks/against_rewardbench.py`` measures it).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TypeVar

from carb_data.extras import require
from carb_scorers.models.transformers.items import HasLoaded
from carb_scorers.models.transformers.loading import HFOptions, devices
from carb_scorers.models.transformers.threads import Threads

CPU_WORKERS = 2
"""Workers on a CPU by default, where torch has as many threads. More were not measured, and each holds a pass of
its own in memory; ``device=cpu,cpu,cpu`` asks for them."""

W = TypeVar("W", bound=HasLoaded)


def open_workers(options: HFOptions, make: Callable[[str], W]) -> list[W]:
    """A worker on each device asked for; by default up to ``CPU_WORKERS`` on a CPU.

    Args:
        options: the options of the backend.
        make: the function that loads a model onto a device.

    Raises:
        CarbError: unknown devices, or the model cannot be loaded.
    """
    torch = require("torch", package="carb-scorers", extra="hf")
    names = devices(options)
    own = options.device == "auto" and options.device_map is None and not options.compile
    if own and names == ["cpu"]:
        names *= min(CPU_WORKERS, torch.get_num_threads())
    with Threads(names.count("cpu")).shared():
        workers = [make(names[0])]
        for name in names[1:]:
            beside = _beside(workers[0]) if name == names[0] == "cpu" and not options.compile else None
            if beside is None and own:
                break  # a model that cannot be copied has one worker
            workers.append(beside or make(name))
    return workers


def _beside(worker: W) -> W | None:
    """A worker with a state of its own and the same weights and tokenizer; ``None`` where a model cannot be copied."""
    torch = require("torch", package="carb-scorers", extra="hf")
    model = worker.loaded.model
    shared = [torch, worker.loaded.tokenizer, *model.parameters(), *model.buffers()]
    try:
        return copy.deepcopy(worker, {id(part): part for part in shared})
    except Exception:  # whatever code of its own a model brings
        return None
