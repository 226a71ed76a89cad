"""The Think-as-Locals prompt: data files filled with a question, two responses and a culture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

from carb_data import CarbError, Culture, cultures
from carb_data.models import Conversation, as_text
from carb_scorers.models.tokens import guarded
from carb_scorers.templates import fill
from tal_rlvr.reading import MARK, plain

Message = dict[str, str]
"""A chat message: ``role`` and ``content``."""

Prompt = str | list[Message]
"""As trainers take it: chat messages, or plain text for a base model."""

GENERAL = "general"
"""The culture of pairs that are about no culture."""

QUOTE = "> "
"""Before every line of a response, so that no response can pretend to be another part of the prompt."""


class HasPrompt(Protocol):
    """A ``BonSet``, a ``ScoreRequest``, or anything else with a question and its language."""

    @property
    def prompt(self) -> str | Conversation: ...
    @property
    def language(self) -> str: ...


class HasText(Protocol):
    """A ``Response``, a ``Candidate``, or anything else with a text."""

    @property
    def text(self) -> str: ...


def prompt_folder() -> Path:
    """The folder of the shipped prompts: ``think-LANGUAGE.jinja``, ``direct-LANGUAGE.jinja``, ``plain.jinja``,
    and ``general-think-LANGUAGE.jinja`` and ``general-direct-LANGUAGE.jinja`` for pairs of no culture."""
    return Path(str(resources.files("tal_rlvr") / "prompts"))


def prompt_languages(form: str = "think", folder: Path | None = None) -> list[str]:
    """Languages in which a prompt is there."""
    folder = folder or prompt_folder()
    return sorted(path.stem.removeprefix(f"{form}-") for path in folder.glob(f"{form}-*.jinja"))


def render_prompt(
    item: HasPrompt | str,
    pair: Sequence[HasText | str],
    culture: str | Culture,
    language: str = "en",
    *,
    form: str = "think",
    folder: Path | None = None,
) -> list[Message]:
    """Chat messages that ask a model to think as a local of a culture and to judge two responses.

    Args:
        item: the question: text, or an object with ``prompt`` and ``language``.
        pair: the two responses in presented order, A first.
        culture: id in the registry, a ``Culture``, or a name as it is to stand in the prompt. ``general`` stands for no
            culture: the prompt then asks which response serves better (``general-think-LANGUAGE.jinja``, else English).
        language: BCP 47 tag of the instructions' language, or ``"item"`` for the item's own; where there is no prompt
            in an item's own language, the instructions are English.
        form: ``think`` (criteria, assessment, verdict) or ``direct`` (a verdict alone).
        folder: prompts to use instead of the shipped ones, in files of the same names.

    Returns:
        One user message. Base models take ``render_plain`` of it.

    Raises:
        CarbError: not two responses, or no prompt in that language.
    """
    if isinstance(pair, str) or len(pair) != 2:
        raise CarbError("render_prompt judges a pair: give exactly two responses, in presented order.")
    question = item if isinstance(item, str) else as_text(item.prompt)
    if language == "item":
        if isinstance(item, str):
            raise CarbError("language='item' needs an item that knows its language; name the language instead.")
        has_own = culture == GENERAL or _find(form, item.language, folder or prompt_folder()) is not None
        language = item.language if has_own else "en"
    first, second = (_quoted(entry if isinstance(entry, str) else entry.text) for entry in pair)
    fields = {"prompt": _quoted(question), "first": first, "second": second, "culture": _name(culture)}
    path = _general(form, language, folder) if culture == GENERAL else _file(form, language, folder)
    return [{"role": "user", "content": _filled(path, fields)}]


def render_plain(messages: Sequence[Message]) -> str:
    """The messages as text for a base model, up to the place where the judgement begins."""
    return _filled(prompt_folder() / "plain.jinja", {"messages": list(messages)}) + "\n"


def _filled(path: Path, fields: Mapping[str, Any]) -> str:
    return fill(path.read_text(encoding="utf-8"), fields, f"Prompt '{path}'").strip()


def guard(messages: Sequence[Message], tokenizer: Any) -> list[Message]:
    """The messages with every control token of the tokenizer broken up by a space.

    A response that holds ``<|im_end|>`` could otherwise end the user's turn and speak for the judge.
    """
    texts = guarded(tokenizer, [message["content"] for message in messages])
    return [{**message, "content": text} for message, text in zip(messages, texts, strict=True)]


def holds_verdict(prompt: Prompt) -> bool:
    """Whether a question or response in a rendered prompt holds a verdict's marker, which a judge might copy."""
    texts = [prompt] if isinstance(prompt, str) else [message["content"] for message in prompt]
    return any(line.startswith(QUOTE) and MARK.search(plain(line)) for text in texts for line in text.splitlines())


def _quoted(text: str) -> str:
    return "\n".join(QUOTE + line for line in text.splitlines() or [""])


def _name(culture: str | Culture) -> str:
    if isinstance(culture, Culture):
        return culture.name
    return cultures[culture].name if culture in cultures else culture


def _general(form: str, language: str, folder: Path | None) -> Path:
    """The prompt for a pair of no culture: of the folder or shipped, in the language or in English."""
    folders = [folder or prompt_folder(), prompt_folder()]
    found = (_find(f"general-{form}", tag, place) for place in folders for tag in (language, "en"))
    return next(path for path in found if path is not None)


def _file(form: str, language: str, folder: Path | None) -> Path:
    folder = folder or prompt_folder()
    path = _find(form, language, folder)
    if path is not None:
        return path
    known = ", ".join(prompt_languages(form, folder)) or "none"
    raise CarbError(
        f"There is no prompt '{form}' in the language '{language}' (there is: {known}). Use language='en', or put "
        f"a file {form}-{language}.jinja into a folder of your own and name that folder."
    )


def _find(form: str, language: str, folder: Path) -> Path | None:
    tag = language
    while tag:
        path = folder / f"{form}-{tag}.jinja"
        if path.is_file():
            return path
        tag = tag.rpartition("-")[0]  # zh-Hans falls back to zh
    return None
