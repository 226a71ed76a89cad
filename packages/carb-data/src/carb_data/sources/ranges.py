"""Is a number, time or date a clearly wrong answer? Ranges are compared, with the question's own unit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from carb_data.sources.answers import Kind

__all__ = ["asks_for_money", "asks_for_month", "clearly_outside"]

Span = tuple[Kind, float, float]

_MONEY = re.compile(
    r"\b(?:how much|cost|costs|price|prices|salary|salaries|wages?|income|pay|paid|spend|spent|money|budget|fees?|"
    r"rent|tips?|allowance|pensions?|earn|afford|fines?|tax|taxes|expens\w+|currency|tuition|worth|charge|charged|loans?|deposit|"
    r"won|yuan|dollars?|euros?|pounds?|pesos?)\b"
)
_NOT_MONEY = re.compile(r"\bhow much (?:time|sleep|water|rice|homework|of)\b|\bpaid (?:leave|vacation|holiday|time)\b")
_MONTH = re.compile(r"\b(?:which|what|in what|in which) month\b|\(1\s*[~-]\s*12\)")

FACTOR = 1.25
UNITS = 1.0
"""How many times, and by more than how many units, a number must be beyond the people's own range: three years of study
pass for right beside four."""
MINUTES = 60.0
DAYS = 7.0
MONTHS = 1.0
"""How far a time, a date and a month must be from the people's own range; nearer ones could pass for right."""
_DAY, _YEAR = 24 * 60.0, 365.0
_BEFORE_MONTH = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


def asks_for_money(question: str) -> bool:
    """Whether an English question asks for an amount of money, whose currency a bare number does not say."""
    plain = question.casefold()
    return _MONEY.search(_NOT_MONEY.sub(" ", plain)) is not None


def asks_for_month(question: str) -> bool:
    """Whether an English question asks for a month by its number."""
    return _MONTH.search(question.casefold()) is not None


def clearly_outside(lent: Sequence[Span], own: Iterable[Span], *, month: bool = False) -> bool:
    """Whether every number of another place's answer lies clearly outside the range that the people here gave.

    The range spans from the least to the greatest that anybody here gave, whether or not others agreed. Times and dates
    go round: midnight is near one o'clock, December near January.

    Args:
        lent: spans of the other place's answer; without any, nothing speaks against it.
        own: spans of all answers given here.
        month: Whether the numbers are months.
    """
    held = list(own)
    for kind, low, high in lent:
        mine = [(least, most) for form, least, most in held if form == kind]
        if mine and not _outside(kind, (low, high), (min(a for a, _ in mine), max(b for _, b in mine)), month=month):
            return False
    return True


def _outside(kind: Kind, lent: tuple[float, float], own: tuple[float, float], *, month: bool) -> bool:
    if kind == "time":
        return _gap(lent, own, _DAY) > MINUTES
    if kind == "date":
        return _gap((_day(lent[0]), _day(lent[1])), (_day(own[0]), _day(own[1])), _YEAR) > DAYS
    if month:
        return _gap(lent, own, 12.0) > MONTHS
    return _beyond(lent[0], own[1]) or _beyond(own[0], lent[1])


def _beyond(greater: float, smaller: float) -> bool:
    return greater > smaller * FACTOR and greater - smaller > UNITS


def _day(month_day: float) -> float:
    month, day = divmod(month_day, 100)
    return _BEFORE_MONTH[min(12, max(1, int(month))) - 1] + day


def _gap(one: tuple[float, float], other: tuple[float, float], cycle: float) -> float:
    """The distance between two ranges on a circle; 0 where they meet."""
    return min(max(0.0, other[0] - (one[1] + turn), (one[0] + turn) - other[1]) for turn in (-cycle, 0.0, cycle))
