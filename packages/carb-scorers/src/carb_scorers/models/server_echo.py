"""Finds the tokens of the answer in an echoed text: those that spell it.

Servers count their offsets in different ways: some count the start token's text, or half a
character as a whole one. So offsets are not read.
"""

import re
from collections.abc import Iterator, Sequence

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
        prompt: the text before the answer.
        answer: the text that the tokens must spell.
        counted: how many tokens the server read, where it reports them.

    Raises:
        SpellingError: no tokens spell the text with a border between prompt and answer, or several
            ways to spell it have another border.
    """
    text = (prompt + answer).encode()
    border = len(prompt.encode())
    spans = set()
    for first, spaced in _beginnings(tokens):
        given = list(tokens[first:])
        if spaced:
            given[0] = given[0].removeprefix(" ")
        for begin, starts in enumerate(_positions(given, text, 0)):
            if border not in starts:
                continue
            behind = _positions(given[begin:], text, border)
            for count, ends in enumerate(behind):
                if count and len(text) in ends:
                    start = first + begin
                    spans.add((start, start + count))
    if len(spans) > 1 and counted is not None:
        spans = {span for span in spans if span[1] == counted}
    if len(spans) != 1:
        reason = "not"
        if spans:
            reason = "in several ways"
        raise SpellingError(f"the tokens of the server's reply do {reason} spell prompt and answer")
    return range(*next(iter(spans)))


def _beginnings(tokens: Sequence[str]) -> list[tuple[int, bool]]:
    """Where the text may begin: behind start tokens, and with or without a space before it, which
    some tokenizers add."""
    first = 0
    while first < len(tokens) and control_pattern().fullmatch(tokens[first]):
        first += 1
    beginnings = []
    for start in sorted({0, first}):
        if start < len(tokens):
            beginnings.append((start, False))
            if tokens[start].startswith(" "):
                beginnings.append((start, True))
    return beginnings


def _positions(tokens: Sequence[str], text: bytes, start: int) -> list[set[int]]:
    """The bytes of the text at which each token may begin, and in the end those behind the last."""
    positions = [{start}]
    for token in tokens:
        positions.append(_behind(token, text, positions[-1]))
        if not positions[-1]:
            break
    return positions


def _behind(token: str, text: bytes, starts: set[int]) -> set[int]:
    """Where a token may end that begins at one of some bytes."""
    if exact := _BYTES.fullmatch(token):
        parts = [bytes.fromhex(exact[1].replace("\\x", ""))]
    else:
        parts = [part.encode("utf-8", "replace") for part in token.split(HALF)]
    for number, part in enumerate(parts):
        if number:
            starts = {end for start in starts for end in _half(text, start)}
        starts = {start + len(part) for start in starts if text.startswith(part, start)}
    return starts


def _half(text: bytes, start: int) -> Iterator[int]:
    """Where one to three bytes of a character may end."""
    for end in range(start + 1, min(start + 3, len(text)) + 1):
        if min(text[start:end]) >= 0x80:
            yield end
