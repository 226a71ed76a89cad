"""From synchronous to asynchronous code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from anyio.from_thread import start_blocking_portal

T = TypeVar("T")


def wait_for(call: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Run asynchronous code to its end from any thread, one that runs an event loop (a notebook's) included."""
    with start_blocking_portal() as portal:
        return portal.call(call, *arguments)
