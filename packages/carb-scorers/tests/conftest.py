"""Shared by the tests of this package."""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # openai_server, a module of these tests


@pytest.fixture
def serve() -> Iterator[Callable[..., Any]]:
    """Starts a server with a script, or with answers to be given in turn, the last one for ever."""
    from openai_server import Server, in_turn

    started: list[Server] = []

    def start(
        script: Callable[[int, dict[str, Any]], object] | Sequence[object], port: int = 0
    ) -> Server:
        started.append(Server(script if callable(script) else in_turn(script), port))
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that failed is sent again at once."""
    from carb_scorers.models import server_retries

    monkeypatch.setattr(server_retries, "_FIRST_WAIT", 0.0)
