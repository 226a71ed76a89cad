"""The verdict of an output, read leniently where it is sure to be the judge's own."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Literal

Verdict = Literal["A", "B"]
"""Which of the two responses, in presented order."""

MARK = re.compile(r"verdict[ \t*_]{0,4}[:：]", flags=re.IGNORECASE)
"""The verdict's marker as models write it: in any case, bold, with an ASCII or a full-width
colon."""

_STATED = re.compile(
    r"(?i:verdict)[\W_]{0,8}(?:(?i:is)[\W_]{1,8})?"
    r"(?:(?i:response|answer|option)[\W_]{1,4})?[AB](?!\w)"
)
_LINE = re.compile(
    r"[ \t*_#`-]*(?:(?i:final|my)[ \t]+)?(?i:verdict)[ \t*_`]*:[ \t*_`(\[]*"
    r"(?:(?i:response|answer|option)[ \t]+)?([AB])[ \t*_`)\].!。]*"
)
_STYLED = (
    (0x1D2C, 0x1D6A),
    (0x2102, 0x2134),
    (0x2160, 0x217F),
    (0x2460, 0x24FF),
    (0xFF00, 0xFF60),
    (0x1D400, 0x1D7FF),
    (0x1F110, 0x1F149),
)
"""Raised, script, Roman, circled, wide, mathematical and boxed letters and signs."""
_BOXED = ((0x1F150, 0x1F16A), (0x1F170, 0x1F18A), (0x1F1E6, 0x1F200))
"""White on black, and the letters of flags, which have no compatibility form."""
_HEADERS = {"assessment", "answer", "final answer", "conclusion"}
"""Lines that may end with a colon before the verdict; any other such line introduces a
quotation."""


def read_verdict(text: str) -> Verdict | None:
    """The verdict that a text ends with, however it is decorated; null where it is in any doubt.

    Read are ``Verdict: A.``, bold, brackets, a preamble, a code fence, CRLF, full-width colons and
    letters, invisible characters. In doubt is a verdict that

    * is quoted (a line that begins with ``>``, quotation marks, a line ``... says:`` before it),
    * stands alone in a code fence after other text, as a quoted template does,
    * is not the last line, or is stated more than once.

    A response that holds a verdict of its own can still be copied without any mark of quotation;
    where one does, do not read leniently (see ``parse_judgement``).
    """
    lines = [plain(line).strip() for line in text.splitlines()]
    fenced = False
    own: list[tuple[str, bool]] = []
    outside_before = 0  # lines before the last fence
    for line in lines:
        if line.startswith("```"):
            fenced = not fenced
            if fenced:
                outside_before = len(own)
        elif line and not line.startswith(">"):
            own.append((line, fenced))
    if not own or sum(len(_STATED.findall(line)) for line, _ in own) != 1:
        return None
    last, in_fence = own[-1]
    match = _LINE.fullmatch(last)
    if match is None or (in_fence and outside_before == len(own) - 1 and outside_before > 0):
        return None
    before = own[-2][0] if len(own) > 1 else ""
    if before.endswith(":") and before.strip("*_#`: \t").lower() not in _HEADERS:
        return None
    return "A" if match[1] == "A" else "B"


def plain(text: str) -> str:
    """The text with ASCII letters and signs for their wide, circled and mathematical forms, less
    what is invisible.

    Not the compatibility form of the whole text, which would take apart letters of Thai and Arabic.
    """
    return "".join(map(_plain, text))


@lru_cache(maxsize=65_536)
def _plain(c: str) -> str:
    code = ord(c)
    if any(first <= code <= last for first, last in _STYLED):
        return unicodedata.normalize("NFKC", c)
    for start, end in _BOXED:
        if start <= code < end:
            return chr(ord("A") + code - start)
    invisible = ("Cc", "Cf", "Co", "Cn", "Cs", "Me")
    unseen = (
        unicodedata.category(c) in invisible or 0xFE00 <= code <= 0xFE0F
    )  # also what makes a sign an emoji
    return "" if unseen and c not in "\t\n" else c
