"""From synchronous to asynchronous code: from one thread, or from many that wait together."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import wait
from typing import Any, TypeVar

import anyio
from anyio.from_thread import BlockingPortalProvider, start_blocking_portal

T = TypeVar("T")

_SHARED = BlockingPortalProvider()
_CHECK_EVERY = 0.2
"""Seconds between looks at whether Ctrl-C was pressed."""


def wait_for(call: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Call an asynchronous function from ordinary code, wait for its end, and return its result.

    It works in any thread, also in one that runs an event loop, such as a notebook's. In the main
    thread without a loop the call runs there, so that Ctrl-C ends it at once. Elsewhere it runs in
    a thread of its own, and the caller's thread waits. An event loop of that thread is blocked
    meanwhile.

    Args:
        call: The asynchronous function.
        arguments: Its arguments.
    """
    if threading.current_thread() is threading.main_thread() and not _runs_a_loop():
        return anyio.run(call, *arguments)
    with start_blocking_portal() as portal:
        future = portal.start_task_soon(call, *arguments)
        while not wait(
            [future], _CHECK_EVERY
        ).done:  # a wait without a timeout ignores Ctrl-C once polars is imported
            pass
        return future.result()


def wait_together(call: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """``wait_for``, with one event loop for all threads that wait at the same time.

    Limits that belong to a loop, such as how many requests a server gets at once, then hold for all
    of them together. Not to be called by what runs in that loop, which would wait for itself.
    """
    with _SHARED as portal:
        return portal.call(call, *arguments)


def _runs_a_loop() -> bool:
    """Whether this thread runs an event loop: asyncio's, also outside of a task, or any other that
    anyio knows."""
    for ask in (asyncio.get_running_loop, anyio.get_current_task):
        try:
            ask()
        except RuntimeError:
            continue
        return True
    return False
