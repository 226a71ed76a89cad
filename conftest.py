"""Applies to every test of the workspace."""

import gc
import signal
from collections.abc import Generator

import hypothesis  # noqa: F401 - before gc.freeze(): it asks gc who refers to a random generator
import pytest


def pytest_configure() -> None:
    """Let Ctrl-C reach the programs that tests start.

    A job in the background (``nohup nox -s tests &``) is started with SIGINT ignored, and a program
    that it starts inherits that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare the garbage collector what stays to the end.

    Half a million objects of torch, transformers and the tests themselves would be gone through at
    each full collection, of which trainers ask for several.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
