"""R_appr: how much the criteria raise the probability of the true verdict; and the whole reward R."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol

from carb_data import CarbError
from tal_rlvr.judgement import FormatError, Judgement, Verdict, check_label

CLIP = 0.5
"""Default bound on the absolute value of R_appr, in nats.

The logarithm punishes a misleading criterion more than it pays a helpful one, so without a bound outputs that say
nothing (R_appr = 0) earn more than honest ones below 80 to 90% accuracy. With a bound c honest work earns more from
accuracy a on when ``a min(c, log 2f) > (1 - a) min(c, -log 2(1 - f))``, where f is the verdict's probability after
criteria that point to it; for c = 0.5 and f >= 0.76 that is every a >= 0.55.
"""


class VerdictRow(NamedTuple):
    """Token ids up to where a verdict's letter stands, in two parts. Rows of one prompt share their prefix."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]


class VerdictLogprobs(Protocol):
    """A source of verdict log-probabilities; see ``tal_rlvr.providers`` for transformers, trainers and servers."""

    def __call__(self, rows: Sequence[VerdictRow]) -> list[tuple[float, float]]:
        """Natural log-probabilities of the verdicts A and B after each row, over the whole vocabulary."""
        ...


class CriteriaCase(NamedTuple):
    """One output of the judge, ready to be measured."""

    with_criteria: VerdictRow
    """Question, responses, z."""
    without_criteria: VerdictRow | None
    """Question and responses alone; ``None`` leaves the z-free term out."""
    label: Verdict
    paid: bool = True
    """False where the output has no criteria worth the name (a ``FormatError``): it earns the lowest R_appr."""


class Appropriateness(NamedTuple):
    """R_appr and its two terms, natural logarithms."""

    value: float
    with_criteria: float
    """log pi(j | q, y1, y2, z)"""
    without_criteria: float
    """log pi(j | q, y1, y2); 0 where it was left out."""


class BaselineCache:
    """z-free terms by question and order, while the policy that they belong to is current."""

    def __init__(self) -> None:
        self._version: Hashable = None
        self._values: dict[VerdictRow, tuple[float, float]] = {}

    def use(self, version: Hashable) -> None:
        """Forget everything when ``version`` (of the policy) is another one than before."""
        if version != self._version:
            self._version = version
            self._values.clear()

    def missing(self, rows: Sequence[VerdictRow | None]) -> list[VerdictRow]:
        """Distinct rows that are not known yet, in order."""
        return [row for row in dict.fromkeys(rows) if row is not None and row not in self._values]

    def add(self, rows: Sequence[VerdictRow], values: Sequence[tuple[float, float]]) -> None:
        """Keep the log-probabilities of A and B of each row."""
        self._values.update(zip(rows, values, strict=True))

    def __getitem__(self, row: VerdictRow) -> tuple[float, float]:
        return self._values[row]

    def __len__(self) -> int:
        return len(self._values)


def criteria_reward(
    cases: Sequence[CriteriaCase],
    provider: VerdictLogprobs,
    *,
    normalise: bool = True,
    clip: float | None = CLIP,
    cache: BaselineCache | None = None,
) -> list[Appropriateness]:
    """R_appr of Think-as-Locals (Zhang et al. 2025, section 5), by teacher forcing on the verdict's token.

    ``R_appr = log pi(j | q, y1, y2, z) - log pi(j | q, y1, y2)`` with j the true verdict.

    The paper's literal form takes probabilities over the whole vocabulary (``normalise=False``). The z-free term
    then also measures how unlikely *any* verdict is at a place where criteria are expected, which rewards writing
    the format; the default therefore normalises over the two verdicts, so that only their ratio counts.

    Args:
        cases: the outputs to measure, each with its prompt and its right verdict.
        provider: the provider of log-probabilities; it is called once, with the z-free rows that are not cached
            followed by the rows with criteria.
        normalise: whether to take probabilities over the two verdicts instead of the whole vocabulary.
        clip: bound on the absolute value, in nats; null is the paper's form, which can be farmed (see ``CLIP``).
        cache: the cache that keeps z-free terms between calls (``BaselineCache``).

    Returns:
        One per case. A case that is not ``paid`` has ``-clip`` as its value, or without a clip what it measures where
        that is below 0, else 0.

    Raises:
        CarbError: a log-probability is NaN or infinity, or R_appr is no finite number. A probability of exactly 0 (a
            log-probability of minus infinity) on one side alone earns the clip.
    """
    if clip is not None and not clip > 0:
        raise ValueError(f"clip must be above 0, got {clip}")
    known = BaselineCache() if cache is None else cache
    new = known.missing([case.without_criteria for case in cases])
    values = provider([*new, *(case.with_criteria for case in cases)])
    known.add(new, values[: len(new)])
    rewards = []
    for number, (case, pair) in enumerate(zip(cases, values[len(new) :], strict=True), 1):
        check_label(case.label, number)
        given = label_logprob(pair, case.label, normalise=normalise)
        base = None if case.without_criteria is None else known[case.without_criteria]
        bare = 0.0 if base is None else label_logprob(base, case.label, normalise=normalise)
        if not all(one < math.inf for one in (*pair, *(base or ()))):  # NaN is not below it either
            raise CarbError(
                f"R_appr of case {number}: the log-probabilities of A and B are {pair} with the criteria"
                + ("." if base is None else f" and {base} without.")
                + " The model or its provider is broken: look for NaN in its weights and logits."
            )
        value = _bounded(given - bare, clip, f"R_appr of case {number}")
        if not case.paid:
            value = min(0.0, value) if clip is None else -clip
        rewards.append(Appropriateness(value, given, bare))
    return rewards


def _bounded(value: float, clip: float | None, what: str) -> float:
    """The value within the clip. ``max(-clip, min(clip, nan))`` is the clip, so NaN is refused before."""
    bounded = value if clip is None or math.isnan(value) else max(-clip, min(clip, value))
    if not math.isfinite(bounded):
        hint = "It cannot be a reward." if math.isnan(value) else "Give a clip, which bounds it."
        raise CarbError(f"{what} is {value}. {hint}")
    return bounded


def label_logprob(pair: tuple[float, float], label: Verdict, *, normalise: bool = True) -> float:
    """Natural log-probability of the label, over the two verdicts or as it is."""
    own, other = pair if label == "A" else pair[::-1]
    if not normalise:
        return own
    # log(p / (p + q)) = -log(1 + exp(log q - log p)), stable on both sides
    gap = other - own
    return -gap - math.log1p(math.exp(-gap)) if gap > 0 else -math.log1p(math.exp(gap))


def format_reward(judgements: Sequence[Judgement | FormatError]) -> list[float]:
    """1 for a well-formed judgement, 0 otherwise. Not in the paper; its weight in ``total_reward`` is 0."""
    return [1.0 if isinstance(judgement, Judgement) else 0.0 for judgement in judgements]


def total_reward(
    correctness: Sequence[float],
    criteria: Sequence[float | Appropriateness],
    *,
    weight: float = 1.0,
    clip: float | None = None,
    formats: Sequence[float] | None = None,
    format_weight: float = 0.0,
) -> list[float]:
    """R = R_corr + lambda * R_appr (Zhang et al. 2025, section 5), with an optional clip and format reward.

    Args:
        correctness: R_corr of each output.
        criteria: R_appr of each output.
        weight: lambda. The paper's value is not known to us; 1 is ours.
        clip: bound on the absolute value of R_appr before weighing, in nats.
        formats: ``format_reward`` of each output; needed when ``format_weight`` is not 0.
        format_weight: the weight of the format reward; off (0) by default, as in the paper.

    Raises:
        ValueError: lengths differ.
        CarbError: a reward is NaN, or infinite and without a clip.
    """
    values = [
        _bounded(entry.value if isinstance(entry, Appropriateness) else entry, clip, f"R_appr of output {number}")
        for number, entry in enumerate(criteria, 1)
    ]
    extra = [0.0] * len(values) if formats is None or format_weight == 0 else list(formats)
    return [
        _bounded(right + weight * value + format_weight * form, None, f"R of output {number}")
        for number, (right, value, form) in enumerate(zip(correctness, values, extra, strict=True), 1)
    ]
