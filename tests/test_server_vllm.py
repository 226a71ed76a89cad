"""The OpenAI-compatible backend against a real server: vLLM's, on a small model.

Runs in an environment of its own: ``nox -s vllm``.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("vllm", reason="needs vLLM; run nox -s vllm")

from carb_data import CarbError, Dataset, load
from carb_scorers.models.protocol import Failure, Generation, Prompt, Writing
from carb_scorers.models.server_language import open_server_language
from carb_scorers.models.server_options import ServerLanguageOptions
from carb_scorers.run import run
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
    return open_server_language("small", read_options(ServerLanguageOptions, "test", {"url": url, **options}))


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
    other = open_server_language("no-such-model", read_options(ServerLanguageOptions, "test", {"url": server}))
    with pytest.raises(CarbError, match=r"404.*model"):
        ask(other.generate, PROMPTS[:1], Writing(max_tokens=4))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-wrong-wrong")
    with pytest.raises(CarbError, match="does not accept the key"):
        ask(opened(server).generate, PROMPTS[:1], Writing(max_tokens=4))


@pytest.fixture(scope="module")
def items() -> Dataset:
    english = [item for item in load("carb-seed@2") if item.language == "en"][:3]
    return Dataset(item.model_copy(update={"perturbed": ()}) for item in english)


def test_a_run_records_what_it_cost_and_not_the_key(server: str, items: Dataset, tmp_path: Path) -> None:
    spec = f"judge:small?backend=openai&url={server}&mode=listwise&read=generate&price_in=1&price_out=2"

    async def go() -> None:
        await run(items, [spec], tmp_path)

    anyio.run(go)
    (scorer,) = json.loads((tmp_path / "run.json").read_text())["scorers"]
    usage = scorer["usage"]
    assert usage["requests"] == 3
    assert usage["input_tokens"] > 300
    assert scorer["cost"] == pytest.approx((usage["input_tokens"] + 2 * usage["output_tokens"]) / 1e6)
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes()
