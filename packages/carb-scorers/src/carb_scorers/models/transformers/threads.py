"""Torch's threads on a CPU, divided among the workers of a model."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from carb_data.extras import require


class Threads:
    """A share of torch's threads for each of some workers while they run.

    torch keeps a number for each thread and one for threads to come; the latter is put back when a worker ends. The
    share is decided once, so that the rounding of a score does not depend on what runs beside it.

    Args:
        workers: workers on the CPU. With one, torch's number stays as it is.
    """

    _lock = threading.Lock()
    _running = 0
    _usual = 1

    def __init__(self, workers: int) -> None:
        self._torch = require("torch", package="carb-scorers", extra="hf")
        self._share = max(1, self._torch.get_num_threads() // workers) if workers > 1 else None

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Let torch use a worker's share in this thread meanwhile."""
        if self._share is None:
            yield
            return
        with Threads._lock:
            usual = self._torch.get_num_threads()  # has torch set up this thread, which would undo what follows
            if not Threads._running:
                Threads._usual = usual
            Threads._running += 1
        self._torch.set_num_threads(self._share)
        try:
            yield
        finally:
            with Threads._lock:
                Threads._running -= 1
                self._torch.set_num_threads(Threads._usual)
