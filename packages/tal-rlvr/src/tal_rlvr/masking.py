"""Criteria beside the verdict: its letters masked, and a check for content."""

import re
from functools import cache

from tal_rlvr.judge_prompts import example_fields

MASK = "_"
"""The text in place of a letter or a statement of the verdict."""

_LETTER = re.compile(r"(?<![A-Za-z'’])[AB](?![A-Za-z'’])")
_COLUMNS = re.compile(r"^([^|\n]*\|[^|\n]*\|)[^|\n]*\|[^|\n]*")
"""A criterion's line: name and reason, then the columns of weight and response, in whatever
words."""

_FORM_WORDS = """
a an and are as assessment be better best both by chosen correct criteria criterion former good he
i in is it its judge judgement latter meet meets n name neither none of on one option or preferred
pick reason response responses right she so that the there this to verdict want weight whichever
why win winner wins x y answer answers bad first second wrong
candidate na null nil todo tbd something anything etc
"""
_WORD = re.compile(r"[^\W_]+")
_EMPTY_WORDS = frozenset(_WORD.findall(_FORM_WORDS))


def mask_verdict(text: str) -> str:
    """The text without the form's own statements of the verdict: its letters, and the columns of
    weight and response are masked.

    A judge cannot leave these out, and a reader may follow them in the place of the criteria. Other
    names of a response, in whatever words, stay: measured in both orders they cancel.

    Args:
        text: the text z: the criteria and the assessment.
    """
    columns = (_COLUMNS.sub(rf"\1 weight {MASK} | meets {MASK}", line) for line in text.split("\n"))
    return _LETTER.sub(MASK, "\n".join(columns))


def has_content(text: str, *, letters: int = 2) -> bool:
    """Whether a criterion's name or reason still has words when verdicts and form words are masked.

    Args:
        text: a field of a criterion.
        letters: the smallest number of letters in words that are not form words; with 1 or less a
            digit counts as well.
    """
    masked = mask_verdict(text)
    if masked.strip().casefold() in _example_fields():
        return False
    words = [word for word in _WORD.findall(masked) if word.casefold() not in _EMPTY_WORDS]
    counts = str.isalpha
    if letters <= 1:
        counts = str.isalnum
    letter_count = sum(map(counts, "".join(words)))
    return letter_count >= letters


_example_fields = cache(example_fields)

GRAM = 24
"""Bytes of UTF-8 in a run that counts as copied: 24 Latin, 12 Cyrillic or Arabic, 8 Chinese or Thai
letters."""


def copied_share(text: str, response: str) -> float:
    """The share of a response that a text repeats word for word, from 0 to 1.

    Counted are runs of ``GRAM`` bytes of letters and digits, case and punctuation aside. A response
    of fewer than two such runs has a share of 0: a criterion cannot name a short answer's fact
    without its words.

    Args:
        text: the judge's text before its verdict.
        response: one of the two responses.
    """
    written = _letters(response)
    shown = _letters(text)
    if len(written) < 2 * GRAM:
        return 0.0
    grams = _grams(written)
    known = {*_grams(shown)}
    return sum(gram in known for gram in grams) / len(grams)


def _grams(letters: bytes) -> list[bytes]:
    starts = range(len(letters) - GRAM + 1)
    return [letters[start : start + GRAM] for start in starts]


def _letters(text: str) -> bytes:
    return "".join(filter(str.isalnum, text.casefold())).encode("utf-8", "replace")
