"""BLEnD: everyday questions asked in 16 places, each answered by people from there.

Myung et al. 2024, BLEnD: A Benchmark for LLMs on Everyday Knowledge in Diverse Cultures and Languages, NeurIPS
Datasets and Benchmarks, arXiv:2406.09948.

For a question about a place, ``chosen`` is the answer that most people there gave, and each ``rejected`` is what most
people of another place gave to the same question and nobody here gave. The guards against a rejected answer that is
right after all: agreement on both sides (alone at the top, two votes or more, at most two people who did not know),
and ``answers.may_agree`` against *every* answer of the place. Five people not giving an answer does not make it
false: some rejected answers are merely less typical.
"""

from __future__ import annotations

import csv
import random
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, TypeAdapter

from carb_data.errors import CarbError
from carb_data.models import BonSet, Domain, Provenance, Response, Role
from carb_data.sources.answers import Meaning, Thesaurus, are_alike, is_answer, may_agree, meaning
from carb_data.sources.base import Names, Options, Source, closest
from carb_data.sources.grouping import SameItems
from carb_data.sources.models import Skip
from carb_data.sources.reading import find_folder, read_json

LICENSE = "CC-BY-SA-4.0"
URL = "https://github.com/nlee0212/BLEnD"

PLACES = {
    "Algeria": ("arabic-dz", "ar"),
    "Assam": ("assamese", "as"),
    "Azerbaijan": ("azerbaijani", "az"),
    "China": ("chinese-cn", "zh"),
    "Ethiopia": ("amharic", "am"),
    "Greece": ("greek", "el"),
    "Indonesia": ("indonesian", "id"),
    "Iran": ("persian", "fa"),
    "Mexico": ("spanish-mx", "es"),
    "North_Korea": ("korean-kp", "ko"),
    "Northern_Nigeria": ("hausa", "ha"),
    "South_Korea": ("korean-kr", "ko"),
    "Spain": ("spanish-es", "es"),
    "UK": ("english-gb", "en"),
    "US": ("english-us", "en"),
    "West_Java": ("sundanese", "su"),
}
"""Place to culture id and language of the questions there."""

SHIPPED = ("Algeria", "China", "Mexico", "North_Korea", "South_Korea", "Spain", "UK", "US")
"""Places whose cultures this package registers. For another one, add a culture of the id above."""

_NO_LENDER = "Northern_Nigeria"  # its English is noisy: "judge" stands for a dessert there
_NON_LATIN = frozenset({"ar", "as", "zh", "am", "el", "fa", "ko"})
_REJECTED = 3
_MIN_VOTES = 2
_MAX_UNKNOWING = 2
_LETTERS = "abcd"


class BlendOptions(Options):
    """Options of ``blend``."""

    languages: Literal["both", "english", "local"] = Field(
        "both", description="English sets, sets in the language of the place, or both"
    )
    places: Names = Field(SHIPPED, description="Places to build sets for; a place lends answers in any case")


class _Entry(BaseModel):
    answers: list[str]
    en_answers: list[str]
    count: int


class _Item(BaseModel):
    question: str
    en_question: str
    annotations: list[_Entry]
    idks: dict[str, int] = {}


_Items = TypeAdapter(dict[str, _Item])


@dataclass(frozen=True, slots=True)
class _Top:
    """The answer of a place to a question, when its people agree on one."""

    place: str
    entry: _Entry
    text: str
    local: str
    """The answer in the language of the place."""
    meaning: Meaning


class _Blend:
    """The files, with what is derived from all of them."""

    def __init__(self, folder: Path, needed: Sequence[str]) -> None:
        self.items = {
            place: read_json(folder / _file(place), _Items, "BLEnD")
            for place in PLACES
            if (folder / _file(place)).exists()
        }
        missing = [place for place in needed if place not in self.items]
        if missing:
            raise CarbError(f"{folder} lacks {', '.join(_file(place) for place in missing)} of BLEnD.")
        self.topics = {place: _read_topics(folder, place) for place in needed}
        self.same = SameItems()
        for items in self.items.values():
            for number, item in items.items():
                self.same.add(number, item.question)
                self.same.add(number, item.en_question)
        self.frequency = self._count_wordings()
        self.thesaurus = Thesaurus()
        self.meanings: dict[int, Meaning] = {}
        for items in self.items.values():
            for item in items.values():
                for entry in item.annotations:
                    if english := self.shown(entry.en_answers, "en"):
                        self.meanings[id(entry)] = meaning(_clean(entry.en_answers), english)
                        self.thesaurus.learn(self.meanings[id(entry)].forms)
        self.tops = {
            (place, number): self._top(place, item)
            for place, items in self.items.items()
            for number, item in items.items()
        }

    def _count_wordings(self) -> Counter[tuple[str, str]]:
        wordings: Counter[tuple[str, str]] = Counter()
        for place, items in self.items.items():
            for item in items.values():
                for entry in item.annotations:
                    wordings.update({("en", text.casefold()) for text in _clean(entry.en_answers)})
                    if PLACES[place][1] != "en":
                        wordings.update({(PLACES[place][1], text.casefold()) for text in _clean(entry.answers)})
        return wordings

    def shown(self, variants: Sequence[str], language: str) -> str:
        """The wording that a set shows; empty when there is none.

        The one that occurs most in the source, since translations that occur once are often slips, and not a list of
        several wordings.
        """
        whole = _clean(variants)
        single = [text for text in whole if not any(mark in text for mark in ",;،、/") or _is_bare(text)] or whole
        return max(single, key=lambda text: self.frequency[language, text.casefold()], default="")

    def _top(self, place: str, item: _Item) -> _Top | str:
        """The agreed answer, or why there is none."""
        if not item.annotations:
            return "nobody gave an answer"
        votes = max(entry.count for entry in item.annotations)
        first = [entry for entry in item.annotations if entry.count == votes]
        unknowing = sum(n for reason, n in item.idks.items() if reason != "not-applicable")
        if item.idks.get("not-applicable", 0) > _MAX_UNKNOWING:
            return "the question does not apply there"
        if unknowing > _MAX_UNKNOWING:
            return f"more than {_MAX_UNKNOWING} people did not know"
        if votes < _MIN_VOTES:
            return f"fewer than {_MIN_VOTES} people agree"
        if len(first) > 1:
            return "the top answer is tied"
        entry = first[0]
        if not _clean(entry.en_answers) or not _clean(entry.answers):
            return "the top answer is incomplete"
        if not all(is_answer(variant) for variant in _clean(entry.en_answers)):
            return "the top answer is a remark, not an answer"
        local = self.shown(entry.answers, PLACES[place][1])
        return _Top(place, entry, self.shown(entry.en_answers, "en"), local, self.meanings[id(entry)])


def build(path: Path, options: BlendOptions, seed: int) -> Iterator[BonSet | Skip]:
    """Yield a set or a skip for every place, question and language asked for.

    Args:
        path: the folder that holds ``annotations`` and ``questions``, or the one above it.
        options: languages and places.
        seed: chooses the lending places and the order of the responses.

    Raises:
        CarbError: the files are not BLEnD's, or a place is unknown.
    """
    for place in options.places:
        if place not in PLACES:
            raise CarbError(f"BLEnD has no place '{place}'.{closest(place, PLACES)} Places: {', '.join(PLACES)}.")
    places = tuple(dict.fromkeys(options.places))
    blend = _Blend(find_folder(path, "annotations", "BLEnD"), places)
    for place in places:
        local = PLACES[place][1]
        languages = {"english": ("en",), "local": (local,), "both": ("en", local)}[options.languages]
        glossary = _glossary(blend, place)
        for number in blend.items[place]:
            for language in dict.fromkeys(languages):
                yield _make(blend, place, number, language, glossary, seed)


def _make(blend: _Blend, place: str, number: str, language: str, glossary: dict[str, str], seed: int) -> BonSet | Skip:
    culture, local = PLACES[place]
    item = blend.items[place][number]

    def skip(reason: str) -> Skip:
        return Skip(source_id=f"{place}/{number}", reason=reason, culture=culture, language=language)

    top = blend.tops[place, number]
    if isinstance(top, str):
        return skip(top)
    random_ = random.Random(f"blend:{seed}:{place}:{number}")
    lenders = _lenders(blend, place, number, top)
    random_.shuffle(lenders)
    order = random_.sample(_LETTERS, len(_LETTERS))
    prompt, chosen = item.en_question, top.text
    three = _first_three([(lender, lender.text) for lender in lenders], blend.thesaurus)
    if three is None:
        return skip("fewer than three other places agree on an answer that nobody here gave")
    if language != "en":
        prompt, chosen = item.question, top.local
        if not _is_written_in(chosen, language):
            return skip("the answer is not written in the local language")
        local_texts = _local_texts(lenders, item, top, local, glossary)
        three = _first_three(local_texts, blend.thesaurus)
        if three is None:
            return skip("fewer than three of the wrong answers exist in the local language")
    if not prompt.strip():
        return skip("the question is empty")
    answers = [(top, chosen), *three]
    responses = [
        Response(
            id=letter,
            text=text,
            role=Role.CHOSEN if where is top else Role.REJECTED,
            language=language,
            culture=PLACES[where.place][0],
            generator="human",
        )
        for letter, (where, text) in zip(order, answers, strict=True)
    ]
    votes = ", ".join(f"{where.place} {where.entry.count}" for where, _ in three)
    return BonSet(
        id=f"blend/{place}/{number}/{language}",
        culture=culture,
        domain=Domain.COMMONSENSE,
        topic=blend.topics[place].get(number),
        language=language,
        prompt=prompt.strip(),
        responses=tuple(sorted(responses, key=lambda response: response.id)),
        provenance=Provenance(
            source="blend",
            source_id=blend.same.name(number),
            license=LICENSE,
            url=URL,
            method="human-vote",
            notes=f"Votes: {place} {top.entry.count} for the chosen answer; rejected answers from {votes}.",
        ),
    )


def _lenders(blend: _Blend, place: str, number: str, top: _Top) -> list[_Top]:
    """Agreed answers of other places, of the same kind as ``top``, that nobody of ``place`` gave."""
    given = [blend.meanings[id(e)] for e in blend.items[place][number].annotations if id(e) in blend.meanings]
    found = []
    for other in blend.items:
        lent = blend.tops.get((other, number))
        if other in (place, _NO_LENDER) or not isinstance(lent, _Top) or lent.meaning.kind != top.meaning.kind:
            continue
        if not any(may_agree(lent.meaning, answer, blend.thesaurus) for answer in given):
            found.append(lent)
    return found


def _first_three(answers: list[tuple[_Top, str]], thesaurus: Thesaurus) -> tuple[tuple[_Top, str], ...] | None:
    """The first three, in order, of which no two may mean the same."""
    apart = {
        (i, j): not are_alike(answers[i][0].meaning, answers[j][0].meaning, thesaurus)
        for i, j in combinations(range(len(answers)), 2)
    }
    for i, j, k in combinations(range(len(answers)), _REJECTED):
        if apart[i, j] and apart[i, k] and apart[j, k]:
            return answers[i], answers[j], answers[k]
    return None


def _local_texts(
    lenders: list[_Top], item: _Item, top: _Top, language: str, glossary: dict[str, str]
) -> list[tuple[_Top, str]]:
    """The lenders whose answer exists in ``language``: given in it, a bare number, or said here of something else."""
    given = [plain for entry in item.annotations for text in entry.answers if (plain := _plain(text))]
    bare = _is_bare(top.local)
    found = []
    for lender in lenders:
        text: str | None = None
        if PLACES[lender.place][1] == language:
            text = lender.local
        elif lender.meaning.kind != "text":
            text = lender.text if bare and _is_bare(lender.text) else None
        else:
            text = next((glossary[form] for form in sorted(lender.meaning.forms) if form in glossary), None)
        if text is None or not _is_written_in(text, language):
            continue
        plain = _plain(text)
        if _is_bare(text) or not any(plain in other or other in plain for other in given):
            found.append((lender, text))
    return found


def _glossary(blend: _Blend, place: str) -> dict[str, str]:
    """Normalised English answer to its local wording, from everything that people of ``place`` said."""
    glossary: dict[str, str] = {}
    for item in blend.items[place].values():
        for entry in item.annotations:
            local = blend.shown(entry.answers, PLACES[place][1])
            if local and id(entry) in blend.meanings:
                for form in sorted(blend.meanings[id(entry)].forms):
                    glossary.setdefault(form, local)
    return glossary


def _clean(variants: Sequence[str]) -> list[str]:
    return [variant.strip() for variant in variants if variant.strip()]


def _plain(text: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFKC", text).casefold() if char.isalnum())


def _is_bare(text: str) -> bool:
    """Digits, with the marks of times, dates and ranges: the same in every language."""
    return text.isascii() and any(char.isdigit() for char in text) and not any(char.isalpha() for char in text)


def _is_written_in(text: str, language: str) -> bool:
    """False for Latin letters in a language of another script; other mixtures do not occur in the source."""
    return language not in _NON_LATIN or not any("a" <= char <= "z" for char in text.casefold())


def _file(place: str) -> str:
    return f"annotations/{place}_data.json"


def _read_topics(folder: Path, place: str) -> dict[str, str]:
    file = folder / "questions" / f"{place}_questions.csv"
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            return {row["ID"]: row["Topic"] for row in csv.DictReader(lines)}
    except (OSError, KeyError, UnicodeDecodeError) as error:
        raise CarbError(f"Cannot read the topics of BLEnD's questions from {file}: {error}.") from None


SOURCE = Source(
    name="blend",
    description="BLEnD: everyday questions, each answered by people of 16 places; per country",
    license=LICENSE,
    rows=build,
    options=BlendOptions,
)
