"""BLEnD: everyday questions asked in 16 places, each answered by people from there.

Myung et al. 2024, BLEnD: A Benchmark for LLMs on Everyday Knowledge in Diverse Cultures and Languages, NeurIPS
Datasets and Benchmarks, arXiv:2406.09948.

For a question about a place, ``chosen`` is the answer that most people there gave, and each ``rejected`` is what most
people of another place gave to the same question and nobody here gave. The guards against a rejected answer that is
right after all: agreement on both sides (alone at the top, two votes or more, at most two people who did not know),
``answers.may_agree`` against *every* answer of the place, and for numbers, times and dates
``ranges.clearly_outside`` the range of all of them; and an answer that somebody gave in more than two places is lent to
none. Amounts of money and months of other calendars are not compared.
Five people not giving an answer does not make it false: some rejected answers are merely less typical.

With ``perturbed``, a set has versions of ``chosen`` that people wrote, too: another wording of it that people of the
place gave (RP), its wording in the other language (CL), and in its place what a fourth place gave (CC: the concept
changes, and the place that the question names stays). Answers name no place, so there is no RC.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Literal

from pydantic import Field

from carb_data.models import BonSet, Domain, Perturbation, Response, Role
from carb_data.sources.answers import Thesaurus, are_alike, may_agree, normalise
from carb_data.sources.base import Names, Options, Source
from carb_data.sources.blend_files import PLACES, BlendQuestion
from carb_data.sources.blend_votes import LICENSE, SEVERAL, Answers, Top, cast_votes, clean, is_bare
from carb_data.sources.models import Skip
from carb_data.sources.ranges import asks_for_month, clearly_outside

SHIPPED = ("Algeria", "China", "Mexico", "North_Korea", "South_Korea", "Spain", "UK", "US")
"""Places of the ten listed cultures, built by default; the cultures of the other eight are registered, too."""

_NO_LENDER = "Northern_Nigeria"  # its English is noisy: "judge" stands for a dessert there
_NON_LATIN = frozenset({"ar", "as", "zh", "am", "el", "fa", "ko"})
_REJECTED = 3
_LETTERS = "abcd"

_Glossary = dict[tuple[str | None, str], str]


class BlendOptions(Options):
    """Options of ``blend``."""

    languages: Literal["both", "english", "local"] = Field(
        "both", description="English sets, sets in the language of the place, or both"
    )
    perturbed: bool = Field(default=False, description="Add perturbed versions of the right answer: CC, CL and RP")
    places: Names = Field(SHIPPED, description="Places to build sets for; a place lends answers in any case")


def build(path: Path, options: BlendOptions, seed: int) -> Iterator[BonSet | Skip]:
    """Yield a set or a skip for every place, question and language asked for.

    Args:
        path: the folder that holds ``annotations`` and ``questions``, or the one above it.
        options: The languages and places to build.
        seed: the seed of the choice of the lending places and of the order of the responses.

    Raises:
        CarbError: the files are not BLEnD's, or a place is unknown.
    """
    places = tuple(dict.fromkeys(options.places))
    blend = Answers(path, places)
    for place in places:
        local = PLACES[place][1]
        languages = {"english": ("en",), "local": (local,), "both": ("en", local)}[options.languages]
        glossary = _glossary(blend, place)
        for number in blend.items[place]:
            for language in dict.fromkeys(languages):
                yield _make(blend, place, number, language, glossary, seed, perturbed=options.perturbed)


def _make(
    blend: Answers, place: str, number: str, language: str, glossary: _Glossary, seed: int, *, perturbed: bool
) -> BonSet | Skip:
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
    others = [(lender, lender.text) for lender in lenders]
    three = _first_three(others, blend.thesaurus)
    if three is None:
        return skip("fewer than three other places agree on an answer that nobody here gave")
    if language != "en":
        prompt, chosen = item.question, top.local
        if not is_written_in(chosen, language):
            return skip("the answer is not written in the local language")
        others = _local_texts(lenders, item, top, local, blend.topics[place].get(number), glossary)
        three = _first_three(others, blend.thesaurus)
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
            votes=cast_votes(where, place),
        )
        for letter, (where, text) in zip(order, answers, strict=True)
    ]
    versions: Iterator[Response] = iter(())
    if perturbed:
        own = next(response for response in responses if response.role is Role.CHOSEN)
        unused = [(where, text) for where, text in others if not _is_like_one_of(where, three, blend.thesaurus)]
        versions = _versions(blend, top, own, unused)
    votes = ", ".join(f"{where.place} {where.entry.count}" for where, _ in three)
    return BonSet(
        id=f"blend/{place}/{number}/{language}",
        culture=culture,
        domain=Domain.COMMONSENSE,
        topic=blend.topics[place].get(number),
        language=language,
        prompt=prompt.strip(),
        responses=tuple(sorted(responses, key=lambda response: response.id)),
        perturbed=tuple(versions),
        provenance=blend.provenance(
            number, f"Votes: {place} {top.entry.count} for the chosen answer; rejected answers from {votes}."
        ),
    )


def _lenders(blend: Answers, place: str, number: str, top: Top) -> list[Top]:
    """Agreed answers of other places, of the same kind as ``top``, that nobody of ``place`` gave."""
    given = [blend.meanings[id(e)] for e in blend.items[place][number].annotations if id(e) in blend.meanings]
    own = [span for answer in given for span in answer.spans]
    month = asks_for_month(blend.items[place][number].en_question)
    found = []
    for other in blend.items:
        lent = blend.tops.get((other, number))
        if other in (place, _NO_LENDER) or not isinstance(lent, Top) or lent.meaning.kind != top.meaning.kind:
            continue
        if lent.meaning.kind != "text" and _unit(lent.text) != _unit(top.text):
            continue
        if not blend.can_be_wrong_in(place, lent, number):
            continue
        if not clearly_outside(lent.meaning.spans, own, month=month):
            continue
        if not any(may_agree(lent.meaning, answer, blend.thesaurus) for answer in given):
            found.append(lent)
    return found


def _unit(text: str) -> str:
    return " ".join(re.findall(r"[^\W\d_]+|[%$€£¥]", text.casefold()))


def _first_three(answers: list[tuple[Top, str]], thesaurus: Thesaurus) -> tuple[tuple[Top, str], ...] | None:
    """The first three, in order, of which no two may mean the same."""
    apart = {
        (i, j): not are_alike(answers[i][0].meaning, answers[j][0].meaning, thesaurus)
        for i, j in combinations(range(len(answers)), 2)
    }
    for i, j, k in combinations(range(len(answers)), _REJECTED):
        if apart[i, j] and apart[i, k] and apart[j, k]:
            return answers[i], answers[j], answers[k]
    return None


def _is_like_one_of(where: Top, answers: tuple[tuple[Top, str], ...], thesaurus: Thesaurus) -> bool:
    return any(are_alike(where.meaning, other.meaning, thesaurus) for other, _ in answers)


def _versions(blend: Answers, top: Top, chosen: Response, unused: list[tuple[Top, str]]) -> Iterator[Response]:
    """Versions of ``chosen`` that people wrote; none of a kind where nobody did.

    Args:
        unused: answers of further places, in the language of ``chosen``, with the meaning of none in the set.
    """
    local = PLACES[top.place][1]
    english = chosen.language == "en"
    wordings = sorted(
        (text for text in clean(top.entry.en_answers if english else top.entry.answers) if _is_one_answer(text)),
        key=lambda text: -blend.frequency[chosen.language, text.casefold()],
    )
    other_wordings = [
        text
        for text in wordings
        if normalise(text) != normalise(chosen.text)
        and _plain(text) != _plain(chosen.text)
        and is_written_in(text, chosen.language)
    ]
    translated = top.local if english else top.text
    is_translated = local != "en" and _plain(translated) != _plain(chosen.text) and not is_bare(translated)
    found = {
        Perturbation.CC: (unused[0][1], chosen.language) if unused else None,
        Perturbation.CL: (translated, local if english else "en") if is_translated else None,
        Perturbation.RP: (other_wordings[0], chosen.language) if other_wordings else None,
    }
    for kind, version in found.items():
        if version is not None and is_written_in(*version):
            yield chosen.model_copy(
                update={
                    "id": f"{chosen.id}-{kind.value.lower()}",
                    "text": version[0],
                    "language": version[1],
                    "perturbation": kind,
                    "original": chosen.id,
                }
            )


def _is_one_answer(text: str) -> bool:
    return is_bare(text) or not any(mark in text for mark in SEVERAL)


def _local_texts(
    lenders: list[Top], item: BlendQuestion, top: Top, language: str, topic: str | None, glossary: _Glossary
) -> list[tuple[Top, str]]:
    """The lenders whose answer exists in ``language``: given in it, a bare number, or said here of something else."""
    given = [plain for entry in item.annotations for text in entry.answers if (plain := _plain(text))]
    bare = is_bare(top.local)
    found = []
    for lender in lenders:
        text: str | None = None
        if PLACES[lender.place][1] == language:
            text = lender.local
        elif lender.meaning.kind != "text":
            text = lender.text if bare and is_bare(lender.text) else None
        else:
            text = glossary.get((topic, normalise(lender.text)))
        if text is None or not is_written_in(text, language):
            continue
        plain = _plain(text)
        if is_bare(text) or not any(plain in other or other in plain for other in given):
            found.append((lender, text))
    return found


def _glossary(blend: Answers, place: str) -> _Glossary:
    """Topic and normalised English answer to its local wording, from everything that people of ``place`` said.

    Within one topic only, because English words have several meanings: the turkey of Food is not that of Education.
    """
    glossary: _Glossary = {}
    for number, item in blend.items[place].items():
        for entry in item.annotations:
            local = blend.shown(entry.answers, PLACES[place][1])
            if local and id(entry) in blend.meanings:
                for form in sorted(blend.meanings[id(entry)].forms):
                    glossary.setdefault((blend.topics[place].get(number), form), local)
    return glossary


def _plain(text: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFKC", text).casefold() if char.isalnum())


def is_written_in(text: str, language: str) -> bool:
    """Whether a text can be of a language: not Latin letters in one of another script."""
    return language not in _NON_LATIN or not any("a" <= char <= "z" for char in text.casefold())


SOURCE = Source(
    name="blend",
    description="BLEnD: everyday questions, each answered by people of 16 places; per country",
    license=LICENSE,
    rows=build,
    options=BlendOptions,
)
