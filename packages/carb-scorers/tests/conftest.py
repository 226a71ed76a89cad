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
def backend(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], str]:
    """Registers a language model as the backend ``given``; returns the spec of a writer."""
    from types import SimpleNamespace

    from carb_data import Frozen
    from carb_scorers.models.protocol import LANGUAGE_MODELS, BackendKind

    def register(model: Any) -> str:
        module = SimpleNamespace(LANGUAGE_MODEL=BackendKind(Frozen, lambda *_: model))
        monkeypatch.setitem(sys.modules, "given_backend", module)
        monkeypatch.setitem(LANGUAGE_MODELS, "given", "given_backend:LANGUAGE_MODEL")
        return "given:model"

    return register


@pytest.fixture
def kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Any], None]:
    """Registers a kind of scorer as an installed package does."""
    from types import SimpleNamespace

    from carb_scorers.spec import ENTRY_POINTS

    def register(name: str, opener: Any, package: str = "given_package", version: int = 1) -> None:
        folder = tmp_path / f"{package}.dist-info"
        folder.mkdir(exist_ok=True)
        head = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
        (folder / "METADATA").write_text(head)
        (folder / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{name} = {package}:opener\n")
        monkeypatch.setitem(sys.modules, package, SimpleNamespace(opener=opener))
        monkeypatch.syspath_prepend(tmp_path)

    return register
