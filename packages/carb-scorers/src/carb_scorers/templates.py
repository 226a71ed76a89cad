"""Prompts as data: Jinja files filled in one pass, and their tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from carb_data import CarbError


@cache
def _environment() -> Any:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=False, autoescape=False)


@cache
def read_template(name: str) -> str:
    """A shipped prompt by name (``listwise-culture``), or a file by path.

    Raises:
        CarbError: there is neither.
    """
    shipped = resources.files("carb_scorers") / "prompts" / f"{name}.jinja"
    if shipped.is_file():
        return shipped.read_text(encoding="utf-8")
    path = Path(name)
    if path.is_file():
        return path.read_text(encoding="utf-8")
    folder = resources.files("carb_scorers") / "prompts"
    known = sorted(entry.name.removesuffix(".jinja") for entry in folder.iterdir() if entry.name.endswith(".jinja"))
    raise CarbError(f"There is no prompt '{name}'. Give a path to a Jinja file, or one of: {', '.join(known)}.")


def fill(name: str, fields: Mapping[str, Any]) -> str:
    """Fill a prompt. Fields are inserted as they are and never read as template code.

    Raises:
        CarbError: the template is broken or uses a field that does not exist.
    """
    from jinja2 import TemplateError

    try:
        return str(_environment().from_string(read_template(name)).render(**fields)).strip()
    except TemplateError as error:
        raise CarbError(f"Prompt '{name}' cannot be filled: {error}. It may use {', '.join(sorted(fields))}.") from None


def chat_prefix(tokenizer: Any, messages: Sequence[Mapping[str, str]]) -> list[int]:
    """Token ids of a chat up to the place where the assistant's answer begins."""
    text = tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def plain_prefix(tokenizer: Any, text: str) -> list[int]:
    """Token ids of a text for a base model, with the special tokens that the model expects at the start."""
    ids = list(tokenizer(text, add_special_tokens=False)["input_ids"])
    start = tokenizer.bos_token_id
    return ids if start is None else [start, *ids]
