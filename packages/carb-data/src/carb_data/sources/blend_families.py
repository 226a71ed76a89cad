"""Mirrored families from BLEnD: one question, the answers of several places, and a set for each of them.

The same answers are asked about each place, and each time another one is right. Who does not read the place is
right in one set of N, by arithmetic. Four places in English; in a language that two places share, two.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

from pydantic import Field

from carb_data.models import BonSet, Domain, Response, Role
from carb_data.sources.answers import are_alike, may_agree
from carb_data.sources.base import Names, Options, Source
from carb_data.sources.blend import is_written_in
from carb_data.sources.blend_files import PLACES
from carb_data.sources.blend_votes import LICENSE, Answers, Top, cast_votes
from carb_data.sources.models import Skip
from carb_data.sources.ranges import asks_for_month, clearly_outside

__all__ = ["SOURCE"]

_NAMES = re.compile(
    r"\b(?:algeri|arab|assam|indian?\b|azerb|baku|chin(?:a|ese)|beijing|ethiopi|greek|greece|athen|indones|java|sunda|"
    r"iran|persi|mexic|korea|seoul|pyongyang|niger|hausa|spain|spanish|españ|madrid|uk\b|brit|engl|london|us\b|usa\b|americ)"
    r"|한국|조선|북한|남한|서울|평양",
    re.IGNORECASE,
)
"""An answer that names a place or its people gives away where it is right."""
_HELD = tuple(place for place in PLACES if place != "Northern_Nigeria")


class FamilyOptions(Options):
    """Options of ``blend-families``."""

    places: Names = Field(
        _HELD, description="Places that take part; by default all but Northern_Nigeria, whose English is noisy"
    )


def build(path: Path, options: FamilyOptions, seed: int) -> Iterator[BonSet | Skip]:
    """Yield the sets of every family, or a skip for a question of which none can be made.

    Args:
        path: the folder that holds ``annotations`` and ``questions``, or the one above it.
        options: The places to build.
        seed: the seed of the choice among the groups of places that a question allows.

    Raises:
        CarbError: the files are not BLEnD's, or a place is unknown.
    """
    places = tuple(dict.fromkeys(options.places))
    blend = Answers(path, places)
    shared: dict[str, list[str]] = {}
    for place in places:
        if PLACES[place][1] != "en":
            shared.setdefault(PLACES[place][1], []).append(place)
    groups = [("en", places, 4), *((language, tuple(own), 2) for language, own in shared.items() if len(own) > 1)]
    for number in sorted({number for place in places for number in blend.items[place]}):
        for language, own, size in groups:
            yield from _question(blend, number, language, own, size, seed)


def _question(
    blend: Answers, number: str, language: str, places: Sequence[str], size: int, seed: int
) -> Iterator[BonSet | Skip]:
    asked = _questions(blend, number, language, places)
    tops = [
        top
        for place in asked
        if isinstance(top := blend.tops[place, number], Top)
        and is_written_in(text_in(top, language), language)
        and not _NAMES.search(text_in(top, language))
    ]
    tops.sort(key=lambda top: _digest(seed, number, top.place))
    apart = {(a.place, b.place): _exclude_each_other(blend, number, a, b) for a, b in combinations(tops, 2)}
    made = 0
    while group := next((g for g in combinations(tops, size) if _all_apart(g, apart)), None):
        made += 1
        name = f"blend/{number}/{language}/{made}"
        shown = sorted(group, key=lambda top: _digest(seed, name, top.place))
        for top in group:
            yield _set(blend, name, number, language, top, shown, asked[top.place])
        tops = [top for top in tops if top not in group]
    if not made:
        reason = (
            f"no {size} places agree on answers that exclude each other" if tops else "no place agrees on an answer"
        )
        yield Skip(source_id=number, reason=reason, language=language)


def _questions(blend: Answers, number: str, language: str, places: Sequence[str]) -> dict[str, str]:
    """The question for each place; where the places' questions differ in more than the name, those of the most."""
    if language != "en":
        return {place: q for place in places if (i := blend.items[place].get(number)) and (q := i.question.strip())}
    forms: dict[str, dict[str, str]] = {}
    for place in places:
        item = blend.items[place].get(number)
        if item is not None and (name := place.replace("_", " ")) in item.en_question:
            forms.setdefault(item.en_question.replace(name, "{}"), {})[place] = item.en_question.strip()
    return max(forms.values(), key=len, default={})


def _all_apart(group: Sequence[Top], apart: dict[tuple[str, str], bool]) -> bool:
    return all(apart[a.place, b.place] for a, b in combinations(group, 2))


def _exclude_each_other(blend: Answers, number: str, a: Top, b: Top) -> bool:
    if a.meaning.kind != b.meaning.kind or are_alike(a.meaning, b.meaning, blend.thesaurus):
        return False
    return _is_wrong(blend, number, a, b.place) and _is_wrong(blend, number, b, a.place)


def _is_wrong(blend: Answers, number: str, top: Top, place: str) -> bool:
    """Whether nobody of ``place`` gave anything that the answer could pass for."""
    if not blend.can_be_wrong_in(place, top, number):
        return False
    item = blend.items[place][number]
    given = [blend.meanings[id(e)] for e in item.annotations if id(e) in blend.meanings]
    spans = [span for answer in given for span in answer.spans]
    if not clearly_outside(top.meaning.spans, spans, month=asks_for_month(item.en_question)):
        return False
    return not any(may_agree(top.meaning, answer, blend.thesaurus) for answer in given)


def _set(blend: Answers, name: str, number: str, language: str, top: Top, shown: Sequence[Top], prompt: str) -> BonSet:
    return BonSet(
        id=f"{name}/{top.place}",
        culture=PLACES[top.place][0],
        domain=Domain.COMMONSENSE,
        topic=blend.topics[top.place].get(number),
        language=language,
        prompt=prompt,
        responses=tuple(
            Response(
                id=one.place,
                text=text_in(one, language),
                role=Role.CHOSEN if one is top else Role.REJECTED,
                language=language,
                culture=PLACES[one.place][0],
                generator="human",
                votes=cast_votes(one, top.place),
            )
            for one in shown
        ),
        provenance=blend.provenance(number),
        family=name,
    )


def text_in(top: Top, language: str) -> str:
    """The wording of an answer in English or in the language of its place."""
    return top.text if language == "en" else top.local


def _digest(seed: int, *parts: str) -> bytes:
    return hashlib.sha256("\0".join([str(seed), *parts]).encode()).digest()


SOURCE = Source(
    name="blend-families",
    description="BLEnD as mirrored families: the same answers asked about each of several places",
    license=LICENSE,
    rows=build,
    options=FamilyOptions,
    files="blend",
)
