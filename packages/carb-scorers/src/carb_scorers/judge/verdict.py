"""Verdicts in what a model wrote. Only its own output is read; a candidate's text never reaches
these functions.

Where a verdict stands is a form's business (``Wording.verdict``); by default it stands in double
brackets.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

from carb_scorers.judge.form import IN_BRACKETS, Wording

_WORD = re.compile(
    r"(?:option|answer|response|candidate|choice|assistant)\s+(?=\S)", flags=re.IGNORECASE
)
_AROUND = re.compile(r"^[\s(\"'*`]+|[\s).:;\"'*`]+$")
_LATIN = str.maketrans("АВСЕНКМОРТХاأإآبجد", "ABCEHKMOPTXAAAABCD")
"""Cyrillic letters that look like the Latin ones shown, and the Arabic letters that number
answers."""
_THOUGHTS = (("<think>", "</think>"), ("<thinking>", "</thinking>"), ("[THINK]", "[/THINK]"))
_CHANNEL, _FINAL = "<|channel|>", "<|channel|>final<|message|>"


class VerdictError(ValueError):
    """The text holds no verdict, or more than one."""


def without_thinking(text: str) -> str:
    """The text without what reasoning models write before they answer.

    That is a block in ``<think>``, ``<thinking>`` or ``[THINK]``, or what stands outside the
    channel ``final``. A block whose beginning belongs to the prompt (only its end is in the text)
    counts too, and one that never ends includes the rest.
    """
    for begin, end in _THOUGHTS:
        text = text.rpartition(end)[2].partition(begin)[0]
    return (
        text.rpartition(_FINAL)[2].partition(_CHANNEL)[0]
        if _FINAL in text
        else text.partition(_CHANNEL)[0]
    )


def parse_pick(
    text: str, labels: Sequence[str], wording: Wording = IN_BRACKETS, *, finished: bool = True
) -> int:
    """Which label the verdict names: with ``[[B]]`` it is 1.

    Args:
        text: The text that the model wrote.
        labels: the letters that were shown.
        wording: the form's wording, which says how a verdict is found.
        finished: whether the text came to its own end. One that was cut off holds a verdict only at
            its very end.

    Raises:
        VerdictError: there is no verdict, or there are different ones where only one may be, or it
            is not one of the labels.
    """
    verdict = _verdict(text, _label, wording, finished)
    try:
        return [label.upper() for label in labels].index(verdict)
    except ValueError:
        raise VerdictError(f"the verdict '{verdict}' is none of {', '.join(labels)}") from None


def parse_rating(text: str, wording: Wording = IN_BRACKETS, *, finished: bool = True) -> float:
    """The rating that the verdict holds: a number on the wording's scale (``[[7]]``, ``[[7.5]]``),
    or one of its words.

    Raises:
        VerdictError: as for ``parse_pick``, or it is no rating.
    """
    lowest, highest = wording.scale
    if wording.values:
        word = _verdict(text, lambda verdict: _AROUND.sub("", verdict).lower(), wording, finished)
        if word not in wording.values:
            raise VerdictError(f"the verdict '{word}' is none of {', '.join(wording.values)}")
        return wording.values[word]
    verdict = _verdict(text, lambda verdict: verdict.removesuffix("."), wording, finished)
    match = re.fullmatch(rf"(\d+(?:[.,]\d+)?)(?:\s*/\s*{highest})?", verdict)
    value = float(match[1].replace(",", ".")) if match else float("nan")
    if not lowest <= value <= highest:
        raise VerdictError(f"the verdict '{verdict}' is no number from {lowest} to {highest}")
    return value


def _label(verdict: str) -> str:
    """A label without what models put around it: ``(A)``, ``A.``, ``Option A``."""
    return _AROUND.sub("", _WORD.sub("", verdict.strip())).upper().translate(_LATIN)


def _verdict(text: str, spelled: Callable[[str], str], wording: Wording, finished: bool) -> str:
    """A text's verdict, however it is spelled. NFKC makes full-width brackets and letters plain
    ones."""
    said = unicodedata.normalize("NFKC", without_thinking(text))
    found = list(re.finditer(wording.verdict, said, flags=re.DOTALL))
    if not finished and found and _AROUND.sub("", said[found[-1].end() :]).strip(" <>/[]{}\"'"):
        raise VerdictError("no verdict at the end")
    verdicts = [spelled(match[1].strip().strip("*").strip()) for match in found]
    if not verdicts:
        where = (
            "in double brackets"
            if wording.verdict == IN_BRACKETS.verdict
            else f"that matches {wording.verdict}"
        )
        raise VerdictError(f"no verdict {where}")
    distinct = sorted(set(verdicts))
    if wording.take == "only" and len(distinct) > 1:
        raise VerdictError(f"several verdicts: {', '.join(map(repr, distinct))}")
    return verdicts[-1]
