"""The OpenAI-compatible backend against a real server: vLLM's, on a small model.

Runs in an environment of its own: ``nox -s vllm``.
"""

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("vllm", reason="needs vLLM; run nox -s vllm")

from carb_data import CarbError
from carb_scorers.models.protocol import Failure, Generation, Prompt, Writing
from carb_scorers.models.server_models import ServerLanguageModel
from carb_scorers.models.server_options import ServerLanguageOptions
from carb_scorers.spec import read_options
from small_models import model_folder
from vllm_small import run as ask
from vllm_small import server as started

# What vLLM and its dependencies warn of is not ours to fix.
pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

KEY = "sk-a-key-that-must-not-be-seen-anywhere"
PROMPTS = [
    Prompt(({"role": "user", "content": text},), cue="\nAnswer:")
    for text in ("What is the capital of France?", "Name a river in Egypt.", "How do people greet in Japan?")
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The base URL of vLLM's server, which wants a key."""
    with started(model_folder("smollm2-135m"), "--max-model-len", "1024", "--api-key", KEY) as url:
        yield url


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def opened(url: str, **options: str) -> Any:
    return ServerLanguageModel("small", read_options(ServerLanguageOptions, "test", {"url": url, **options}))


def test_it_writes(server: str) -> None:
    found = ask(opened(server).generate, PROMPTS, Writing(max_tokens=8))
    for one in found:
        assert isinstance(one, Generation)
        assert one.text
        assert one.usage.requests == 1
        assert one.usage.input_tokens > 10
        assert 1 <= one.usage.output_tokens <= 8


def test_its_errors_are_understood(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    long = Prompt(({"role": "user", "content": "word " * 3000},))
    good, bad = ask(opened(server).generate, [PROMPTS[0], long], Writing(max_tokens=4))
    assert isinstance(good, Generation)
    assert isinstance(bad, Failure)
    assert bad.error.kind == "too-long"
    other = ServerLanguageModel("no-such-model", read_options(ServerLanguageOptions, "test", {"url": server}))
    with pytest.raises(CarbError, match=r"404.*model"):
        ask(other.generate, PROMPTS[:1], Writing(max_tokens=4))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-wrong-wrong")
    with pytest.raises(CarbError, match="does not accept the key"):
        ask(opened(server).generate, PROMPTS[:1], Writing(max_tokens=4))
