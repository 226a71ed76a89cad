"""BLEnD: everyday questions asked in 16 places, each answered by people from there.

Myung et al. 2024, BLEnD: A Benchmark for LLMs on Everyday Knowledge in Diverse Cultures and
Languages, NeurIPS Datasets and Benchmarks, arXiv:2406.09948.

It gives mirrored families: the agreed answers of several places are asked about each of them, and
each time another one is right. A scorer that does not read the place is right in exactly one of N
sets. A family has four places and asks in English.

Five people not giving an answer does not make it false: some rejected answers are merely less
typical. ``blend_files`` holds the guards against one that is right after all.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, permutations
from pathlib import Path

from carb_data.declaration import Declaration, Names, Skip, order_key
from carb_data.models import BonSet, Domain, Frozen, Response, Role
from carb_data.sources.blend_files import JUDGED, PLACES, Answers, Top

_NOISY = "Northern_Nigeria"
"""Its English is noisy: "judge" stands for a dessert."""
_NAMES = re.compile(JUDGED["names_of_places"], re.IGNORECASE)
"""Names of places and peoples: an answer that holds one tells where it is right."""
_SIZE = 4
"""Places of a family."""


class BlendOptions(Frozen):
    """Options of ``blend``."""

    places: Names = tuple(place for place in PLACES if place != _NOISY)
    """Places to ask about; by default all but Northern_Nigeria, whose English is noisy."""


OPTIONS = BlendOptions


def build(
    declaration: Declaration,
    path: Path,
    options: BlendOptions,
    seed: int,
) -> Iterator[BonSet | Skip]:
    """Yield the sets of every family, or a skip for a question that gives no family.

    The seed chooses among the groups of places that a question allows.
    """
    places = tuple(dict.fromkeys(options.places))
    blend = Answers(path, places)
    numbers = {number for place in places for number in blend.items[place]}
    for number in sorted(numbers):
        yield from _families(blend, declaration, number, places, seed)


def _families(
    blend: Answers,
    declaration: Declaration,
    number: str,
    places: Sequence[str],
    seed: int,
) -> Iterator[BonSet | Skip]:
    questions = _questions(blend, number, places)
    agreed = [blend.tops[place, number] for place in questions]
    tops = [top for top in agreed if top is not None and not _NAMES.search(top.text)]
    tops.sort(key=lambda top: order_key(seed, number, top.place))
    pairs = permutations(tops, 2)
    wrong = {
        (top.place, other.place): blend.is_wrong_in(other.place, number, top)
        for top, other in pairs
    }
    made = 0
    while group := _first_apart(tops, wrong):
        made += 1
        family = f"blend/{number}/en/{made}"
        shown = sorted(group, key=lambda top: order_key(seed, family, top.place))
        for top in group:
            yield BonSet(
                id=f"{family}/{top.place}",
                culture=PLACES[top.place][0],
                domain=Domain.COMMONSENSE,
                topic=blend.topics[top.place].get(number),
                language="en",
                prompt=questions[top.place],
                responses=tuple(_response(one, top) for one in shown),
                provenance=declaration.provenance(blend.source_item(number)),
                family=family,
            )
        tops = [top for top in tops if top not in group]
    if not made:
        reason = "no place agrees on an answer"
        if tops:
            reason = f"no {_SIZE} places agree on answers that exclude each other"
        yield Skip(
            source_id=number,
            reason=reason,
            language="en",
        )


def _response(answer: Top, right: Top) -> Response:
    """An answer of a family in the set whose right answer is given."""
    return Response(
        id=answer.place,
        text=answer.text,
        role=Role.CHOSEN if answer is right else Role.REJECTED,
        language="en",
        culture=PLACES[answer.place][0],
        generator="human",
        votes=answer.votes_in(right.place),
    )


def _questions(blend: Answers, number: str, places: Sequence[str]) -> dict[str, str]:
    """The question for each place; where the places' questions differ in more than the name, those
    of the most."""
    forms: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for place in places:
        item = blend.items[place].get(number)
        if item is None:
            continue
        name = place.replace("_", " ")
        question = item.en_question
        if name in question:
            forms[question.replace(name, "{}")][place] = question.strip()
    return max(forms.values(), key=len, default={})


def _first_apart(
    tops: Sequence[Top], wrong: Mapping[tuple[str, str], bool]
) -> tuple[Top, ...] | None:
    """The first group of a family's size in which each answer is wrong in every other place."""
    for group in combinations(tops, _SIZE):
        pairs = permutations(group, 2)
        if all(wrong[top.place, other.place] for top, other in pairs):
            return group
    return None
