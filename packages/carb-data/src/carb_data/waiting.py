"""From synchronous to asynchronous code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import wait
from typing import Any, TypeVar, cast

from carb_data.extras import require

__all__ = ["wait_for"]

T = TypeVar("T")

_CHECK_EVERY = 0.2
"""Seconds between looks at whether Ctrl-C was pressed."""


def wait_for(call: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Run asynchronous code to its end from any thread, one that runs an event loop (a notebook's) included.

    In the main thread without a loop it runs there, so that Ctrl-C ends it at once. Elsewhere it runs in a thread of
    its own, and the caller's thread waits: a loop that runs there stands still meanwhile.

    Raises:
        MissingExtraError: anyio is not installed.
    """
    anyio = require("anyio", package="carb-data", extra="construct")
    if threading.current_thread() is threading.main_thread() and not _runs_a_loop(anyio):
        return cast("T", anyio.run(call, *arguments))
    portals = require("anyio.from_thread", package="carb-data", extra="construct")
    with portals.start_blocking_portal() as portal:
        future = portal.start_task_soon(call, *arguments)
        while not wait([future], _CHECK_EVERY).done:  # a wait without a timeout ignores Ctrl-C once polars is imported
            pass
        return cast("T", future.result())


def _runs_a_loop(anyio: Any) -> bool:
    """Whether this thread runs an event loop: asyncio's, also outside of a task, or any other that anyio knows."""
    for ask in (asyncio.get_running_loop, anyio.get_current_task):
        try:
            ask()
        except RuntimeError:
            continue
        return True
    return False
