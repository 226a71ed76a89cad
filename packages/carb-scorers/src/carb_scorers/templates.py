"""Prompts as data: Jinja files filled in one pass, and the phrases that they are made of in each language."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from carb_data import CarbError

__all__ = ["fill"]


def fill(name: str, fields: Mapping[str, Any]) -> str:
    """Fill a prompt. Fields are inserted as they are and never read as template code.

    Args:
        name: a shipped prompt (``listwise-culture``), or the path of a Jinja file.
        fields: what the template may use.

    Raises:
        CarbError: there is no such prompt, or it is broken, or it uses a field that does not exist.
    """
    from jinja2 import TemplateError

    try:
        return str(_template(name).render(**fields)).strip()
    except TemplateError as error:
        raise CarbError(f"Prompt '{name}' cannot be filled: {error}. It may use {', '.join(sorted(fields))}.") from None


def read_template(name: str) -> str:
    """The text of a shipped prompt by name, or of a file by path.

    Raises:
        CarbError: there is neither.
    """
    shipped = _folder() / f"{name}.jinja"
    if shipped.is_file():
        return shipped.read_text(encoding="utf-8")
    path = Path(name).expanduser()
    if path.is_file():
        return path.read_text(encoding="utf-8")
    known = sorted(entry.name.removesuffix(".jinja") for entry in _folder().iterdir() if entry.name.endswith(".jinja"))
    raise CarbError(f"There is no prompt '{name}'. Give a path to a Jinja file, or one of: {', '.join(known)}.")


def read_words(language: str, folder: str | None = None) -> dict[str, Any]:
    """The phrases of a language, for prompts that ask in it.

    Args:
        language: BCP 47 tag; ``zh-Hans`` falls back to ``zh``.
        folder: files ``LANGUAGE.json`` that come before the shipped ones, or add languages.

    Returns:
        Phrase name to Jinja text, and under ``cultures`` culture id to its name in that language.

    Raises:
        CarbError: no file of that language, or one that lacks a phrase.
    """
    tag = language
    while tag:
        for place in (Path(folder).expanduser(), _folder() / "words") if folder else (_folder() / "words",):
            file = place / f"{tag}.json"
            if file.is_file():
                return _words(file)
        tag = tag.rpartition("-")[0]
    raise CarbError(
        f"There are no prompt phrases in the language '{language}' (there are: {', '.join(word_languages())}). Use "
        f"prompt_language=en, or put {language}.json into a folder and name it with words=FOLDER."
    )


def word_languages() -> list[str]:
    """Languages whose phrases are shipped."""
    return sorted(entry.name.removesuffix(".json") for entry in (_folder() / "words").iterdir())


def fill_phrase(text: str, fields: Mapping[str, Any]) -> str:
    """Fill one phrase of ``read_words``.

    Raises:
        CarbError: it uses a field that does not exist.
    """
    from jinja2 import TemplateError

    try:
        return str(_compiled(text).render(**fields))
    except TemplateError as error:
        raise CarbError(f"Phrase '{text}' cannot be filled: {error}. It may use {', '.join(sorted(fields))}.") from None


def _folder() -> Traversable:
    return resources.files("carb_scorers") / "prompts"


def _words(file: Traversable) -> dict[str, Any]:
    try:
        words = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CarbError(f"{file}: not JSON: {error}") from None
    needed = json.loads((_folder() / "words" / "en.json").read_text(encoding="utf-8"))
    missing = [name for name in needed if name != "cultures" and not isinstance(words.get(name), str)]
    if missing:
        raise CarbError(f"{file} lacks the phrases {', '.join(missing)}; the shipped en.json has them all.")
    return dict(words)


@cache
def _environment() -> Any:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=False, autoescape=False)


@cache
def _compiled(text: str) -> Any:
    return _environment().from_string(text)


def _template(name: str) -> Any:
    return _compiled(read_template(name))
