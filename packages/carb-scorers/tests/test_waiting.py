"""Synchronous calls of asynchronous code: from a script, a thread, a notebook; and Ctrl-C in each."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

pytest.importorskip("anyio", reason="needs the extra 'construct'")

import anyio

from carb_scorers.waiting import wait_for


async def work(number: int) -> tuple[int, threading.Thread]:
    await anyio.lowlevel.checkpoint()
    return number + 1, threading.current_thread()


def in_this_thread(call: Callable[[], object]) -> object:
    return call()


def in_asyncio(call: Callable[[], object]) -> object:
    async def cell() -> object:
        return call()

    return asyncio.run(cell())


def in_anyio(call: Callable[[], object]) -> object:
    async def cell() -> object:
        return call()

    return anyio.run(cell)


def in_trio(call: Callable[[], object]) -> object:
    async def cell() -> object:
        return call()

    pytest.importorskip("trio", reason="needs trio")
    return anyio.run(cell, backend="trio")


PLACES = [in_this_thread, in_asyncio, in_anyio, in_trio]


@pytest.mark.parametrize("place", PLACES)
def test_it_works_everywhere(place: Callable[..., object]) -> None:
    found = place(lambda: wait_for(work, 1))
    assert isinstance(found, tuple)
    assert found[0] == 2
    assert (found[1] is threading.main_thread()) == (place is in_this_thread)


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("place", ["wait_for(never)", "asyncio.run(cell())"], ids=["script", "notebook"])
def test_ctrl_c_ends_the_wait(place: str) -> None:
    """With polars, whose own handler lets system calls go on. Were Ctrl-C not heard, this would never end."""
    code = f"""
import asyncio, os, signal
import polars
import anyio
from carb_scorers.waiting import wait_for

async def never():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        await anyio.sleep_forever()
    finally:
        print("cleaned up")

async def cell():  # a notebook's kernel puts Python's own handler in place while a cell runs
    signal.signal(signal.SIGINT, signal.default_int_handler)
    wait_for(never)

try:
    {place}
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split("\n")[:2] == ["cleaned up", "interrupted"], done.stderr
    assert done.returncode == 0
