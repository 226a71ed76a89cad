"""Reads a cell or a JSON value: a text, several texts, or a conversation."""

import ast
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from carb_data.packaged import resource

Turn = tuple[str, str]
"""Role and content."""
Answer = tuple[str, tuple[Turn, ...]]
"""The text of an answer, and the turns before it; none where the value was no conversation."""
Defect = tuple[str, str]
"""A field, and why it has no reading."""

_ROLES: dict[str, str] = resource("headings")["roles"]
_SPEAKERS = r"\s*(Human|User|Assistant|System):[ \t]*"
_TRANSCRIPT = re.compile(rf"(?:\A|\n\n){_SPEAKERS}")
_CLOSE_TRANSCRIPT = re.compile(rf"(?:\A|\n){_SPEAKERS}")
"""A transcript without blank lines."""
_TURN = "\nAssistant:"
"""The mark in every transcript."""
_BEGIN = """[ { <ol <ul (' (" "[ "{ array( c(" list(" Any[\""""
STRUCTURES = tuple(_BEGIN.split())
"""How lists and objects begin, as JSON, JSON within JSON, HTML, Python, numpy, R and Julia write
them."""
_NUMPY_LIST = re.compile(
    r"""\A<[ou]l\b|\A\{(?:(?:"[^"]*"|[^\W\d_][^\s{}",:]{2,})(?:,(?=.)|\}\Z)){2,}\Z"""
    r"""|\Aarray\(|\A(?:c|list|Any)[(\[]"|\A\[\s*(['"]).*?\1\s+['"]|\A\[\s*\{.*\}\s+\{""",
    re.DOTALL,
)
"""A list as HTML, PostgreSQL, R and Julia write it, or numpy, without commas: Python would join its
texts to one."""
_ERRORS = re.compile(
    r"#(?:[^\sa-z]{1,9}[!?]|N/A|N/D|NV|Н/Д)|<NA>|NaN|nan|N/?A|n/a|[nN]\. ?[aA]\.|NULL|null|\\N"
    r"|Loading\.\.\.|[-–—]{1,3}"
)
"""Marks of a missing value in spreadsheets of any language, pandas, R and databases."""
_COMMA = re.compile(r"(?<=\A0),|,(?=\d{1,2}\Z)|,(?=\d{4,}\Z)")
"""A comma before decimals; one before three digits may part thousands."""
_TRUTH = {"true": "1", "false": "0", "nan": "none"}
"""Words for numbers; NaN is none, and would be the best of all scores."""
_LONGEST_ERROR = len("#ÜBERLAUF1!")
_BEGINNINGS = "#<nNL\\-–—"
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]"
    "|(?<![\u0600-\u109f\u1780-\u18af\u2190-\u2bff\ufe0f\U0001f000-\U0001faff])[\u200c\u200d]"
)
"""Characters without width; joiners stand after letters of some scripts, and in emoji."""


class UnreadError(Exception):
    """The defects of a row that is no set: field and reason of each."""

    def __init__(self, *defects: Defect) -> None:
        super().__init__(defects)
        self.defects = tuple(dict.fromkeys(defects))


@dataclass(frozen=True)
class Unreadable:
    """A cell whose shown text is not known: why, with the cell's name, and its column."""

    reason: str
    column: str = ""


def at(record: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path; ``*`` takes every entry of a list, ``a|b`` the first that is
    there."""
    value = record.get(path)
    if value not in (None, "", []):
        return value
    for one in path.split("|"):
        value = record.get(one)
        if value is None and "." in one:
            value = _walked(record, one.split("."))
        if value not in (None, "", []):
            return value
    return None


def _walked(value: Any, steps: Sequence[str]) -> Any:
    for number, step in enumerate(steps):
        value = unpacked(value)
        if step == "*":
            if not isinstance(value, list):
                return []
            rest = steps[number + 1 :]
            values = [_walked(entry, rest) for entry in value if not _is_withdrawn(entry, rest)]
            return [entry for entry in values if entry is not None]
        if isinstance(value, list) and step.isdecimal():
            index = int(step)
            if index >= len(value):
                return None
            value = value[index]
        elif isinstance(value, Mapping):
            value = value.get(step)
        else:
            return None
    return value


def _is_withdrawn(entry: Any, steps: Sequence[str]) -> bool:
    """Whether a person did not send an answer (Argilla), or skipped the task (Label Studio): both
    call it a value. An option may have a state, too, and stays."""
    if "value" not in steps or not isinstance(entry, Mapping):
        return False
    return entry.get("status") in ("draft", "discarded") or entry.get("was_cancelled") is True


def unpacked(value: Any) -> Any:
    """The list or object that a text holds as JSON or as Python writes it; any other value as it
    is."""
    if not isinstance(value, str) or not value.startswith(STRUCTURES):
        return value
    for read in (from_json, ast.literal_eval):
        try:
            inner = read(value)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        if isinstance(inner, str):
            inner = unpacked(inner)
        if isinstance(inner, tuple | set):
            inner = ast.literal_eval(f"[{value.strip()[1:-1]}]")  # in the order of the text
        if read is from_json or not _NUMPY_LIST.match(value):
            if _is_structure(inner):
                return inner
            return value
    return value


def _is_structure(value: Any) -> bool:
    """Whether it is a list of texts or turns, or an object; a list of numbers may be an answer."""
    if isinstance(value, list) and not all(isinstance(one, str | Mapping | list) for one in value):
        return False
    return isinstance(value, list | Mapping) and bool(value)


def turns(value: Any) -> list[Turn] | None:
    """The turns of a conversation (messages, ShareGPT's, or a transcript); null for other
    values."""
    if isinstance(value, Mapping):
        value = value.get("messages", [value])
    if isinstance(value, str):
        return _transcribed(value)
    if not isinstance(value, list) or not value:
        return None
    conversation = []
    for turn in value:
        if not isinstance(turn, Mapping):
            return None
        speaker = str(turn.get("role", turn.get("from")))
        role = _ROLES.get(speaker.casefold())
        content = _written(turn.get("content", turn.get("value")))
        if role is None or not isinstance(content, str):
            return None
        conversation.append((role, content.strip()))
    return conversation


def _written(content: Any) -> Any:
    """The text of parts that are texts; any other content as it is."""
    if not isinstance(content, list) or not content:
        return content
    texts = []
    for part in content:
        if not isinstance(part, Mapping) or part.get("type") != "text":
            return content
        texts.append(str(part.get("text")))
    return "\n".join(texts)


def _transcribed(value: str) -> list[Turn] | None:
    if "\nAssistant:" not in value or not re.match(r"\s*(Human|User|System):", value):
        return None
    pattern = _CLOSE_TRANSCRIPT
    if "\n\nAssistant:" in value:
        pattern = _TRANSCRIPT
    _, *parts = pattern.split(value)
    speakers = parts[::2]
    contents = [content.strip() for content in parts[1::2]]
    if not contents[-1]:  # the turn that an answer continues
        del speakers[-1], contents[-1]
    roles = [_ROLES[speaker.casefold()] for speaker in speakers]
    return [*zip(roles, contents, strict=True)]


def answers(value: Any, field: str) -> list[Answer]:
    """The answers that a value holds, each with the turns before it.

    Raises:
        UnreadError: it is no text, number or conversation.
    """
    value_read = unpacked(value)
    is_text = isinstance(value, str)
    if is_text and value_read is value and _NUMPY_LIST.match(value):
        reason = "holds a list as HTML, a database or numpy writes it; save the table as JSON Lines"
        raise UnreadError((field, reason))
    conversation = turns(value_read)
    if conversation is not None:
        *before, (role, content) = conversation
        if role != "assistant":
            raise UnreadError((field, "is a conversation that does not end with an answer"))
        return [(content, tuple(before))]
    if not is_text or isinstance(value_read, list):
        value = value_read  # an object that is written as a text may be an answer in JSON
    gathered: list[Answer] = []
    if isinstance(value, list):
        for entry in value:
            if isinstance(entry, list) and turns(entry) is None:
                raise UnreadError((field, _NO_TEXT))
            gathered += answers(entry, field)
    elif whole := text(value, field):
        gathered.append((whole, ()))
    return gathered


def as_shown(answer: str) -> str:
    """An answer as readers see it: other code points, more spaces and characters without width
    make no other answer."""
    if not answer.isascii():
        answer = _UNSEEN.sub("", unicodedata.normalize("NFC", answer))
    return " ".join(answer.split())


def plain_text(value: Any) -> str | None:
    """A plain text: no list, object, transcript or mark of a missing value. Null for values that
    ``answers`` and ``text`` must read."""
    if type(value) is not str or value.startswith(STRUCTURES) or _TURN in value:
        return None
    if "\0" in value:
        return None
    whole = value.strip()
    if len(whole) <= _LONGEST_ERROR and whole[:1] in _BEGINNINGS:
        return None
    return whole


def amount(value: Any) -> float:
    """A number as tables write it, with a decimal comma, too, or a truth as 1 or 0.

    Raises:
        ValueError: it is none, or ``1,000``, which may be two numbers.
    """
    word = str(value).casefold()
    return float(_TRUTH.get(word) or _COMMA.sub(".", word))


_NO_TEXT = (
    "must be a text, a finite number or messages: texts of the system, the user and the assistant"
)


def text_at(record: Mapping[str, Any], path: str, field: str) -> str:
    """The text at a path, as ``text`` reads it; empty where there is no path."""
    if not path:
        return ""
    return text(at(record, path), field)


def text(value: Any, field: str) -> str:
    """A text or number as text; empty for a missing value.

    Raises:
        UnreadError: it is something else, or stands for a missing value.
    """
    if value is None:
        return ""
    if isinstance(value, Unreadable):
        raise UnreadError((value.column, value.reason))
    is_number = type(value) in (int, float) and abs(value) < math.inf
    if not isinstance(value, str) and not is_number:
        raise UnreadError((field, _NO_TEXT))
    whole = str(value).strip()
    if "\0" in whole:
        raise UnreadError((field, "holds a NUL byte; the file is damaged, so save it again"))
    if len(whole) <= _LONGEST_ERROR and _ERRORS.fullmatch(whole):
        reason = f"holds '{whole}', which stands for a missing value; write the text, or empty it"
        raise UnreadError((field, reason))
    return whole
