"""Finds the tokens of the answer in an echoed text: those that spell it.

Servers count their offsets in different ways: some count the start token's text, or half a
character as a whole one. So offsets are not read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from carb_scorers.models.marks import control_pattern

HALF = "\ufffd"
"""The decoded form of half a character: one to three bytes of it."""
_BYTES = re.compile(r"bytes:((?:\\x[0-9a-f]{2})+)")
"""How OpenAI writes a token that is half a character."""


class SpellingError(ValueError):
    """The tokens do not spell the text, or do so in several ways."""


def answer_tokens(
    tokens: Sequence[str], prompt: str, answer: str, counted: int | None = None
) -> range:
    """Indices of the tokens that spell an answer behind a prompt.

    A start token may stand before the text, and a token that the server wrote behind it.

    Args:
        tokens: the reply's tokens as text.
        prompt: what stands before the answer.
        answer: what is to be spelled.
        counted: how many tokens the server read, where it reports them.

    Raises:
        SpellingError: no tokens spell the text with a border between prompt and answer, or several
            ways to spell it have another border.
    """
    text, border = (prompt + answer).encode(), len(prompt.encode())
    spans = set()
    for first, spaced in _beginnings(tokens):
        given = [tokens[first].removeprefix(" ") if spaced else tokens[first], *tokens[first + 1 :]]
        before = _positions(given, text, 0)
        for begin in (i for i, places in enumerate(before) if border in places):
            behind = _positions(given[begin:], text, border)
            ends = [begin + i for i, places in enumerate(behind) if len(text) in places]
            spans |= {(first + begin, first + end) for end in ends if end > begin}
    if len(spans) > 1 and counted is not None:
        spans = {span for span in spans if span[1] == counted}
    if len(spans) != 1:
        reason = "in several ways" if spans else "not"
        raise SpellingError(f"the tokens of the server's reply do {reason} spell prompt and answer")
    return range(*next(iter(spans)))


def _beginnings(tokens: Sequence[str]) -> list[tuple[int, bool]]:
    """Where the text may begin: behind start tokens, and with or without a space before it, which
    some tokenizers add."""
    first = 0
    while first < len(tokens) and control_pattern().fullmatch(tokens[first]):
        first += 1
    starts = [0, first] if first else [0]
    return [
        (start, spaced)
        for start in starts
        if start < len(tokens)
        for spaced in ((False, True) if tokens[start].startswith(" ") else (False,))
    ]


def _positions(tokens: Sequence[str], text: bytes, start: int) -> list[set[int]]:
    """The bytes of the text at which each token may begin, and in the end those behind the last."""
    positions = [{start}]
    for token in tokens:
        positions.append(_behind(token, text, positions[-1]))
        if not positions[-1]:
            break
    return positions


def _behind(token: str, text: bytes, places: set[int]) -> set[int]:
    """Where a token may end that begins at one of some places."""
    if exact := _BYTES.fullmatch(token):
        parts = [bytes.fromhex(exact[1].replace("\\x", ""))]
    else:
        parts = [part.encode("utf-8", "replace") for part in token.split(HALF)]
    for number, part in enumerate(parts):
        if number:
            places = {
                end + n
                for end in places
                for n in (1, 2, 3)
                if end + n <= len(text) and min(text[end : end + n]) >= 0x80
            }
        places = {end + len(part) for end in places if text.startswith(part, end)}
    return places
