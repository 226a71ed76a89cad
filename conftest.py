"""Applies to every test of the workspace."""

import signal


def pytest_configure() -> None:
    """Let Ctrl-C reach the programs that tests start.

    A job in the background (``nohup nox -s tests &``) is started with SIGINT ignored, and a program that it starts
    inherits that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
