"""Ctrl-C: the first stops at the next safe place, the second at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from carb_cli.display import note, notes
from carb_cli.main import INTERRUPTED


class Stop:
    """Whether the user asked to stop."""

    def __init__(self) -> None:
        self.asked = False
        self.loading = True
        """Whether nothing is in flight that is worth waiting for; the one who works says when that changes."""
        self.on_ask: Callable[[], object] | None = None
        """Called, in the signal handler, when the user asks."""

    def check(self) -> None:
        """Raise ``KeyboardInterrupt`` when the user asked to stop."""
        if self.asked:
            raise KeyboardInterrupt


@contextmanager
def graceful(message: str, on_leave: Callable[[], object]) -> Iterator[Stop]:
    """Within, the first Ctrl-C prints ``message`` and asks to stop; the second ends the process.

    So does the first while a model is being loaded. Neither waits for a model that computes in a thread. That is
    safe for work whose results are written to a journal, which a process may leave at any moment.

    Args:
        message: What the first Ctrl-C says.
        on_leave: the function that is called before the process ends while a model is being loaded.
    """
    stop = Stop()

    def handle(_signal: int, _frame: Any) -> None:
        if stop.asked or stop.loading:
            notes.show_cursor(True)
            if not stop.asked:
                on_leave()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        stop.asked = True
        note(message)
        if stop.on_ask is not None:
            stop.on_ask()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
