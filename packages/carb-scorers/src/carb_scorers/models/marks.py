"""The marks that models write around their answers: thoughts, and tokens that mark turns and ends.

The marks themselves are data, in ``resources/marks.toml``.
"""

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from carb_data import Frozen, read_file

__all__ = ["without_thinking", "written_text"]


class Marks(Frozen):
    """The content of ``marks.toml``."""

    thoughts: tuple[tuple[str, str], ...]
    """Beginning and end of a thought."""
    thought_words: str
    """The words for a thought, as a pattern."""
    thought_tags: tuple[str, str]
    """Patterns of other beginnings and ends, with ``WORDS`` for what a thought is called."""
    channel: str
    final: str
    """The mark that begins a channel, and the pattern of what stands before the answer."""
    bare_channel: str
    """A pattern of a channel without its tokens."""
    channel_tokens: tuple[str, ...]
    before_channel: str
    mentions: tuple[str, ...]
    denials: tuple[str, ...]
    """Patterns of where a judge's text mentions a verdict, and of what takes one back."""
    ties: tuple[str, ...]
    """Patterns of a tie that is stated right before a verdict for one answer."""
    shapes: tuple[str, ...]
    """Patterns of control tokens."""
    families: dict[str, tuple[str, ...]]
    """Family of models to control tokens of it."""


@cache
def marks() -> Marks:
    """All marks."""
    return read_file(Marks, resources.files("carb_scorers") / "resources" / "marks.toml", "marks")


@cache
def control_pattern() -> re.Pattern[str]:
    """One control token of any family."""
    known = marks()
    tokens = set[str]().union(*known.families.values())
    longest_first = sorted(tokens, key=lambda token: (-len(token), token))
    return re.compile("|".join([*known.shapes, *map(re.escape, longest_first)]))


def guarded_unseen(text: str) -> str:
    """The text with known control tokens broken up, where a server keeps the tokenizer to
    itself."""
    return control_pattern().sub(broken_up, text)


def bare_answer(text: str) -> str:
    """An answer without the control tokens behind it, which decoders leave, and without the line
    breaks around it, which trainers and servers add or leave out. A space stays: the model's own
    forward pass reads it, too.

    Tokens are looked for in 2,048 characters at the end, and none is so long: a search from the
    front takes seconds.
    """
    end = len(text)
    if text.rstrip()[-1:] in {*"<>[]|"}:  # as every token ends, and few texts
        last = re.compile(rf"(?:\s*(?:{control_pattern().pattern}))+\s*\Z")
        while match := last.search(text, end - 2048, end):
            end = match.start()
    return text[:end].strip("\r\n")


def has_tokens(text: str) -> bool:
    """Whether a text has known control tokens, as chat templates and tokenizers write them."""
    return control_pattern().search(text) is not None


def broken_up(match: re.Match[str]) -> str:
    """A control token with a space in it, so that no tokenizer takes it for one."""
    return f"{match[0][0]} {match[0][1:]}"


def without_thinking(text: str) -> str:
    """The text without what reasoning models write before they answer.

    That is a thought between its marks, or text outside the channel of the answer. A thought whose
    beginning belongs to the prompt (only its end is in the text) counts too, and one that never
    ends includes the rest.
    """
    begin, end = thought_marks()
    text = end.split(text)[-1]
    return _outside_channels(begin.split(text)[0])


def _outside_channels(text: str) -> str:
    known = marks()
    text = re.split(known.final, text)[-1]
    if re.match(known.bare_channel, text):
        return ""
    return text.partition(known.channel)[0]


def answer_in(text: str) -> str | None:
    """The answer in a policy's text as ``bare_answer`` leaves it, without the thought before it.

    A thought whose beginning belongs to the prompt is cut off, too. Null where there is nothing
    else, where a thought never ends, or where one stands behind other text.
    """
    begin, end = thought_marks()
    known = dict(marks().thoughts)
    start = 0
    for closing in end.finditer(text):
        before = text[start : closing.start()]
        opened = begin.match(before.lstrip())
        stem = closing[0][:-1].replace("/", "")  # as <details is of </details>
        alone = closing[0] in known.values() and not before.endswith("`")
        if not opened and (not alone or stem in before or begin.search(before)):
            break
        start = closing.end()
    rest = text[start:]
    if begin.match(rest.lstrip()) or known.keys() & begin.findall(rest):
        return None
    answer = bare_answer(_outside_channels(rest))
    if answer.strip() or not bare_answer(text).strip():
        return answer
    return None


@cache
def thought_marks() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The marks that begin and end a thought."""
    known = marks()
    patterns = []
    for side, tag in enumerate(known.thought_tags):
        forms = [re.escape(pair[side]) for pair in known.thoughts]
        forms.append(tag.replace("WORDS", known.thought_words))
        patterns.append(re.compile("|".join(forms), re.IGNORECASE))
    begin, end = patterns
    return begin, end


def unthought(text: str) -> str:
    """A text without spaces and without the marks of thoughts, which templates add and take off."""
    for pattern in thought_marks():
        text = pattern.sub("", text)
    return "".join(text.split())


def opened_thought(prompt: str, template: str) -> str | None:
    """The end of a prompt after which the model thinks before it answers; else ``None``. A template
    that knows channels leaves the choice of one to the model."""
    known = marks()
    end = prompt.rstrip()
    for opening in thought_marks()[0].finditer(end):
        if opening.end() == len(end):
            return opening[0]
    if known.channel in template and end.endswith(known.before_channel):
        return known.before_channel
    return None


def written_text(tokenizer: Any, ids: Sequence[int]) -> str:
    """A model's text without special tokens but with the marks of its thoughts, some of which are
    special tokens. A thought without marks would pass for the answer."""
    ids_of_special = tokenizer.all_special_ids
    special = {token: str(tokenizer.convert_ids_to_tokens(token)) for token in ids_of_special}
    added = getattr(tokenizer, "added_tokens_decoder", {})
    for token, one in added.items():
        if one.special:
            special[token] = str(one.content)
    parts: list[str] = []
    start = 0
    for index, token in enumerate(ids):
        mark = special.get(token, "")
        of_thought = any(pattern.fullmatch(mark) for pattern in thought_marks())
        if of_thought or mark in marks().channel_tokens:
            before = tokenizer.decode(ids[start:index], skip_special_tokens=True)
            parts += [before, mark]
            start = index + 1
    parts.append(tokenizer.decode(ids[start:], skip_special_tokens=True))
    return "".join(parts)


def until(text: str, stops: Sequence[str]) -> str:
    """A text up to the first of some strings."""
    beginnings = [text.partition(stop)[0] for stop in stops]
    return min(beginnings, key=len, default=text)
