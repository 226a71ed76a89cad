"""Does a perturbed version still say what its original says? Judged by an embedding model that is calibrated first.

Vectors of language models point nearly one way and differ by language, so that plain cosines tell little: each vector
is compared after the mean of its language and the spread of every dimension were taken out (Timkey and van Schijndel
2021, "All Bark and No Bite", EMNLP). Both, and the least cosine that a version needs, come from the perturbations that
carb-seed's authors wrote by hand; how well they tell good versions from bad ones is measured on the other half of them.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

from carb_data.dataset import Dataset, load
from carb_data.models import BonSet, Frozen, Perturbation, Response

__all__ = ["VersionCalibration", "calibrate", "calibration_id", "unchanged_share"]

Embed = Callable[[Sequence[str]], Awaitable[list[list[float]]]]
"""Texts to vectors."""

EVERY = 2
"""One in so many of the seed's sets with perturbations calibrates: it takes some 600 texts."""
LEAST_TEXTS = 10
"""A language with fewer texts than this has no mean of its own: versions in it cannot be verified."""
MOST_FALSE_ACCEPTS = 0.1
MOST_FALSE_REJECTS = 0.25
"""A kind whose rates are higher is not called verified."""
REFUSALS: Mapping[str, str] = {
    "ar": "عذرًا، لا يمكنني المساعدة في ذلك.",
    "de": "Leider kann ich dabei nicht helfen.",
    "en": "Sorry, I can't help with that.",
    "es": "Lo siento, no puedo ayudar con eso.",
    "ja": "申し訳ありませんが、お手伝いできません。",
    "ko": "죄송하지만 도와드릴 수 없습니다.",
    "ru": "К сожалению, я не могу с этим помочь.",
    "th": "ขออภัย ฉันช่วยเรื่องนี้ไม่ได้",
    "vi": "Xin lỗi, tôi không thể giúp việc này.",
    "zh": "抱歉，我无法帮助你。",
}
"""What a model says that does not do as asked."""

_KINDS = (Perturbation.CC, Perturbation.RP, Perturbation.CL)


class VersionCalibration(Frozen):
    """What one embedding model's cosines mean, from the seed's hand-made perturbations."""

    centres: dict[str, tuple[float, ...]]
    """Mean vector by language."""
    spread: tuple[float, ...]
    """Standard deviation of every dimension within languages."""
    least: dict[Perturbation, float]
    """Least cosine of a version to its original: halfway between the lowest of good versions and the highest of bad
    ones, 5% of each left out."""
    false_rejects: dict[Perturbation, float]
    """Share of hand-made versions of the held-out sets below ``least``."""
    false_accepts: dict[Perturbation, float]
    """Share of texts that are no versions (a refusal, the answer to another question) that reach it; held-out sets."""

    def verifies(self, kind: Perturbation, *languages: str) -> bool:
        """Whether a version of this kind that passes may be called verified."""
        return (
            kind in self.least
            and self.false_accepts[kind] <= MOST_FALSE_ACCEPTS
            and self.false_rejects[kind] <= MOST_FALSE_REJECTS
            and all(_primary(language) in self.centres for language in languages)
        )

    def cosine(self, first: tuple[Sequence[float], str], second: tuple[Sequence[float], str]) -> float:
        """Cosine of two vectors, each with the language of its text, after centring and scaling."""
        a, b = (self.standardised(vector, language) for vector, language in (first, second))
        sizes = math.hypot(*a) * math.hypot(*b)
        return sum(x * y for x, y in zip(a, b, strict=True)) / sizes if sizes else 0.0

    def standardised(self, vector: Sequence[float], language: str) -> list[float]:
        """A vector without the mean of its language, each dimension in units of its spread."""
        centre = self.centres.get(_primary(language)) or self._middle
        return [(x - c) / s if s else 0.0 for x, c, s in zip(vector, centre, self.spread, strict=True)]

    @property
    def _middle(self) -> tuple[float, ...]:
        return tuple(statistics.fmean(column) for column in zip(*self.centres.values(), strict=True))


async def calibrate(embed: Embed) -> VersionCalibration:
    """Measure an embedding model on the seed's hand-made perturbations.

    Args:
        embed: the function that gives a vector for each text.
    """
    items = _sets()
    texts: dict[str, str] = {}
    for item in items:
        texts |= {r.text: _primary(r.language) for r in (*item.responses, *item.perturbed)}
    texts |= {text: language for language, text in REFUSALS.items()}
    vectors = dict(zip(texts, await embed(list(texts)), strict=True))
    by_language: dict[str, list[list[float]]] = defaultdict(list)
    for text, language in texts.items():
        by_language[language].append(vectors[text])
    centres = {
        language: tuple(statistics.fmean(column) for column in zip(*own, strict=True))
        for language, own in by_language.items()
        if len(own) >= LEAST_TEXTS
    }
    known = [(vectors[text], centres[language]) for text, language in texts.items() if language in centres]
    squares = [statistics.fmean([(v[n] - c[n]) ** 2 for v, c in known]) for n in range(len(known[0][0]))]
    raw = VersionCalibration(
        centres=centres, spread=tuple(map(math.sqrt, squares)), least={}, false_rejects={}, false_accepts={}
    )

    def cosines(pairs: list[tuple[Response, str, str]]) -> list[float]:
        return [
            raw.cosine((vectors[own.text], own.language), (vectors[text], language))
            for own, text, language in pairs
            if _primary(language) in centres and _primary(own.language) in centres
        ]

    least, rejects, accepts = {}, {}, {}
    for kind in _KINDS:
        good, bad = (cosines(list(pairs(items[::2], kind))) for pairs in (_good, _bad))
        least[kind] = (_quantile(good, 0.05) + _quantile(bad, 0.95)) / 2
        good, bad = (cosines(list(pairs(items[1::2], kind))) for pairs in (_good, _bad))
        rejects[kind] = statistics.fmean(value < least[kind] for value in good)
        accepts[kind] = statistics.fmean(value >= least[kind] for value in bad)
    return raw.model_copy(update={"least": least, "false_rejects": rejects, "false_accepts": accepts})


def calibration_id() -> str:
    """Names the texts that calibrate: another seed calibrates again."""
    return Dataset(_sets()).fingerprint


def unchanged_share(original: str, version: str) -> float:
    """Share of the longer text with which both begin or end: near 1 where one place was changed."""
    from carb_data.ngrams import normalise

    one, other = normalise(original), normalise(version)
    size = min(len(one), len(other))
    start = next((n for n in range(size) if one[n] != other[n]), size)
    end = next((n for n in range(size - start) if one[-1 - n] != other[-1 - n]), size - start)
    return (start + end) / max(len(one), len(other), 1)


def _sets() -> list[BonSet]:
    return [item for item in load("carb-seed@2") if item.perturbed][::EVERY]


def _good(items: Sequence[BonSet], kind: Perturbation) -> Iterator[tuple[Response, str, str]]:
    for item in items:
        for version in item.perturbed:
            if version.perturbation is kind and version.original == item.chosen.id:
                yield item.chosen, version.text, version.language


def _bad(items: Sequence[BonSet], kind: Perturbation) -> Iterator[tuple[Response, str, str]]:
    """Refusals, and versions of other sets in the same two languages."""
    for item in items:
        for version in item.perturbed:
            if version.perturbation is not kind or version.original != item.chosen.id:
                continue
            refusal = REFUSALS.get(_primary(version.language))
            if refusal is not None:
                yield item.chosen, refusal, version.language
            for other in items:
                if other.id == item.id or other.language != item.language:
                    continue
                for theirs in other.perturbed:
                    if theirs.perturbation is kind and theirs.language == version.language:
                        yield item.chosen, theirs.text, theirs.language


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[round(share * (len(ordered) - 1))]


def _primary(tag: str) -> str:
    return tag.partition("-")[0].lower()
