"""Verdicts in what a model wrote. Only its own output is read; a candidate's text never reaches these functions.

Where a verdict stands is a form's business (``Wording.verdict``); by default it stands in double brackets.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache

from carb_scorers.judge.form_files import IN_BRACKETS, Wording

_WORD = re.compile(r"(?:option|answer|response|candidate|choice|assistant)\s+(?=\S)", flags=re.IGNORECASE)
_AROUND = re.compile(r"^[\s(\"'*`]+|[\s).:;\"'*`]+$")


class VerdictError(ValueError):
    """The text holds no verdict, or more than one."""


def without_thinking(text: str) -> str:
    """The text without what reasoning models write in ``<think>`` blocks.

    A block whose beginning belongs to the prompt (only ``</think>`` is in the text) counts too, and one that never
    ends swallows the rest.
    """
    text = text.rpartition("</think>")[2]
    return text.partition("<think>")[0]


def parse_pick(text: str, labels: Sequence[str], wording: Wording = IN_BRACKETS) -> int:
    """Which label the verdict names: with ``[[B]]`` it is 1.

    Args:
        text: The text that the model wrote.
        labels: the letters that were shown.
        wording: the form's wording, which says how a verdict is found.

    Raises:
        VerdictError: there is no verdict, or there are different ones where only one may be, or it is not one of the
            labels.
    """
    verdict = _verdict(text, _label, wording)
    try:
        return [label.upper() for label in labels].index(verdict)
    except ValueError:
        raise VerdictError(f"the verdict '{verdict}' is none of {', '.join(labels)}") from None


def parse_rating(text: str, wording: Wording = IN_BRACKETS) -> float:
    """The rating that the verdict holds: a number on the wording's scale (``[[7]]``, ``[[7.5]]``), or one of its
    words.

    Raises:
        VerdictError: as for ``parse_pick``, or it is no rating.
    """
    lowest, highest = wording.scale
    if wording.values:
        word = _verdict(text, lambda verdict: _AROUND.sub("", verdict).lower(), wording)
        if word not in wording.values:
            raise VerdictError(f"the verdict '{word}' is none of {', '.join(wording.values)}")
        return wording.values[word]
    verdict = _verdict(text, lambda verdict: verdict.removesuffix("."), wording)
    match = re.fullmatch(rf"(\d+(?:[.,]\d+)?)(?:\s*/\s*{highest})?", verdict)
    value = float(match[1].replace(",", ".")) if match else float("nan")
    if not lowest <= value <= highest:
        raise VerdictError(f"the verdict '{verdict}' is no number from {lowest} to {highest}")
    return value


def _label(verdict: str) -> str:
    """A label without what models put around it: ``(A)``, ``A.``, ``Option A``."""
    return _AROUND.sub("", _WORD.sub("", verdict.strip())).upper()


def _verdict(text: str, spelled: Callable[[str], str], wording: Wording) -> str:
    """A text's verdict, however it is spelled. NFKC makes full-width brackets and letters plain ones."""
    found = _compiled(wording.verdict).findall(unicodedata.normalize("NFKC", without_thinking(text)))
    verdicts = [spelled(str(verdict).strip().strip("*").strip()) for verdict in found]
    if not verdicts:
        where = "in double brackets" if wording.verdict == IN_BRACKETS.verdict else f"that matches {wording.verdict}"
        raise VerdictError(f"no verdict {where}")
    distinct = sorted(set(verdicts))
    if wording.take == "only" and len(distinct) > 1:
        raise VerdictError(f"several verdicts: {', '.join(map(repr, distinct))}")
    return verdicts[-1]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, flags=re.DOTALL)
