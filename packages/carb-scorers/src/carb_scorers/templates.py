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


def fill(text: str, fields: Mapping[str, Any], where: str) -> str:
    """Fill a template. Fields are inserted as they are and never read as template code.

    Args:
        text: the template, written in Jinja.
        fields: the values that the template may use, by name.
        where: the name of the template in errors.

    Raises:
        CarbError: the template is broken, or it uses a field that does not exist.
    """
    from jinja2 import TemplateError

    try:
        return str(_compiled(text).render(**fields))
    except TemplateError as error:
        raise CarbError(f"{where} cannot be filled: {error}. It may use {', '.join(sorted(fields))}.") from None


def check_template(text: str) -> None:
    """See whether a text is a template.

    Raises:
        ValueError: it is not; the message names the line.
    """
    from jinja2 import TemplateSyntaxError

    try:
        _environment().parse(text)
    except TemplateSyntaxError as error:
        raise ValueError(f"not a Jinja template: {error.message} (line {error.lineno})") from None


def read_words(language: str, folder: str | None = None) -> dict[str, Any]:
    """The phrases of a language, for prompts that ask in it.

    Args:
        language: BCP 47 tag; ``zh-Hans`` falls back to ``zh``.
        folder: the folder of files ``LANGUAGE.json`` that come before the shipped ones, or add languages.

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
