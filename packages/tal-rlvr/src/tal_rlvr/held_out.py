"""A judge on held-out pairs: accuracy, both orders, format, the criteria's effect, entropy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from carb_data import CarbError, Frozen
from carb_metrics import mean_interval, paired_difference
from carb_scorers.models import (
    CannotError,
    Continuation,
    Failure,
    Generation,
    LanguageModel,
    Prompt,
    Writing,
)
from tal_rlvr.judge_rewards import label_logprob
from tal_rlvr.judgement import (
    MARKER,
    VERDICTS,
    FormatError,
    Judgement,
    Verdict,
    before_verdict,
    parse_judgement,
)
from tal_rlvr.masking import mask_verdict
from tal_rlvr.preferences import OrderedPair
from tal_rlvr.scorer import ThinkSettings, judge_prompt
from tal_rlvr.verdict_reading import MARK, plain

T = TypeVar("T")


class Mean(Frozen):
    """A mean with its 95% interval over source items (``carb_metrics.mean_interval``); null where
    it is not defined."""

    mean: float | None
    low: float | None
    high: float | None
    n: int


class Difference(Mean):
    """After minus before, with the two-sided p of ``carb_metrics.paired_difference`` over source
    items."""

    p: float | None


class PairOutcome(Frozen):
    """One output of the judge."""

    pair: str
    source_item: str
    label: Verdict
    verdict: Verdict | None
    """Null where none can be read."""
    well_formed: bool
    text: str
    with_criteria: float | None
    """log pi(j | q, y1, y2, z) over the two verdicts, nats, of z as it was written. This and the
    next two are null where the backend gives no probability of a given text."""
    with_masked: float | None
    """The same after z with letters and statements of the verdict masked (``mask_verdict``)."""
    without_criteria: float | None
    entropy: float | None
    """Mean entropy of the next-token distributions along the output, in nats; null where the
    backend does not say."""

    @property
    def right(self) -> float:
        """1 where the verdict is the label, 0 otherwise, no verdict included."""
        return float(self.verdict == self.label)

    @property
    def criteria_effect(self) -> float | None:
        """R_appr without a clip, of masked z; null where it is not known."""
        if self.with_masked is None or self.without_criteria is None:
            return None
        return self.with_masked - self.without_criteria


class HeldOutFigures(Frozen):
    """How a judge does on held-out pairs, each shown in both orders. Intervals are over source
    items. What the backend cannot measure has an ``n`` of 0 and is null."""

    decoding: Literal["greedy", "sample"]
    pairs: int
    accuracy: Mean
    """Verdicts that are right; no verdict counts as wrong. Chance is 0.5."""
    accuracy_parsed: Mean
    """Verdicts that are right among those that could be read."""
    consistency: Mean
    """Pairs in which the same response is picked in both orders."""
    format_rate: Mean
    """Outputs that are well-formed judgements."""
    with_criteria: Mean
    """log pi(j | z) over the two verdicts, nats, of z as it was written; chance is -0.693."""
    with_masked: Mean
    """The same of z with letters and statements of the verdict masked."""
    criteria_effect: Mean
    """R_appr without a clip, of masked z, over the two verdicts, nats."""
    entropy: Mean
    """Mean entropy of the next-token distributions along the output, in nats."""


class HeldOut(HeldOutFigures):
    """The figures with every output behind them."""

    outcomes: tuple[PairOutcome, ...]


async def evaluate_held_out(
    model: LanguageModel,
    rows: Sequence[OrderedPair],
    settings: ThinkSettings,
    *,
    decoding: Literal["greedy", "sample"] = "sample",
    seed: int = 0,
) -> HeldOut:
    """Let a judge write on every row and measure what it wrote.

    Args:
        model: the judge, on any backend.
        rows: held-out pairs in both orders, as ``ordered(pairs, shuffle=False)`` gives them.
        settings: the prompts, and how long a judgement may be.
        decoding: ``sample`` draws at temperature 1, which is the distribution that training acts
            on.
        seed: the seed of sampling; each row is sampled by itself.

    Raises:
        CarbError: a row was not answered, or a log-probability failed that the backend can give.
    """
    prompts = [
        replace(
            judge_prompt(
                settings,
                row.pair.prompt,
                (row.first, row.second),
                row.pair.culture,
                row.pair.language,
            ),
            group=number,
        )
        for number, row in enumerate(rows)
    ]
    temperature = 1.0 if decoding == "sample" else 0.0
    seeds = tuple(seed * len(rows) + number for number in range(len(rows)))
    written = await model.generate(
        prompts, Writing(settings.max_new_tokens, temperature, seed=seeds, entropy=True)
    )
    outputs = _answered(written, Generation, "held-out prompts")
    judgements = [
        parse_judgement(output.text, direct=settings.direct, lenient=not _copyable(row))
        for row, output in zip(rows, outputs, strict=True)
    ]
    reasonings = [
        *(
            _as_written(output.text, judgement)
            for output, judgement in zip(outputs, judgements, strict=True)
        ),
        *(_before_marker(mask_verdict(before_verdict(output.text)).rstrip()) for output in outputs),
        *(MARKER for _ in outputs),
    ]
    labels = [row.label for row in rows] * 3
    values = await label_logprobs(model, prompts * 3, reasonings, labels)
    outcomes = []
    for number, (row, output, judgement) in enumerate(zip(rows, outputs, judgements, strict=True)):
        written_as, as_masked, without = values[number :: len(rows)]
        outcomes.append(
            PairOutcome(
                pair=row.pair.id,
                source_item=row.pair.source_item,
                label=row.label,
                verdict=judgement.verdict,
                well_formed=isinstance(judgement, Judgement),
                text=output.text,
                with_criteria=written_as,
                with_masked=as_masked,
                without_criteria=without,
                entropy=output.entropy,
            )
        )
    return summarise(outcomes, decoding)


async def label_logprobs(
    model: LanguageModel,
    prompts: Sequence[Prompt],
    reasonings: Sequence[str],
    labels: Sequence[Verdict],
) -> list[float | None]:
    """log pi(label | z) over the two verdicts; null where the backend gives no probability of a
    given text."""
    ends = [f"{reasoning} {letter}" for reasoning in reasonings for letter in VERDICTS]
    twice = [prompt for prompt in prompts for _ in VERDICTS]
    try:
        found = await model.continuation_logprobs(twice, ends, end_of_turn=False)
    except CannotError:  # such as a chat server
        return [None for _ in labels]
    last = [
        one.logprobs[-1] for one in _answered(found, Continuation, "log-probabilities of verdicts")
    ]
    return [
        label_logprob((a, b), label)
        for a, b, label in zip(last[::2], last[1::2], labels, strict=True)
    ]


def _answered(found: Sequence[T | Failure], kind: type[T], what: str) -> list[T]:
    """All of the answers; a ``CarbError`` where there are failures among them."""
    answers = [one for one in found if isinstance(one, kind)]
    if len(answers) < len(found):
        first = next(one for one in found if isinstance(one, Failure))
        raise CarbError(
            f"{len(found) - len(answers)} of {len(found)} {what} were not answered (first: "
            f"{first.error.message})."
        )
    return answers


def _as_written(text: str, judgement: Judgement | FormatError) -> str:
    """The output up to its verdict's letter; one without form up to its first marker, which is
    added where it lacks."""
    if isinstance(judgement, Judgement):
        return f"{text[: judgement.reasoning_end]}{MARKER}"
    return _before_marker(before_verdict(text))


def _before_marker(reasoning: str) -> str:
    return f"{reasoning}\n{MARKER}" if reasoning else MARKER


def summarise(outcomes: Sequence[PairOutcome], decoding: Literal["greedy", "sample"]) -> HeldOut:
    """The means of outcomes, first within source items, then over them."""
    by_pair: dict[str, list[PairOutcome]] = defaultdict(list)
    for outcome in outcomes:
        by_pair[outcome.pair].append(outcome)
    consistent = [
        (
            one.source_item,
            float(one.right == other.right and None not in (one.verdict, other.verdict)),
        )
        for one, other in by_pair.values()
    ]

    def over_items(values: Sequence[tuple[str, float | None]]) -> Mean:
        return _estimate(
            list(by_item([(item, value) for item, value in values if value is not None]).values())
        )

    return HeldOut(
        decoding=decoding,
        pairs=len(by_pair),
        accuracy=over_items([(o.source_item, o.right) for o in outcomes]),
        accuracy_parsed=over_items(
            [(o.source_item, o.right) for o in outcomes if o.verdict is not None]
        ),
        consistency=over_items(consistent),
        format_rate=over_items([(o.source_item, float(o.well_formed)) for o in outcomes]),
        with_criteria=over_items([(o.source_item, o.with_criteria) for o in outcomes]),
        with_masked=over_items([(o.source_item, o.with_masked) for o in outcomes]),
        criteria_effect=over_items([(o.source_item, o.criteria_effect) for o in outcomes]),
        entropy=over_items([(o.source_item, o.entropy) for o in outcomes]),
        outcomes=tuple(outcomes),
    )


def compare_held_out(before: HeldOut, after: HeldOut) -> Difference:
    """Paired difference in accuracy over source items.

    Raises:
        ValueError: the two are about different rows.
    """
    rows = [[(o.pair, o.label) for o in side.outcomes] for side in (before, after)]
    if rows[0] != rows[1]:
        raise ValueError("before and after must be evaluated on the same rows in the same order")
    early, late = (
        list(by_item([(o.source_item, o.right) for o in side.outcomes]).values())
        for side in (before, after)
    )
    found = paired_difference(late, early, bounded=_are_shares([*early, *late]))
    return Difference(mean=found.estimate, low=found.low, high=found.high, n=found.n, p=found.p)


def _estimate(values: Sequence[float]) -> Mean:
    """Mean and 95% interval of independent values."""
    found = mean_interval(values, bounded=_are_shares(values))
    return Mean(mean=found.estimate, low=found.low, high=found.high, n=len(values))


def _are_shares(values: Sequence[float]) -> bool:
    return all(0 <= value <= 1 for value in values)


def by_item(values: Sequence[tuple[str, float]]) -> dict[str, float]:
    """Mean of the values of each source item, in order of first appearance."""
    groups: dict[str, list[float]] = defaultdict(list)
    for item, value in values:
        groups[item].append(value)
    return {item: sum(group) / len(group) for item, group in groups.items()}


def _copyable(row: OrderedPair) -> bool:
    """Whether a question or response holds a verdict that the judge may have copied."""
    return any(MARK.search(plain(text)) for text in (row.pair.prompt, row.first, row.second))
