"""Verdicts in a model's text. Only its own output is read; a candidate's text never reaches these
functions.

Where a verdict stands is a form's business (``Wording.verdict``); by default it stands in double
brackets.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, partial

from carb_scorers.judge.form import IN_BRACKETS, Wording
from carb_scorers.judge.order_and_prompt import read_words, word_languages
from carb_scorers.models.marks import marks, without_thinking

_AROUND = re.compile(
    r"""^[\s(\[【"'*`$「『“‘«‹]+|[\s)\]】.。:;"'*`$」』”’»›,、!번项項番]+$""",
)
_BOX = re.compile(r"\\boxed\{(?:\\\w+\{)?([^{}]*)\}")
"""A label in a box of LaTeX."""
_LAST_WORD = re.compile(r"(?:【|\\boxed\{(?:\\\w+\{)?)([^【】{}]*)(?:】|\}{1,2})[\s.。*$\])]*\Z")
"""The same, or one in the brackets of Chinese and Japanese, at the end of the text."""
_OF = r"\s*(?:[/⁄]|out of|of|von|de|из|\(?on an? (?:scale (?:of|from) )?\d+ ?(?:-|–|to))\s*"
_SCALE_BEHIND = re.compile(
    rf"\]\](?:\s*(?:points?|Punkte?n?|puntos?|балл\w*|点|分|점))?({_OF}\d+)(?: scale)?"
)
"""The end of a scale behind the brackets."""
_NUMBERING = str.maketrans(
    "Аاأإآبجدกขคง가나다라ᄀᄂᄃᄅ甲乙丙丁アイウエ🅰🅱", "AAAAABCDABCDABCDABCDABCDABCDAB"
)
"""Letters of other scripts that number answers as A to D do; the first is Cyrillic. Other Cyrillic
letters that look like Latin ones have another place in their alphabet, and are no labels."""


class VerdictError(ValueError):
    """The text holds no verdict, or more than one."""


def parse_pick(
    text: str, labels: Sequence[str], wording: Wording = IN_BRACKETS, *, finished: bool = True
) -> int | None:
    """The index of the label in the verdict: with ``[[B]]`` it is 1; ``None`` for a tie.

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
    before = _words_before_letter(wording.before_letter)
    verdict = _verdict(text, partial(_label, before=before), wording, finished)
    known = list(labels)
    if verdict in known:
        if tie := _any_of(marks().ties).search(_with_plain_brackets(text)):
            raise VerdictError(f"right before its verdict '{verdict}' the text says '{tie[0]}'")
        return known.index(verdict)
    if wording.tie:
        ties = [plain(tie) for tie in (*wording.tie, *_words("tie"))]
        if verdict in {_label(tie, before=before) for tie in ties}:
            return None
    shown = f"'{verdict}'"
    if len(verdict) == 1 and not verdict.isascii():
        shown += f" ({unicodedata.name(verdict, 'a letter without a name')})"
    hint = ""
    if len(labels) == 2:
        hint = "; a form sets the mark of a tie with tie ="
    raise VerdictError(f"the verdict {shown} is none of {', '.join(labels)}{hint}")


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
    match = re.fullmatch(rf"(\d+(?:\.\d+|,\d)?)(?:{_OF}{highest})?", verdict)
    value = math.nan
    if match:
        value = float(match[1].replace(",", "."))
    if not lowest <= value <= highest:
        raise VerdictError(f"the verdict '{verdict}' is no number from {lowest} to {highest}")
    return value


@cache
def _words_before_letter(more: tuple[str, ...]) -> re.Pattern[str]:
    """Matches the word before a letter, in any of the ten languages or in the form's own."""
    words = map(plain, [*_words("before_letter"), *more])
    longest_first = sorted(words, key=len, reverse=True)
    any_word = "|".join(map(re.escape, longest_first))
    return re.compile(rf"(?:{any_word})[\s:_-]*(?=\S)", re.IGNORECASE)


@cache
def _words(kind: str) -> list[str]:
    """The words of the ten languages for a tie, or before a letter."""
    return [word for tag in word_languages() for word in read_words(tag)[kind]]


def _label(verdict: str, *, before: re.Pattern[str]) -> str:
    """A label without what models put around it: ``(A)``, ``A.``, ``Option A``."""
    bare = _AROUND.sub("", verdict)
    word = before.match(bare)
    if word is not None:
        bare = _AROUND.sub("", bare[word.end() :])
    return bare.upper().translate(_NUMBERING)


def plain(text: str) -> str:
    """The text with full-width forms made plain (NFKC), without invisible marks: of the direction
    of writing, of no width, and of an emoji's form."""
    raised = re.sub("(?=[²³¹⁰-₉])", "^", text)  # 8² is no 82
    normal = unicodedata.normalize("NFKC", raised).replace("\ufe0f", "")
    return "".join(letter for letter in normal if unicodedata.category(letter) != "Cf")


def _verdict(text: str, spelled: Callable[[str], str], wording: Wording, finished: bool) -> str:
    """A text's verdict, however it is spelled."""
    whole = _with_plain_brackets(text)
    stated = _any_of(marks().mentions).sub(r" \g<kept>", whole)
    in_brackets = wording.verdict == IN_BRACKETS.verdict
    searched = stated if in_brackets else whole
    matches = list(re.finditer(wording.verdict, searched, flags=re.DOTALL))
    if in_brackets:
        matches += _LAST_WORD.finditer(searched)
    if in_brackets and matches:
        matches = [*_BOX.finditer(searched), *matches]
    if not finished and matches:
        rest = _AROUND.sub("", searched[matches[-1].end() :])
        if rest.strip(" <>/[]{}\"'"):
            raise VerdictError("no verdict at the end")
    bare = [match[1].strip().strip("*").strip() for match in matches]
    verdicts = [*map(spelled, bare)]
    if not verdicts:
        where = f"that matches {wording.verdict}"
        if in_brackets:
            where = "in double brackets"
        raise VerdictError(f"no verdict {where}")
    distinct = sorted(set(verdicts))
    if wording.take == "only" and len(distinct) > 1:
        raise VerdictError(f"several verdicts: {', '.join(map(repr, distinct))}")
    if denial := _any_of(marks().denials).search(stated):
        raise VerdictError(f"beside its verdict the text says '{denial[0]}'")
    return verdicts[-1]


def _with_plain_brackets(text: str) -> str:
    """A text without its thought, with plain brackets, and with a scale inside them."""
    plain_text = without_thinking(plain(text))
    plain_text = plain_text.replace("【【", "[[").replace("】】", "]]")
    plain_text = re.sub(r"\\([\[\]])", r"\1", plain_text)  # as Markdown escapes them
    return _SCALE_BEHIND.sub(r"\1]]", plain_text)


@cache
def _any_of(patterns: Sequence[str]) -> re.Pattern[str]:
    return re.compile(plain("|".join(patterns)), re.IGNORECASE | re.MULTILINE)
