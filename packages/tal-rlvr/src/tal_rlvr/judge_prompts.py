"""The Think-as-Locals prompt: data files filled with a question, two responses and a culture."""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Protocol, Self

from pydantic import Field, model_validator

from carb_data import CarbError, Conversation, Culture, Frozen, as_text, cultures
from carb_scorers.jinja_filling import fill
from carb_scorers.models.chat_tokens import guarded

Message = dict[str, str]
"""A chat message: ``role`` and ``content``."""

Prompt = str | list[Message]
"""As trainers take it: chat messages, or plain text for a base model."""

GENERAL = "general"
"""The culture of pairs that are about no culture."""

QUOTE = "> "
"""Before every line of a response, so that no response can pretend to be another part of the
prompt."""


class PromptConfig(Frozen):
    """The choice of prompt; kept beside a trained model in ``think.json``, since judging must use
    the prompts of training."""

    language: str = "en"
    """Language of the instructions: a BCP 47 tag, or ``item`` for each item's own."""
    style: str = "full"
    """``full``: states the form, for any model. ``compact``: short, for a model warmed up on the
    form (English). Otherwise a folder with prompts of your own."""
    chat: Literal["auto", "yes", "no"] = "auto"
    """Use the tokenizer's chat template: ``auto`` where there is one; ``no`` gives plain text, as
    for base models."""
    template: dict[str, bool | int | str] = Field(default={})
    """Variables of the chat template, such as ``enable_thinking = false``: for every prompt of
    training and of the judge."""

    @model_validator(mode="after")
    def _variables_need_a_template(self) -> Self:
        if self.template and self.chat == "no":
            raise ValueError("template counts for nothing with chat = 'no': leave one of them out")
        return self

    def folder(self) -> Path:
        """The folder of the prompt files."""
        if self.style == "full":
            return prompt_folder()
        if self.style == "compact":
            return prompt_folder() / "compact"
        return Path(self.style)

    def is_chat(self, tokenizer: Any) -> bool:
        """Whether the tokenizer's chat template is used."""
        if self.chat == "auto":
            return bool(getattr(tokenizer, "chat_template", None))
        return self.chat == "yes"


class HasPrompt(Protocol):
    """A ``BonSet``, a ``ScoreRequest``, or anything else with a question and its language."""

    @property
    def prompt(self) -> str | Conversation: ...
    @property
    def language(self) -> str: ...


def prompt_folder() -> Path:
    """The folder of the shipped prompts: ``LANGUAGE.jinja``, and ``general-LANGUAGE.jinja`` for
    pairs of no culture."""
    return Path(str(resources.files("tal_rlvr") / "prompts"))


def check_prompts(prompts: PromptConfig) -> None:
    """Refuse a choice for which there is no prompt, before there is an item.

    Raises:
        CarbError: the folder has none in the language; for ``item``, none at all.
    """
    folder = prompts.folder()
    if prompts.language == "item" and any(folder.glob("*.jinja")):
        return
    if _find(f"{GENERAL}-", prompts.language, folder) is None:
        _file(prompts.language, folder)


def prompt_languages(folder: Path) -> list[str]:
    """Languages in which there is a prompt."""
    names = (path.stem for path in folder.glob("*.jinja"))
    return sorted(name for name in names if not name.startswith(f"{GENERAL}-"))


def render_prompt(
    item: HasPrompt | str,
    pair: Sequence[Any],
    culture: str | Culture,
    language: str = "en",
    *,
    direct: bool = False,
    folder: Path | None = None,
) -> list[Message]:
    """Chat messages that ask a model to think as a local of a culture and to judge two responses.

    Args:
        item: the question: text, or an object with ``prompt`` and ``language``.
        pair: the two responses in presented order, A first: texts, or objects with a ``text``.
        culture: id in the registry, a ``Culture``, or a name as it is to stand in the prompt.
            ``general`` stands for no culture: the prompt then asks which response serves better
            (``general-LANGUAGE.jinja``, else English).
        language: BCP 47 tag of the instructions' language, or ``"item"`` for the item's own.
            Without a prompt in an item's own language, the instructions are English.
        direct: whether to ask for a verdict alone, without criteria and assessment.
        folder: prompts to use instead of the shipped ones, in files of the same names.

    Returns:
        One user message. Base models take ``render_plain`` of it.

    Raises:
        CarbError: not two responses, or no prompt in that language.
    """
    if isinstance(pair, str) or len(pair) != 2:
        raise CarbError(
            "render_prompt judges a pair: give exactly two responses, in presented order."
        )
    question = item if isinstance(item, str) else as_text(item.prompt)
    source = folder or prompt_folder()
    if language == "item":
        if isinstance(item, str):
            raise CarbError(
                "language='item' needs an item that names its language; name the language instead."
            )
        has_own = culture == GENERAL or _find("", item.language, source) is not None
        language = "en"
        if has_own:
            language = item.language
    texts = [entry if isinstance(entry, str) else entry.text for entry in pair]
    first, second = map(_quoted, texts)
    name = culture.name if isinstance(culture, Culture) else cultures.name(culture)
    find = _general if culture == GENERAL else _file
    path = find(language, source)
    fields = {"prompt": _quoted(question), "first": first, "second": second, "culture": name}
    template = path.read_text(encoding="utf-8")
    text = fill(template, {**fields, "direct": direct}, f"Prompt '{path}'")
    return [{"role": "user", "content": text.strip()}]


CUE = "\nAnswer:\n"
"""The beginning of a base model's answer."""


def render_plain(messages: Sequence[Message]) -> str:
    """The messages as text for a base model, up to the place where the judgement begins."""
    return "".join(f"{message['content']}\n" for message in messages) + CUE


def example_fields() -> frozenset[str]:
    """Names and reasons of the criteria that the shipped prompts show as an example, in small
    letters.

    A model that copies them names no criterion of its own.
    """
    lines = (
        line
        for path in prompt_folder().glob("*.jinja")
        for line in path.read_text(encoding="utf-8").splitlines()
    )
    criteria = [line for line in lines if line.startswith("- ") and line.count("|") == 3]
    rows = [line[2:].split("|") for line in criteria]
    return frozenset(field.strip().casefold() for row in rows for field in row[:2])


def guard(messages: Sequence[Message], tokenizer: Any) -> list[Message]:
    """The messages with every control token of the tokenizer broken up by a space.

    A response that holds ``<|im_end|>`` could otherwise end the user's turn and speak for the
    judge.
    """
    return [{**message, "content": guarded(tokenizer, message["content"])} for message in messages]


def _quoted(text: str) -> str:
    return "\n".join(QUOTE + line for line in text.splitlines() or [""])


def _general(language: str, folder: Path) -> Path:
    """The prompt for a pair of no culture: of the folder or shipped, in the language or in
    English."""
    candidates = (
        _find(f"{GENERAL}-", tag, source)
        for source in (folder, prompt_folder())
        for tag in dict.fromkeys((language, "en"))
    )
    return next(path for path in candidates if path is not None)


def _file(language: str, folder: Path) -> Path:
    path = _find("", language, folder)
    if path is not None:
        return path
    raise CarbError(
        f"There is no prompt in the language '{language}' in {folder} (there is: "
        f"{', '.join(prompt_languages(folder)) or 'none'}). Use language='en', or put a file "
        f"{language}.jinja into a folder of your own and name that folder as the style."
    )


def _find(start: str, tag: str, folder: Path) -> Path | None:
    while tag:
        path = folder / f"{start}{tag}.jinja"
        if path.is_file():
            return path
        tag = tag.rpartition("-")[0]  # zh-Hans falls back to zh
    return None
