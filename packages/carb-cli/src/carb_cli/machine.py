"""The memory and GPUs of this machine that a model can use."""

import os
import re
import subprocess
from contextlib import suppress
from pathlib import Path

from carb_data import Frozen

_ASK = (
    "nvidia-smi",
    "--query-gpu=index,uuid,name,memory.free,memory.total",
    "--format=csv,noheader,nounits",
)
_MIB = 1024 * 1024


class Gpu(Frozen):
    """A GPU that this process may use."""

    id: str
    """How CUDA_VISIBLE_DEVICES names it, in the order of the PCI bus."""
    name: str
    free: int
    """Bytes of its memory that nobody uses now."""
    total: int


def gpus() -> list[Gpu]:
    """The GPUs that nvidia-smi lists, as far as CUDA_VISIBLE_DEVICES allows them; none where it is
    missing or fails."""
    try:
        # fixed words
        ended = subprocess.run(_ASK, capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return []
    visible: dict[str, Gpu] = {}
    numbers = []
    for line in ended.stdout.splitlines():
        with suppress(ValueError):  # a line of another form, or memory that the driver does not say
            index, uuid, name, free, total = line.split(", ")
            gpu = Gpu(id=index, name=name, free=int(free) * _MIB, total=int(total) * _MIB)
            numbers.append(index)
            visible[index] = gpu
            visible[uuid] = gpu.changed(id=uuid)
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is not None:
        numbers = allowed.split(",")
    return [visible[name] for name in numbers if name in visible]


def free_memory() -> int | None:
    """Bytes of main memory that a new process could use, within the limit of a container; null
    where it is not known."""
    known: list[int] = []
    with suppress(OSError):
        meminfo = Path("/proc/meminfo").read_text(encoding="ascii")
        known += [
            1024 * int(kilobytes)
            for kilobytes in re.findall(r"(?m)^MemAvailable:\s+(\d+) kB", meminfo)
        ]
    with suppress(OSError, ValueError):  # "max" where there is no limit
        known.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return min(known, default=None)
