"""One file per command.

Importing polars puts a handler of its own under SIGINT, with which a system call goes on as if
nothing had happened: Ctrl-C while a command waits for a pipe or a server would do nothing. So
system calls are made to end again.
"""

import signal
import threading

import polars as _polars  # noqa: F401  # before the line below, which would otherwise be undone

if hasattr(signal, "siginterrupt") and threading.current_thread() is threading.main_thread():
    signal.siginterrupt(signal.SIGINT, True)
