"""Shortcuts: how far length, language, label or position alone tell the chosen response."""

from __future__ import annotations

import math
import statistics
import unicodedata
from collections.abc import Sequence
from typing import Literal, get_args

from carb_data.checks.report import Leak
from carb_data.checks.texts import Spoken
from carb_data.labels import names_culture
from carb_data.models import BonSet, Role

Feature = Literal["longest", "shortest", "overlap", "punctuation", "language", "label", "first"]
FEATURES: tuple[Feature, ...] = get_args(Feature)
_Z = statistics.NormalDist().inv_cdf(0.975)


def _features(item: BonSet, spoken: Spoken) -> dict[Feature, list[float]]:
    """Each feature's value for each response: the rule picks the largest."""
    texts = [response.text for response in item.responses]
    asked = _trigrams(item.prompt_text)
    return {
        "longest": [float(len(text)) for text in texts],
        "shortest": [-float(len(text)) for text in texts],
        "overlap": [_share(_trigrams(text), asked) for text in texts],
        "punctuation": [float(sum(unicodedata.category(c)[0] == "P" for c in text)) for text in texts],
        "language": [float(spoken[text, item.language]) for text in texts],
        "label": [float(names_culture(text, item.culture)) for text in texts],
        "first": [-float(place) for place in range(len(texts))],
    }


def _trigrams(text: str) -> frozenset[str]:
    words = " ".join(text.casefold().split())
    return frozenset(words[start : start + 3] for start in range(len(words) - 2))


def _share(part: frozenset[str], whole: frozenset[str]) -> float:
    return len(part & whole) / len(part) if part else 0.0


def find_leaks(items: Sequence[BonSet], spoken: Spoken) -> list[Leak]:
    """Every feature over all sets, then for every culture by itself."""
    values = [_features(item, spoken) for item in items]
    leaks = []
    for culture in (None, *sorted({item.culture for item in items})):
        places = [place for place, item in enumerate(items) if culture in (None, item.culture)]
        own = [items[place] for place in places]
        leaks += [_leak(name, culture, own, [values[place][name] for place in places]) for name in FEATURES]
    return leaks


def _leak(name: Feature, culture: str | None, items: Sequence[BonSet], values: Sequence[Sequence[float]]) -> Leak:
    if not items:
        return Leak(feature=name, culture=culture, accuracy=None, low=None, high=None, chance=None, effect=None, n=0)
    wins = []
    chosen: list[float] = []
    rejected: list[float] = []
    for item, row in zip(items, values, strict=True):
        best = [r.role is Role.CHOSEN for r, value in zip(item.responses, row, strict=True) if value == max(row)]
        wins.append(sum(best) / len(best))
        for response, value in zip(item.responses, row, strict=True):
            (chosen if response.role is Role.CHOSEN else rejected).append(value)
    accuracy = statistics.fmean(wins)
    low, high = wilson(accuracy, len(items))
    return Leak(
        feature=name,
        culture=culture,
        accuracy=accuracy,
        low=low,
        high=high,
        chance=statistics.fmean(1 / len(item.responses) for item in items),
        effect=cohen_d(chosen, rejected),
        n=len(items),
    )


def wilson(share: float, n: int) -> tuple[float, float]:
    """95% score interval of a share of ``n`` independent trials (Wilson 1927); shares of ties count as they are."""
    centre = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def cohen_d(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Difference of means over the pooled standard deviation (Cohen 1988, section 2.2); None where that is 0."""
    degrees = len(first) + len(second) - 2
    if degrees < 1:
        return None
    mean_first, mean_second = statistics.fmean(first), statistics.fmean(second)
    squares = sum((x - mean_first) ** 2 for x in first) + sum((x - mean_second) ** 2 for x in second)
    return (mean_first - mean_second) / math.sqrt(squares / degrees) if squares > 0 else None
