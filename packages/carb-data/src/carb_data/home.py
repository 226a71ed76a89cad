"""The home line: the accuracy of "always the home's answer", which reads no question."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable

from carb_data.language import same_language
from carb_data.models import BonSet, Frozen
from carb_data.registry import cultures, is_mirror

__all__ = ["HomeLine", "home_line", "home_lines"]


class HomeLine(Frozen):
    """The accuracy of a rule that knows where each answer is right, but not the question."""

    accuracy: float | None
    """Share of sets in which the home's answer is right. Of k answers of home each counts 1/k;
    without one, all answers count alike. Null where no set counts."""
    n: int
    """Main sets in which every answer names its place (``Response.culture``)."""


def home_line(items: Iterable[BonSet]) -> HomeLine:
    """The home line of the main sets among these.

    Home are the answers whose culture's root speaks the set's language.
    """
    shares = [
        _share(item)
        for item in items
        if not is_mirror(item) and all(one.culture in cultures for one in item.responses)
    ]
    return HomeLine(accuracy=statistics.fmean(shares) if shares else None, n=len(shares))


def home_lines(items: Iterable[BonSet]) -> dict[str, HomeLine]:
    """The home line of each language, by its primary tag; languages without one are left out."""
    of_language: defaultdict[str, list[BonSet]] = defaultdict(list)
    for item in items:
        language = item.language.partition("-")[0]
        of_language[language.lower()].append(item)
    lines = {}
    for language, sets in sorted(of_language.items()):
        line = home_line(sets)
        if line.n:
            lines[language] = line
    return lines


def _share(item: BonSet) -> float:
    """1 where the right answer alone is of home, 1/k where k answers are, else 0."""
    at_home = []
    for response in item.responses:
        home = cultures.root(str(response.culture))
        if same_language(home.language, item.language):
            at_home.append(response)
    picked = at_home or item.responses
    return (item.chosen in picked) / len(picked)
