"""The one place that stops Python's collector of cyclic garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["uncollected"]


@contextmanager
def uncollected(*, lasting: bool = False) -> Iterator[None]:
    """Keep the collector from running meanwhile.

    What is loaded (sets, torch and transformers, a large vocabulary) stays, and the collector would
    go through it again and again: a sixth of the processor time of a start.

    Args:
        lasting: whether all that there is by then stays until the process ends, so that later
            searches leave it out, too; a model is given back, sets are not.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if lasting:
            gc.freeze()
        if enabled:
            gc.enable()
