"""The one place that stops Python's collector of cyclic garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["uncollected"]


@contextmanager
def uncollected(*, lasting: bool = False) -> Iterator[None]:
    """Keep the collector from running meanwhile.

    Loaded things (sets, torch and transformers, a large vocabulary) stay. The collector would go
    through them again and again: a sixth of the processor time of a start.

    Args:
        lasting: whether later searches leave out what exists by then, too, until the process ends.
            Sets stay that long; a model is given back.
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
