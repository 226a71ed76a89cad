"""vLLM for real, on a small model: its engine, and its server behind the client of servers.

Runs in an environment of its own: ``nox -s vllm``.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("vllm", reason="needs vLLM; run nox -s vllm")


from carb_data import CarbError
from carb_data.validation import read_options
from carb_scorers.models.chat_tokens import prompt_ids
from carb_scorers.models.protocol import Failure, Generation, Prompt, Writing, message
from carb_scorers.models.server_models import ServerLanguageModel
from carb_scorers.models.server_options import ServerLanguageOptions
from carb_scorers.models.vllm import VLLMOptions, open_language_model
from small_models import model_folder
from vllm_small import FLOAT32, SMALL, run, server

# What vLLM and its dependencies warn of is not ours to fix.
pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

WANTED = [
    "the capital of France",
    "a river in Egypt",
    "how people greet each other in Japan",
    "a dish of Tết",
]
PROMPTS = [Prompt((message("user", f"Name {one}."),), cue="\nAnswer:") for one in WANTED]


def options(**more: str) -> VLLMOptions:
    return read_options(VLLMOptions, "test", {**SMALL, **more})


@pytest.fixture(scope="module")
def smollm() -> Path:
    """A real chat model (SmolLM2 135M Instruct)."""
    return model_folder("smollm2-135m")


@pytest.fixture(scope="module")
def judge(smollm: Path) -> Iterator[Any]:
    opened = open_language_model(str(smollm), options())
    yield opened
    anyio.run(opened.aclose)


def test_prefixes_are_cached(judge: Any) -> None:
    """An item's common prompt is computed once: the engine finds its blocks again."""
    from vllm import SamplingParams

    engine = judge.engine
    text = "Name one thing that people of a town on a river do on a market day. " * 16
    first, second = (
        Prompt((message("user", text + end),), cue="\nAnswer:") for end in ("Why?", "Who?")
    )
    rows = [tuple(prompt_ids(engine.tokenizer, prompt)) for prompt in (first, second)]
    assert len(rows[0]) > 128
    found = [run(engine.ask, [(row, SamplingParams(max_tokens=1))])[0] for row in rows]
    assert found[1].num_cached_tokens >= 128
    assert found[0].num_cached_tokens < found[1].num_cached_tokens


def test_log_probabilities_do_not_depend_on_neighbours(judge: Any, record_property: Any) -> None:
    together = run(judge.next_logprobs, PROMPTS * 4, ["A", "B"])
    alone = [run(judge.next_logprobs, [p], ["A", "B"])[0] for p in PROMPTS] * 4
    apart = max(
        abs(a.logprobs[k] - b.logprobs[k])
        for a, b in zip(together, alone, strict=True)
        for k in "AB"
    )
    record_property("largest difference in float32", apart)
    assert apart <= FLOAT32


def test_what_cannot_be_loaded_is_said_so(tmp_path: Path, smollm: Path) -> None:
    with pytest.raises(CarbError, match="no model folder"):
        open_language_model("/no/such/folder", options())
    with pytest.raises(CarbError, match="not JSON"):
        open_language_model(str(smollm), options(engine_args="{"))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CarbError, match="vLLM cannot load"):
        open_language_model(str(tmp_path), options())


KEY = "sk-a-key-that-must-not-be-seen-anywhere"


def test_the_servers_errors_are_understood(smollm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = Prompt((message("user", "word " * 3000),))
    with server(smollm, "--max-model-len", "1024", "--api-key", KEY) as url:

        def asked(model: str, key: str, *prompts: Prompt) -> Any:
            monkeypatch.setenv("OPENAI_API_KEY", key)
            opened = ServerLanguageModel(
                model, read_options(ServerLanguageOptions, "test", {"url": url})
            )
            return run(opened.generate, list(prompts), Writing(max_tokens=4))

        good, bad = asked("small", KEY, PROMPTS[0], long)
        assert isinstance(good, Generation)
        assert isinstance(bad, Failure)
        assert bad.error.kind == "too-long"
        with pytest.raises(CarbError, match=r"404.*model"):
            asked("no-such-model", KEY, PROMPTS[0])
        with pytest.raises(CarbError, match="does not accept the key"):
            asked("small", "sk-wrong-wrong-wrong", PROMPTS[0])
