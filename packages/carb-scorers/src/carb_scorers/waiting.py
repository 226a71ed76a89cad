"""From synchronous to asynchronous code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from anyio.from_thread import BlockingPortalProvider, start_blocking_portal

T = TypeVar("T")


def wait_for(call: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Run asynchronous code to its end from any thread, one that runs an event loop (a notebook's) included."""
    with start_blocking_portal() as portal:
        return portal.call(call, *arguments)


_SHARED = BlockingPortalProvider()


def wait_together(call: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """``wait_for``, with one event loop for all threads that wait at the same time.

    Limits that belong to a loop, such as how many requests a server gets at once, then hold for all of them
    together. Not to be called by what runs in that loop, which would wait for itself.
    """
    with _SHARED as portal:
        return portal.call(call, *arguments)
