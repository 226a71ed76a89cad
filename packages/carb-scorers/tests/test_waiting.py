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

from carb_data import CarbError
from carb_scorers.waiting import wait_for


async def work(number: int) -> tuple[int, threading.Thread]:
    await anyio.lowlevel.checkpoint()
    return number + 1, threading.current_thread()


async def refuse() -> None:
    raise CarbError("the key is wrong")


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


def in_a_callback(call: Callable[[], object]) -> object:
    """Within the loop and outside of any task, as an event of a user interface is."""

    async def cell() -> object:
        done: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        def event() -> None:
            try:
                done.set_result(call())
            except CarbError as error:
                done.set_exception(error)

        asyncio.get_running_loop().call_soon(event)
        return await done

    return asyncio.run(cell())


def in_a_thread_of_a_loop(call: Callable[[], object]) -> object:
    """A thread that inherits what anyio remembers of the loop it was started from, and runs none."""

    async def cell() -> object:
        return await asyncio.to_thread(call)

    return anyio.run(cell)


PLACES = [in_this_thread, in_asyncio, in_anyio, in_trio, in_a_callback, in_a_thread_of_a_loop]


@pytest.mark.parametrize("place", PLACES)
def test_it_works_everywhere(place: Callable[..., object]) -> None:
    found = place(lambda: wait_for(work, 1))
    assert isinstance(found, tuple)
    assert found[0] == 2
    assert (found[1] is threading.main_thread()) == (place is in_this_thread)


@pytest.mark.parametrize("place", PLACES)
def test_a_mistake_is_passed_on_as_it_is(place: Callable[..., object]) -> None:
    with pytest.raises(CarbError, match="the key is wrong"):
        place(lambda: wait_for(refuse))


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
