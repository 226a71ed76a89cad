"""A tokenizer's chat template: which one is used, and what it is told besides the messages."""

from __future__ import annotations

import hashlib
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

from carb_data import CarbError
from carb_data.models import Frozen
from carb_data.validation import JsonObject

_OURS = frozenset({"add_generation_prompt", "chat_template", "continue_final_message", "conversation", "documents",
                   "messages", "padding", "return_dict", "return_tensors", "tokenize", "tools"})  # fmt: skip
"""What ``apply_chat_template`` is given by the backend, or what would change what it returns."""


class TemplateOptions(Frozen):
    """Options of every backend that has the model's tokenizer."""

    chat_template: str | None = None
    """Path of a Jinja chat template to use instead of the tokenizer's, or ``none``: no template at all."""
    chat_template_kwargs: JsonObject = "{}"
    """A JSON object of variables for the chat template, such as ``{"enable_thinking": false}``."""


def set_chat_template(tokenizer: Any, options: TemplateOptions) -> str:
    """Give a tokenizer the template and the variables that the options ask for.

    Args:
        tokenizer: the tokenizer, which is changed: every later ``apply_chat_template`` gets the variables.
        options: the options with the template's variables.

    Returns:
        What another template adds to the model's revision.

    Raises:
        CarbError: the template's file cannot be read, or no template uses a variable of that name.
    """
    added = _replace(tokenizer, options.chat_template)
    variables = json.loads(options.chat_template_kwargs)
    template = tokenizer.chat_template
    written = "\n".join(template.values()) if isinstance(template, dict) else template or ""
    for name in variables:
        if name in _OURS or not re.search(rf"\b{re.escape(name)}\b", written):
            reason = "is not for users to set" if name in _OURS else "is no variable of this model's chat template"
            raise CarbError(
                f"chat_template_kwargs=: '{name}' {reason}."
                + ("" if written else " The model has no chat template; leave the option out.")
            )
    if variables:
        tokenizer.apply_chat_template = partial(tokenizer.apply_chat_template, **variables)
    return added


def _replace(tokenizer: Any, given: str | None) -> str:
    if given is None:
        return ""
    if given == "none":
        tokenizer.chat_template = None
        return "+template:none"
    try:
        tokenizer.chat_template = Path(given).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CarbError(f"chat_template={given}: cannot read that file: {error}. Give a path, or none.") from None
    return f"+template:{hashlib.sha256(tokenizer.chat_template.encode()).hexdigest()[:16]}"
