"""``python -m carb_cli`` and the command ``carb``."""

import gc
import os
import sys
import threading
from typing import NoReturn

from carb_cli.main import INTERRUPTED, main, say_what_runs

PATIENCE = 0.8
"""Seconds of silence, importing among them, after which a command prints what it does."""


def run() -> NoReturn:
    """Run the command line and end the process.

    A stopped command leaves at once where a thread still waits for something abandoned, such as an
    answer of a model: Python would wait for it. What was scored is in the journal by then.
    """
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
    # or Python would look through all that was imported for garbage, a seventh of ``carb --help``
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    run()
