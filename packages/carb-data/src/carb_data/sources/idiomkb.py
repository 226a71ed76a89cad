"""IdiomKB: English, Chinese and Japanese idioms with their meanings in all three languages.

Li et al. 2023, Translate Meanings, Not Just Words: IdiomKB's Role in Optimizing Idiomatic Translation with Language
Models, AAAI 2024, arXiv:2308.13961.

``chosen`` is the meaning of an idiom, each ``rejected`` is the meaning of another idiom of like wording: of like
length, and with no content in common with ``chosen`` in any of the three languages (a content word of English; a pair
of characters or an uncommon character of Chinese or Japanese), since idioms that share a word are often synonyms. The
meanings were written by a model and not checked by people: silver, to be sampled by native readers before use.

Idioms are first gathered into small blocks of idioms that share a word or character, and wrong meanings come from
the same block. That makes them hard, and since a block is one source item, no split divides an answer.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pydantic import BaseModel, Field, TypeAdapter

from carb_data.errors import CarbError
from carb_data.models import BonSet, Domain, Provenance, Response, Role
from carb_data.options import closest
from carb_data.sources.answers import normalise
from carb_data.sources.base import Names, Options, Source
from carb_data.sources.grouping import of_mixed_length
from carb_data.sources.models import Skip
from carb_data.sources.reading import find_folder, read_json

LICENSE = "LicenseRef-none-stated"
URL = "https://github.com/lishuang-w/IdiomKB"
GENERATOR = "gpt-3.5-turbo-0613"

CULTURES = {"en": "english", "ja": "japanese", "zh": "chinese"}

_PROMPTS = {
    "en": 'What does the {name} idiom "{idiom}" mean?',
    "ja": "{name}の慣用句「{idiom}」はどういう意味ですか。",
    "zh": "{name}成语或俗语“{idiom}”是什么意思？",
}
_OWN_PROMPTS = {
    "en": 'What does the idiom "{idiom}" mean?',
    "ja": "「{idiom}」という慣用句はどういう意味ですか。",
    "zh": "“{idiom}”是什么意思？",
}
_NAMES = {
    "en": {"en": "English", "ja": "Japanese", "zh": "Chinese"},
    "ja": {"en": "英語", "ja": "日本語", "zh": "中国語"},
    "zh": {"en": "英语", "ja": "日语", "zh": "汉语"},
}

_SMALLEST_BLOCK = 12
_LARGEST_BLOCK = 60
_SHORTEST, _LONGEST = 0.7, 1.4
_MOST_SHARED = 2  # idioms that share more are mostly variants of one
_COMMON = 0.015  # share of meanings above which a character says little
_KANA = re.compile(r"[぀-ヿ]")
_HAN = re.compile(r"[一-鿿]")
_LATIN_WORD = re.compile(r"[A-Za-z]{3,}")
_BOILERPLATE = re.compile(
    r"^(?:比喻|形容|指的是|指|表示|意思是|用来|一般|常用来|意为|就是|常用于)+|ことのたとえ|という意味|こと。?$|様子|さま"
)
_EMPTY_WORDS = frozenset(
    re.findall(
        r"\w+",
        "of and in to with for on at or by from is as it be been being are was used use someone something somebody one "
        "oneself thing person people that which who when where what very not no do doing does have having has can may "
        "often without typically usually especially particularly than more most way other situation mean meaning "
        "express expression describe refer etc i e g you your his her their its they",
    )
)


class IdiomOptions(Options):
    """Options of ``idiomkb``."""

    languages: Names = Field(
        ("en", "zh"),
        description="Languages of the idioms: en, ja, zh; ja on request only: 4 of 13 were wrong",
    )
    meanings: Names = Field(("own",), description="Languages to explain them in: own, en, ja, zh")


class _Row(BaseModel):
    id: int
    idiom: str
    en_meaning: str
    ja_meaning: str
    zh_meaning: str


_Rows = TypeAdapter(list[_Row])


@dataclass(frozen=True, slots=True)
class _Idiom:
    row: _Row
    units: frozenset[str]
    """What its wording is made of: content words, or characters."""
    meaning: str = ""
    content: frozenset[str] = frozenset()
    """What its meanings say in all three languages: words, pairs of characters, uncommon characters."""


def build(path: Path, options: IdiomOptions, seed: int) -> Iterator[BonSet | Skip]:
    """Yield a set or a skip for every idiom and language of explanation asked for.

    Args:
        path: the folder with ``en_idiom_meaning.json`` and so on, or the one above it.
        options: languages of idioms and meanings.
        seed: chooses among the wrong meanings of a block, and the order of the responses.
    """
    for option, known in (("languages", list(CULTURES)), ("meanings", ["own", *CULTURES])):
        for language in getattr(options, option):
            if language not in known:
                raise CarbError(
                    f"idiomkb: {option}: '{language}' is not one of {', '.join(known)}.{closest(language, known)}"
                )
    folder = find_folder(path, "*_idiom_meaning.json", "IdiomKB")
    for language in dict.fromkeys(options.languages):
        rows = read_json(folder / f"{language}_idiom_meaning.json", _Rows, "IdiomKB")
        unique, repeated = _first_of_each(rows)
        for meaning_language in dict.fromkeys(language if m == "own" else m for m in options.meanings):
            for row in repeated:
                yield _skip(row, language, meaning_language, "the idiom is a repetition")
            yield from _explain(unique, language, meaning_language, seed)


def _explain(rows: Sequence[_Row], language: str, meaning_language: str, seed: int) -> Iterator[BonSet | Skip]:
    usable: list[_Idiom] = []
    content = _contents(rows)
    seen: set[str] = set()
    for row in rows:
        meaning = str(getattr(row, f"{meaning_language}_meaning")).strip()
        reason = _defect(row.idiom, meaning, meaning_language, seen)
        if reason is not None:
            yield _skip(row, language, meaning_language, reason)
            continue
        seen.add(normalise(meaning))
        usable.append(_Idiom(row, _wording(row.idiom, language), meaning, content[row.id]))
    for name, block in _blocks(usable).items():
        for idiom in block:
            three = _hardest(idiom, block, random.Random(f"idiomkb:{seed}:{language}:{idiom.row.id}"))
            if len(three) < 3:
                reason = "fewer than three other meanings of like length and other content in its block"
                yield _skip(idiom.row, language, meaning_language, reason)
            else:
                yield _set(idiom, three, language, meaning_language, name, seed)


def _set(idiom: _Idiom, three: Sequence[_Idiom], language: str, meaning_language: str, block: str, seed: int) -> BonSet:
    culture = CULTURES[language]
    own = language == meaning_language
    prompt = (_OWN_PROMPTS if own else _PROMPTS)[meaning_language]
    letters = random.Random(f"idiomkb:order:{seed}:{language}:{idiom.row.id}").sample("abcd", 4)
    shared = sum(bool(other.units & idiom.units) for other in three)
    return BonSet(
        id=f"idiomkb/{language}/{idiom.row.id}/{meaning_language}",
        culture=culture,
        domain=Domain.LINGUISTICS,
        topic="idioms",
        language=meaning_language,
        prompt=prompt.format(idiom=idiom.row.idiom.strip(), name=_NAMES[meaning_language][language]),
        responses=tuple(
            Response(
                id=letter,
                text=other.meaning,
                role=Role.CHOSEN if other is idiom else Role.REJECTED,
                language=meaning_language,
                culture=culture,
                generator=GENERATOR,
            )
            for letter, other in sorted(zip(letters, (idiom, *three), strict=True), key=lambda pair: pair[0])
        ),
        provenance=Provenance(
            source="idiomkb",
            source_id=f"{language}/{block}",
            license=LICENSE,
            url=URL,
            method="generated",
            notes=f"Meanings written by {GENERATOR}, unchecked (silver). Wrong meanings are those of "
            f"{', '.join(other.row.idiom.strip() for other in three)}; {shared} of them share a word or character.",
        ),
    )


def _hardest(idiom: _Idiom, block: Sequence[_Idiom], random_: random.Random) -> list[_Idiom]:
    """Three others of the block whose meanings cannot pass for this one's, the most similar idioms first."""
    length = len(idiom.meaning)
    others = [
        other
        for other in block
        if other is not idiom
        and _SHORTEST * length <= len(other.meaning) <= _LONGEST * length
        and other.content.isdisjoint(idiom.content)
        and len(other.units & idiom.units) <= _MOST_SHARED
    ]
    random_.shuffle(others)
    others.sort(key=lambda other: -len(other.units & idiom.units))
    return of_mixed_length(length, others, lambda other: len(other.meaning), 3, random_)


def _blocks(idioms: Sequence[_Idiom]) -> dict[str, list[_Idiom]]:
    """Divide idioms into blocks that share a word or character, rarest first; those left over at random."""
    by_unit: dict[str, list[_Idiom]] = defaultdict(list)
    for idiom in idioms:
        for unit in idiom.units:
            by_unit[unit].append(idiom)
    frequency = Counter({unit: len(members) for unit, members in by_unit.items()})
    taken: set[int] = set()
    blocks: dict[str, list[_Idiom]] = {}
    for unit, _ in sorted(frequency.items(), key=lambda pair: (pair[1], pair[0])):
        members = [idiom for idiom in by_unit[unit] if idiom.row.id not in taken]
        if len(members) >= _SMALLEST_BLOCK:
            taken.update(idiom.row.id for idiom in members)
            blocks.update(_cut(unit, members))
    rest = [idiom for idiom in idioms if idiom.row.id not in taken]
    blocks.update(_cut("other", rest))
    return blocks


def _cut(name: str, members: list[_Idiom]) -> dict[str, list[_Idiom]]:
    """Parts of at most ``_LARGEST_BLOCK``, of like size, by the hash of the idiom."""
    if not members:
        return {}
    parts = -(-len(members) // _LARGEST_BLOCK)
    shuffled = sorted(members, key=lambda idiom: sha256(idiom.row.idiom.encode()).digest())
    return {name if parts == 1 else f"{name}-{part + 1}": shuffled[part::parts] for part in range(parts)}


def _defect(idiom: str, meaning: str, language: str, seen: set[str]) -> str | None:
    if not _is_in(meaning, language):
        return "the meaning is in another language"
    if normalise(idiom) in normalise(meaning) or idiom.strip() in meaning:
        return "the meaning contains the idiom"
    if normalise(meaning) in seen:
        return "the meaning is a repetition"
    return None


def _is_in(text: str, language: str) -> bool:
    if language == "ja":
        return _KANA.search(text) is not None
    if language == "zh":
        return _HAN.search(text) is not None and _KANA.search(text) is None and _LATIN_WORD.search(text) is None
    return _LATIN_WORD.search(text) is not None and _HAN.search(text) is None and _KANA.search(text) is None


def _wording(idiom: str, language: str) -> frozenset[str]:
    if language == "en":
        return _words(idiom)
    return frozenset(char for char in idiom if char.isalnum() and not _KANA.match(char))


def _contents(rows: Sequence[_Row]) -> dict[int, frozenset[str]]:
    """Row id to what its three meanings say."""
    characters = {
        row.id: {char for meaning in (row.ja_meaning, row.zh_meaning) for char in meaning if _HAN.match(char)}
        for row in rows
    }
    frequency = Counter(char for chars in characters.values() for char in chars)
    common = {char for char, n in frequency.items() if n > max(1, _COMMON * len(rows))}
    return {
        row.id: _words(row.en_meaning)
        | _pairs(row.ja_meaning)
        | _pairs(row.zh_meaning)
        | frozenset(characters[row.id] - common)
        for row in rows
    }


def _words(text: str) -> frozenset[str]:
    return frozenset(word for word in normalise(text).split() if len(word) > 2 and word not in _EMPTY_WORDS)


def _pairs(text: str) -> frozenset[str]:
    plain = "".join(char for char in _BOILERPLATE.sub("", text) if char.isalnum())
    pairs = (first + second for first, second in itertools.pairwise(plain))
    return frozenset(pair for pair in pairs if _HAN.match(pair[0]) and _HAN.match(pair[1]))


def _first_of_each(rows: Sequence[_Row]) -> tuple[list[_Row], list[_Row]]:
    seen: set[str] = set()
    unique: list[_Row] = []
    repeated: list[_Row] = []
    for row in rows:
        form = normalise(row.idiom) or row.idiom.strip()
        (repeated if form in seen else unique).append(row)
        seen.add(form)
    return unique, repeated


def _skip(row: _Row, language: str, meaning_language: str, reason: str) -> Skip:
    return Skip(source_id=f"{language}/{row.id}", reason=reason, culture=CULTURES[language], language=meaning_language)


SOURCE = Source(
    name="idiomkb",
    description="IdiomKB: the meaning of an idiom against meanings of similar idioms (en, ja, zh; model-written)",
    license=LICENSE,
    rows=build,
    options=IdiomOptions,
)
