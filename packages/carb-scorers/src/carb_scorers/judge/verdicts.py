"""Verdicts in what a model wrote. Only its own output is read; a candidate's text never reaches these functions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

_VERDICT = re.compile(r"\[\[(.*?)\]\]", flags=re.DOTALL)

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


def parse_pick(text: str, labels: Sequence[str]) -> int:
    """Which label stands in double brackets: ``[[B]]`` is 1.

    Args:
        text: what the model wrote.
        labels: the letters that were shown.

    Raises:
        VerdictError: there is not exactly one distinct verdict, or it is not one of the labels.
    """
    verdict = _only(text, _label)
    try:
        return [label.upper() for label in labels].index(verdict)
    except ValueError:
        raise VerdictError(f"the verdict [[{verdict}]] is none of {', '.join(labels)}") from None


def parse_ranking(text: str, labels: Sequence[str]) -> list[int]:
    """The order, best first, of labels in double brackets: ``[[B > A > C]]`` is ``[1, 0, 2]``.

    Raises:
        VerdictError: there is not exactly one distinct verdict, or it does not name every label once.
    """
    verdict = _only(text, lambda verdict: " > ".join(map(_label, re.split(r"[>,、，]", verdict))))
    named = verdict.split(" > ")
    places = {label.upper(): place for place, label in enumerate(labels)}
    if sorted(named) != sorted(places):
        raise VerdictError(f"the verdict [[{verdict}]] does not name each of {', '.join(labels)} once")
    return [places[label] for label in named]


def parse_rating(text: str, lowest: int, highest: int) -> float:
    """The number in double brackets: ``[[7]]`` or ``[[7.5]]``.

    Raises:
        VerdictError: there is not exactly one distinct verdict, or it is no number on the scale.
    """
    verdict = _only(text, lambda verdict: verdict.removesuffix("."))
    match = re.fullmatch(rf"(\d+(?:[.,]\d+)?)(?:\s*/\s*{highest})?", verdict)
    value = float(match[1].replace(",", ".")) if match else float("nan")
    if not lowest <= value <= highest:
        raise VerdictError(f"the verdict [[{verdict}]] is no number from {lowest} to {highest}")
    return value


def _label(verdict: str) -> str:
    """A label without what models put around it: ``(A)``, ``A.``, ``Option A``."""
    return _AROUND.sub("", _WORD.sub("", verdict.strip())).upper()


def _only(text: str, spelled: Callable[[str], str]) -> str:
    """The one verdict of a text, however it is spelled. NFKC makes full-width brackets and letters plain ones."""
    found = _VERDICT.findall(unicodedata.normalize("NFKC", without_thinking(text)))
    distinct = sorted({spelled(str(verdict).strip().strip("*").strip()) for verdict in found})
    if not distinct:
        raise VerdictError("no verdict in double brackets")
    if len(distinct) > 1:
        raise VerdictError(f"several verdicts: {', '.join(f'[[{verdict}]]' for verdict in distinct)}")
    return distinct[0]
