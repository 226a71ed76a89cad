"""The option that a key names: by its text, a letter, a number, or the name of its column."""

import re
import unicodedata
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from carb_data.errors import CarbError
from carb_data.packaged import resource
from carb_data.tables import plain
from carb_data.values import UnreadError, as_shown

ALPHABETS: dict[str, str] = resource("headings")["alphabets"]
"""Letters by which options are numbered, in their order."""
_LETTERS = frozenset("".join(ALPHABETS.values()))
_WORD = r"(?:(?:option|choice|answer)[\s:]+)?"
_MARKED = re.compile(rf"{_WORD}[(\[{{（【]?\s*(.)\s*[)\]}}）】.:、：．]?", re.IGNORECASE)
"""A letter alone, or between or before marks."""
_LETTERED = re.compile(
    rf"\s*\**{_WORD}[(\[（【]?\s*(1\d|[ivx]{{2,4}}|\w)\s*"
    r"(?:[)\]）】.:、：．]+\**(?<!\d[.:：](?=\d))|\*+|(?<!\d)\s[-–—]|\s[-–—](?!\s*\d))\s*(?=\S)(.*)",
    re.DOTALL | re.IGNORECASE,
)
"""An option behind its letter or number; ``1.5 kg``, ``1:30`` and ``1 - 2 days`` have none."""
_PIECES = re.compile(r"\s+(?=[(\[（]?\w[)\]）.:、])")
"""The marks before the options of a question, if they may share a line."""
_NUMBERS = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19"
_ROMAN = "I II III IV V VI VII VIII IX X"
"""Numbers that stand before options."""
_RUNS = ("0123456789", "123456789", *ALPHABETS.values())
"""Numbers and letters in their order."""
_LIKE_LATIN = frozenset("АВЕКМНОРСТХ")
"""Cyrillic letters that look like Latin ones, which stand elsewhere in the alphabet."""
_TWINS = str.maketrans("ABEKMHOPTX", "АВЕКМНОРТХ")
_NUMBER = re.compile(r"(\d{1,3})(?:\.0+)?")
"""A number as a table writes it; pandas makes 1.0 of 1 where another row is empty."""


@dataclass(frozen=True)
class Options:
    """The options of a row: their texts, and the names of their columns or of their entries, with
    ``|`` between several names of one."""

    texts: tuple[str, ...]
    names: tuple[str, ...] = ()

    def named(self, key: str) -> int | None:
        """The place of the option that has a name."""
        name = label(key)
        for number, names in enumerate(self.names):
            if name in names.split("|"):
                return number
        return None

    @cached_property
    def counted(self) -> bool:
        """Whether letters and numbers count the options; not where labels have another order, nor
        Roman labels."""
        stems = {name[:-1] for name in self.names}
        run = "".join(name[-1:] for name in self.names).upper()
        return (len(stems) > 1 and "ii" not in self.names) or any(
            letters.startswith(run) for letters in _RUNS
        )


@dataclass(frozen=True)
class System:
    """How the keys of a table count: the number of the first option, and the alphabet."""

    first: int | None = None
    letters: str = ALPHABETS["latin"]


def system_of(
    rows: Iterable[tuple[Collection[str], Options]], owner: object, first: int | None
) -> System:
    """How the keys of a whole table count: what only one reading fits.

    Args:
        rows: the keys and the options of each row; a text among them tells how numbers count.
        owner: the table, for messages.
        first: the number of the first option; null where it is not known.

    Raises:
        CarbError: two readings fit all rows.
    """
    used = set()
    certain = set()
    both = False
    for keys, options in rows:
        twins = _TWINS if "б" in options.names else {}
        others = {*keys}.intersection(options.texts)
        for key in keys:
            if key in others or options.named(key) is not None:
                continue
            if (letter := _letter(key)) is not None:
                used.add(letter.translate(twins))
            if number := _NUMBER.fullmatch(key):
                fits = _starts(int(number[1]), options, others)
                if len(fits) == 1:
                    certain.update(fits)
                elif fits:
                    both = True
    if both and not certain and first is None:
        raise CarbError(
            f"{owner}: its answers are numbers that can count from 0 or from 1. Write letters "
            "(A, B, …) or the texts of the right options in their place."
        )
    if first is None:
        first = min(certain, default=None)
    return System(first, _alphabet(used, owner))


def label(name: str) -> str:
    """A name of an option as it is compared: ``1.0`` is ``1``."""
    return re.sub(r"\A0*(\d+)(\.0+)?\Z", r"\1", plain(name))


def _starts(key: int, options: Options, texts: Collection[str]) -> list[int]:
    """The numbers of the first option with which a key names an option: one of some texts, where
    other keys of its row are texts."""
    fits = [first for first in (0, 1) if _filled(key - first, options)]
    if texts:
        return [first for first in fits if options.texts[key - first] in texts]
    return fits


def _alphabet(used: set[str], owner: object) -> str:
    """The alphabet that holds all letters of the keys, Latin first."""
    alphabet = next(filter(used.issubset, ALPHABETS.values()), ALPHABETS["latin"])
    is_like = alphabet == ALPHABETS["cyrillic"] and used <= _LIKE_LATIN and used != {"А"}
    if is_like or used == {"I"}:
        raise CarbError(
            f"{owner}: its answers are letters that look the same in Latin and Cyrillic, or I for "
            f"1 ({', '.join(sorted(used))}); write the texts of the options."
        )
    return alphabet


def place_of(
    key: str,
    options: Options,
    system: System,
    field: str,
) -> int:
    """The option that a key names.

    Raises:
        UnreadError: it names none of them, or two.
    """
    named = _named(key, options, system)
    number = _NUMBER.fullmatch(key)
    if named is not None and number and system.first not in (None, int(number[1]) - named):
        raise UnreadError((field, f"'{key}' is the name of one option and the number of another"))
    if key and key in options.texts:
        if named is None or options.texts[named] == key:
            return options.texts.index(key)
        reason = "is the text of one option and the number or letter of another; write the letter"
        raise UnreadError((field, f"'{key}' {reason} as (B)"))
    if named is not None:
        return named
    shown = [as_shown(option).casefold() for option in options.texts]
    meant = as_shown(key).casefold()
    if meant and shown.count(meant) == 1:
        return shown.index(meant)
    letter, text = parted(key)
    bare = [option for _, option in map(parted, options.texts)]
    if text and bare.count(text) == 1:
        index = bare.index(text)
        if not letter or _named(letter, options, system) == index:
            return index
    reason = "is empty"
    if key:
        reason = f"'{key}' is none of the options"
    if not options.counted:
        reason += f", and no label of them: their order is {', '.join(options.names)}"
    raise UnreadError((field, reason))


def _named(key: str, options: Options, system: System) -> int | None:
    """The filled option of which a key is the name, the letter or the number."""
    index = options.named(key)
    if index is None and options.counted:
        letter = _letter(key)
        number = _NUMBER.fullmatch(key)
        if letter is not None and letter in system.letters:
            index = system.letters.index(letter)
        elif number and system.first is not None:
            index = int(number[1]) - system.first
    if index is not None and _filled(index, options):
        return index
    return None


def without_letters(options: Options) -> Options | None:
    """The options without letters of their own, where most have the one of their place and the rest
    none; null where they have none.

    Raises:
        UnreadError: they have letters in another order.
    """
    letters, bare = zip(*map(parted, options.texts), strict=True)
    lettered = sum(map(bool, letters))
    filled = sum(map(bool, options.texts))
    if 2 * lettered <= max(filled, 2):
        return None
    for alphabet in (*ALPHABETS.values(), _NUMBERS.split(), _ROMAN.split()):
        marks = [*alphabet[: len(letters)]]
        pairs = zip(letters, marks, strict=False)
        if all(letter in ("", mark) for letter, mark in pairs):
            return Options(bare, options.names)
        if sorted(letters) == sorted(marks):
            reason = f"carry their own letters in the order {', '.join(letters)}; take them off"
            raise UnreadError(("options", reason))
    return None


def refuse_other_letters(question: str, options: Options, system: System) -> None:
    """Refuse options of which the question calls one by the letter of another.

    Raises:
        UnreadError: with that option.
    """
    texts = [*map(str.casefold, options.texts)]
    for piece in _PIECES.split(question):
        letter, text = parted(piece)
        index = _named(letter, options, system)
        bare = text.rstrip(",;").casefold()
        if index is not None and bare in texts and bare != texts[index]:
            reason = f"the question calls '{bare}' {letter}, and the options '{texts[index]}'"
            raise UnreadError(("answer", reason))


def parted(text: str) -> tuple[str, str]:
    """The letter or number before an option, and the rest; empty where there is none."""
    match = _LETTERED.fullmatch(text)
    if match is None:
        return "", text
    return unicodedata.normalize("NFKC", match[1]).upper(), match[2].strip()


def _letter(key: str) -> str | None:
    """The letter that a key is: ``(b)`` and ``【B】`` are B; one of no alphabet is none."""
    bare = unicodedata.normalize("NFC", key.replace("ـ", ""))
    match = _MARKED.fullmatch(bare.strip())
    if match is None:
        return None
    letter = match[1]
    if letter not in _LETTERS:
        letter = unicodedata.normalize("NFKC", letter)
    letter = letter.upper()
    if letter in "اإآ":
        letter = "أ"
    if letter in _LETTERS:
        return letter
    return None


def _filled(index: int, options: Options) -> bool:
    return 0 <= index < len(options.texts) and bool(options.texts[index])
