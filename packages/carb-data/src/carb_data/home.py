"""The home line: the accuracy of "always the home's answer", which reads no question."""

import statistics
from collections import defaultdict
from collections.abc import Iterable

from carb_data.language import primary, same_language
from carb_data.models import BonSet, Frozen
from carb_data.registry import cultures, is_mirror


class HomeLine(Frozen):
    """The accuracy of a rule that knows where each answer is right, but not the question.

    The rule picks an answer of home: one that is right where the set's language is spoken.
    """

    accuracy: float | None
    """Share of sets, from 0 to 1, in which the rule picks the right answer. Of k answers of home it
    picks each with chance 1/k; without one, it picks among all. Null where no set counts."""
    n: int
    """Main sets in which every answer names its place (``Response.culture``)."""


def home_line(items: Iterable[BonSet]) -> HomeLine:
    """The home line of the main sets among these; sets that are mirrors are left out.

    An answer is of home where the main language of its culture is the set's language. A variety
    (``german-at``) counts as the culture into which it rolls up.
    """
    shares = [
        _share(item)
        for item in items
        if item.responses[0].culture
        and not is_mirror(item)
        and all(one.culture in cultures for one in item.responses)
    ]
    accuracy = None
    if shares:
        accuracy = statistics.fmean(shares)
    return HomeLine(accuracy=accuracy, n=len(shares))


def home_lines(items: Iterable[BonSet]) -> dict[str, HomeLine]:
    """The home line of each language, by its primary tag; languages without one are left out."""
    of_language: defaultdict[str, list[BonSet]] = defaultdict(list)
    for item in items:
        language = primary(item.language)
        of_language[language].append(item)
    lines = {}
    for language, sets in sorted(of_language.items()):
        line = home_line(sets)
        if line.n:
            lines[language] = line
    return lines


def _share(item: BonSet) -> float:
    """1 where the right answer alone is of home, 1/k where k answers are, else 0."""
    at_home = [
        response
        for response in item.responses
        if same_language(cultures.root(str(response.culture)).language, item.language)
    ]
    picked = at_home or item.responses
    return (item.chosen in picked) / len(picked)
