"""Variables that a chat template uses: ``chat_template_kwargs={"enable_thinking": false}``."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")

from carb_scorers.models.hf_loading import TemplateOptions, set_chat_template
from carb_scorers.models.protocol import Prompt
from carb_scorers.models.tokens import answer_ids, conversation_ids, prompt_ids
from tiny_models import CHAT, tokenizer

THINKING = CHAT.replace(
    "<|assistant|>\n{% endif %}",
    "<|assistant|>\n{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}{% endif %}",
)
"""As Qwen 3's: a model that may not think is shown an empty thought."""
OFF = '{"enable_thinking": false}'
PROMPT = Prompt(({"role": "user", "content": "What do people eat?"},))


def made(template: str | None = THINKING, **options: str) -> Any:
    found = tokenizer(chat=True)
    found.chat_template = template
    set_chat_template(found, TemplateOptions(**options))
    return found


def test_the_template_gets_them_wherever_it_is_used() -> None:
    plain, changed = made(), made(chat_template_kwargs=OFF)
    thought = plain("<think></think>", add_special_tokens=False)["input_ids"]
    assert prompt_ids(changed, PROMPT) == [*prompt_ids(plain, PROMPT), *thought]
    assert prompt_ids(made(chat_template_kwargs='{"enable_thinking": true}'), PROMPT) == prompt_ids(plain, PROMPT)
    assert conversation_ids(changed, PROMPT, "Rice.") == conversation_ids(plain, PROMPT, "Rice.")  # no turn is open
    assert answer_ids(changed, "Rice.", end_of_turn=True) == answer_ids(plain, "Rice.", end_of_turn=True)
