"""From the synchronous code of many threads to asynchronous code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from anyio.from_thread import BlockingPortalProvider

T = TypeVar("T")

_SHARED = BlockingPortalProvider()


def wait_together(call: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """``carb_data.waiting.wait_for``, with one event loop for all threads that wait at the same time.

    Limits that belong to a loop, such as how many requests a server gets at once, then hold for all of them
    together. Not to be called by what runs in that loop, which would wait for itself.
    """
    with _SHARED as portal:
        return portal.call(call, *arguments)
