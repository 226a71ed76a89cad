"""What the tests of vLLM share: settings for a small model on a CPU, and calls from a test that is
not asynchronous."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")

SMALL = {"dtype": "float32", "max_length": "512", "engine_args": '{"enforce_eager": true}'}
FLOAT32 = 2e-4
"""How far vLLM's float32 may be from transformers', in log-probabilities: its kernels sum in
another order."""


def run(call: Any, *args: Any, **kwargs: Any) -> Any:
    """What an asynchronous call gives."""

    async def go() -> Any:
        return await call(*args, **kwargs)

    return anyio.run(go)


@contextmanager
def server(model: Path, *arguments: str) -> Iterator[str]:
    """The base URL of vLLM's own server, with a model that it calls ``small`` and by its folder, in
    float32.

    Args:
        model: folder.
        arguments: further ones of its command line.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    command += ["--model", str(model), "--served-model-name", "small", str(model)]
    command += ["--dtype", "float32", "--enforce-eager", *arguments]
    environment = {"HF_HUB_OFFLINE": "1", **os.environ}
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    said = []
    for line in process.stdout:  # until it is ready, or has ended
        said.append(line)
        if "Application startup complete" in line:
            break
    else:
        process.wait()
        process.stdout.close()
        pytest.fail("vLLM's server did not start:\n" + "".join(said[-30:]))
    drain = subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(timeout=60)
        process.stdout.close()
        drain.wait(timeout=60)
