"""``python -m carb_cli`` and the command ``carb``."""

import gc
import os
import sys
from typing import Any, NoReturn

from carb_cli.main import INTERRUPTED, interrupted, main, say_what_runs

PATIENCE = 0.8
"""Seconds of silence, importing among them, after which a command prints what it does."""


def run() -> NoReturn:
    """Run the command line and end the process."""
    try:
        code = _code()
    except KeyboardInterrupt:  # before or after the command, which catches its own
        code = interrupted()
    # or Python would look through all that was imported for garbage, a seventh of ``carb --help``
    gc.freeze()
    sys.exit(code)


def _code() -> int:
    """The exit code of the command line.

    A stopped command leaves at once where a thread still waits for something abandoned, such as an
    answer of a model: Python would wait for it. The scores are in the journal by then.
    """
    import threading

    sys.unraisablehook = _interrupt_again
    waiting = threading.Timer(PATIENCE, say_what_runs)
    waiting.daemon = True
    waiting.start()
    code = main()
    waiting.cancel()
    if code == INTERRUPTED and any(
        not thread.daemon and thread is not threading.main_thread()
        for thread in threading.enumerate()
    ):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _interrupt_again(lost: Any) -> None:
    """Repeat a Ctrl-C that came within a callback, where Python drops every exception."""
    import _thread
    import threading

    if lost.exc_type is KeyboardInterrupt:
        threading.Timer(0.01, _thread.interrupt_main).start()  # the callback has ended by then
    else:
        sys.__unraisablehook__(lost)


if __name__ == "__main__":
    run()
