"""How a text of vLLM ended, without vLLM: its engine is a fake."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from carb_scorers import Usage
from carb_scorers.models.protocol import Prompt, Writing, message
from carb_scorers.models.token_rows import Row
from carb_scorers.models.vllm import VLLMLanguageModel


class Tokenizer:
    """One token, which is a text."""

    all_special_ids: tuple[int, ...] = ()

    def decode(self, _: Any, **__: Any) -> str:
        return "At first [[A]]"


class Engine:
    """Gives a text that ended for this reason."""

    revision = "r"
    tokenizer = Tokenizer()

    def __init__(self, reason: str | None) -> None:
        self.reason = reason

    async def run(self, prompts: Any, _: Any, __: Any, ___: Any, finish: Any, **____: Any) -> Any:
        text = SimpleNamespace(token_ids=(1,), logprobs=None, finish_reason=self.reason)
        row = (Row((1,)), SimpleNamespace(outputs=[text]))
        return [finish([row], Usage()) for _ in prompts]


@pytest.mark.parametrize(
    ("reason", "finished"),
    [("stop", True), ("length", False), ("abort", False), ("error", False), (None, False)],
)
def test_a_reason_that_is_not_known_to_be_an_end_is_none(
    reason: str | None, finished: bool
) -> None:
    model = VLLMLanguageModel("m", Engine(reason))
    prompt = Prompt((message("user", "?"),))
    (text,) = anyio.run(partial(model.generate, [prompt], Writing(max_tokens=8)))
    assert (text.text, text.finished) == ("At first [[A]]", finished)
