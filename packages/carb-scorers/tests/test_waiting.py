"""Synchronous calls of asynchronous code: from a script, a thread, a notebook; and Ctrl-C in
each."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

pytest.importorskip("anyio", reason="needs the extra 'construct'")

import anyio

from carb_scorers.waiting import wait_for


async def work(number: int) -> tuple[int, threading.Thread]:
    await anyio.lowlevel.checkpoint()
    return number + 1, threading.current_thread()


async def cell() -> tuple[int, threading.Thread]:
    """Synchronous code where a loop runs already, as in a notebook."""
    return wait_for(work, 1)


@pytest.mark.parametrize("loop", [None, "asyncio", "trio"])
def test_it_works_everywhere(loop: str | None) -> None:
    if loop == "trio":
        pytest.importorskip("trio", reason="needs trio")
    number, thread = wait_for(work, 1) if loop is None else anyio.run(cell, backend=loop)
    assert number == 2
    assert (thread is threading.main_thread()) == (loop is None)


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize(
    "place", ["wait_for(never)", "asyncio.run(cell())"], ids=["script", "notebook"]
)
def test_ctrl_c_ends_the_wait(place: str) -> None:
    """With polars, whose own handler lets system calls go on. Were Ctrl-C not heard, this would
    never end."""
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
