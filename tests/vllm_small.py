"""What the tests of vLLM share: settings for a small model on a CPU, and calls from a test that is not asynchronous."""

from __future__ import annotations

import os
from typing import Any

import anyio

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")

SMALL = {"dtype": "float32", "max_length": "512", "eager": "true"}
FLOAT32 = 2e-4
"""How far vLLM's float32 may be from transformers', in log-probabilities: its kernels sum in another order."""


def run(call: Any, *args: Any, **kwargs: Any) -> Any:
    """What an asynchronous call gives."""

    async def go() -> Any:
        return await call(*args, **kwargs)

    return anyio.run(go)
