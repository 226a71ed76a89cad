"""Does a short answer say what a person said? Words compared in the form that each language needs.

The published scorer of BLEnD (Myung et al. 2024, arXiv:2406.09948, section 4; ``evaluation/exact_match.py``) takes an
answer as right when it contains a person's answer as a string, or all its words after lemmatising with one tool per
language. This module follows it with light rules instead of a dozen lemmatisers, and differs on purpose in one
point: a string must be met at the borders of words, so that "rice" is not found in "price", nor "1" in "10".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from functools import lru_cache

from carb_data.sources.blend_answers import normalise

_UNSPACED = frozenset({"zh", "ja", "th"})
"""Written without spaces: compared as strings of characters."""
_KEEPS_MARKS = frozenset({"as", "hi", "bn", "th", "ta", "te", "ml", "ne"})
"""Marks are vowels there, not accents."""
_SUFFIXING = frozenset({"ko", "az", "tr", "id", "su", "fi", "hu", "kk", "uz"})
"""Words take endings: a word that goes on after the answer's word for a few characters still says it."""
_ARTICLES = {
    "es": frozenset({"el", "la", "los", "las", "lo", "un", "una", "unos", "unas"}),
    "de": frozenset({"der", "die", "das", "den", "dem", "ein", "eine", "einen", "einem", "einer"}),
    "el": frozenset({"ο", "η", "το", "οι", "τα", "του", "τησ", "των", "τον", "την", "ενα", "ενασ", "μια"}),
}
_PREFIXES = {"ar": re.compile(r"^(?:وال|بال|كال|فال|لل|ال)(?=\w{2})")}
_KOREAN_PARTICLES = frozenset(
    {
        "이", "가", "은", "는", "을", "를", "의", "에", "도", "로", "와", "과", "만", "나", "랑", "야", "요",
        "으로", "에서", "에게", "까지", "부터", "하고", "이나", "이랑", "이다", "입니다", "이에요", "예요", "라고",
    }
)  # fmt: skip
MOST_PARTS = 3
"""Alternatives that a short answer may name, divided by commas and the like."""
MOST_WORDS = 15
"""Words of an answer beside the one that is looked for; more are a list, or a text, and no short answer."""
MOST_CHARACTERS = 40
"""The same for languages without spaces."""
_DIVIDER = re.compile(r"[,;/|،؛、，；・·•\n]|\s[-–—]\s")
_SHORT_PART = 4
_LONGEST_ENDING = 3
_SHORTEST_STEM = 4
_LETTERS: dict[str, dict[int, str]] = {
    "ar": str.maketrans({"أ": "ا", "إ": "ا", "آ": "ا", "ٱ": "ا", "ى": "ي", "ة": "ه", "ؤ": "و", "ئ": "ي"}),
    "fa": str.maketrans({"ي": "ی", "ك": "ک", "ة": "ه", "أ": "ا", "إ": "ا", "\u200c": " "}),
    "ha": str.maketrans(dict(zip("ɓɗƙƴ", "bdky", strict=True))),
    "az": str.maketrans({"ı": "i"}),
    "am": str.maketrans(dict(zip("ሐኀሠዐፀ", "ሀሀሰአጸ", strict=True))),
}
_NUMBER_WORDS = {
    word: str(n) for n, word in enumerate(re.findall(r"\w+", "zero one two three four five six seven eight nine ten"))
}


Words = tuple[str, ...]
"""The words of a text in the form in which they are compared."""


@lru_cache(maxsize=4096)
def form(text: str, language: str) -> Words:
    """The words of a text: lower case, digits of all scripts as 0-9, without punctuation, articles and accents.

    Args:
        text: the text to bring into the common form.
        language: the text's language, as an ISO 639-1 code.
    """
    text = "".join(_digit(char) for char in unicodedata.normalize("NFKC", text).replace("\u200b", ""))
    text = re.sub(r"(?<=\d)[,،٬](?=\d{3}(?!\d))", "", text)
    if language == "en":
        plain = normalise(text).split() or re.findall(r"\w+", text.casefold())  # the mark "A" is no article
        return tuple(_number(_NUMBER_WORDS.get(word, word)) for word in plain)
    text = text.casefold().translate(_LETTERS.get(language, {})).replace("ـ", "")
    text = re.sub(r"['’`´]", "", text)
    if language not in _KEEPS_MARKS:
        bare = (char for char in unicodedata.normalize("NFD", text) if not unicodedata.combining(char))
        text = unicodedata.normalize("NFC", "".join(bare)).translate(_LETTERS.get(language, {}))
        words = re.findall(r"\w+", text)
    else:
        words = re.findall(
            r"[\w\u0900-\u0fff\u200d]+", unicodedata.normalize("NFC", re.sub("[\u0964\u0965]", " ", text))
        )
    if language in _UNSPACED:
        return ("".join(words),) if words else ()
    if language in _PREFIXES:
        words = [_PREFIXES[language].sub("", word) for word in words]
    kept = [word for word in words if word not in _ARTICLES.get(language, ())] or words
    if language in ("es", "de"):
        kept = [_plural(word) for word in kept]
    return tuple(_number(word) for word in kept)


def says(response: Words, answer: Words, language: str) -> bool:
    """Whether a response contains an answer: its words one after the other, or all of them somewhere.

    Answers with digits must be met in one piece, since 8:30 is not 30:8. An empty answer is said by nothing.
    """
    if not answer or not response:
        return False
    if language in _UNSPACED:
        return _string_said(response[0], answer[0])
    together = any(
        all(_same(response[start + i], word, language) for i, word in enumerate(answer))
        for start in range(len(response) - len(answer) + 1)
    )
    if together or any(char.isdigit() for word in answer for char in word):
        return together
    return all(any(_same(word, wanted, language) for word in response) for wanted in answer)


def is_list(text: str, language: str) -> bool:
    """Whether a text names so many things that containing the answer among them says nothing.

    A line of the commonest answers contains somebody's answer to many questions. Parts count where they are short: a
    sentence with commas is no list.
    """
    parts = [part for part in _DIVIDER.split(text) if part.strip()]
    if language in _UNSPACED and not re.search(r"[A-Za-z]{3}", text):
        short = [part for part in parts if len(part.strip()) <= _SHORT_PART * 2]
        return len(short) > MOST_PARTS or len(text) > MOST_CHARACTERS
    short = [part for part in parts if len(part.split()) <= _SHORT_PART]
    return len(short) > MOST_PARTS or len(text.split()) > MOST_WORDS


def names_many(said: Words, answers: Collection[str]) -> bool:
    """Whether a text is made of many answers, with or without dividers: a list of the commonest answers, say.

    It is where more than ``MOST_PARTS`` of its words are each an answer to some question, and these are at least two
    thirds of its different words. A sentence is made of other words as well.

    Args:
        said: form of the text.
        answers: words that alone answer some question.
    """
    named = {word for word in said if word in answers}
    return len(named) > MOST_PARTS and 3 * len(named) >= 2 * len(set(said))


def _string_said(there: str, wanted: str) -> bool:
    """In a string without spaces; a number must not be a part of a longer one."""
    digits_before = r"(?<!\d)" if wanted[0].isdigit() else ""
    digits_after = r"(?!\d)" if wanted[-1].isdigit() else ""
    return re.search(digits_before + re.escape(wanted) + digits_after, there) is not None


def _same(there: str, wanted: str, language: str) -> bool:
    if there == wanted:
        return True
    if language not in _SUFFIXING or not there.startswith(wanted) or wanted[-1].isdigit():
        return False
    ending = there[len(wanted) :]
    if language == "ko":
        return ending in _KOREAN_PARTICLES
    return len(wanted) >= _SHORTEST_STEM and len(ending) <= _LONGEST_ENDING


def _digit(char: str) -> str:
    if char.isdecimal() and not "0" <= char <= "9":
        return str(unicodedata.decimal(char))
    return char


def _number(word: str) -> str:
    """Without leading zeros: 08:30 and 8:30 are one time."""
    return word.lstrip("0") or "0" if word.isdecimal() else word


def _plural(word: str) -> str:
    if len(word) > 4 and word.endswith("es"):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith(("s", "e")) else word


def first_line(text: str) -> str:
    """The first line with anything in it, or an empty string."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def forms(variants: Iterable[str], language: str) -> frozenset[Words]:
    """The forms of all wordings of one answer, empty ones left out."""
    return frozenset(found for variant in variants if (found := form(variant, language)))
