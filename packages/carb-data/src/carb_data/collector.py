"""The one place that stops Python's collector of cyclic garbage."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected(*, lasting: bool = False) -> Iterator[None]:
    """Keep Python's garbage collector from running inside a ``with`` block.

    The block loads things that stay: sets, torch and transformers, a large vocabulary. The
    collector would search them again and again, for a sixth of the processor time of a start.

    Args:
        lasting: whether later searches, too, leave out what exists at the end of the block, until
            the process ends (``gc.freeze``). Right for sets, which stay that long; wrong for a
            model, whose memory is given back.
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
