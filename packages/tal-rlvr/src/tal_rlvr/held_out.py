"""A judge on held-out pairs: accuracy, both orders, format, the criteria's effect, entropy."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from carb_data import CarbError, Frozen
from carb_metrics import Interval, mean_interval, paired_difference
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
    MARK,
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

T = TypeVar("T")


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
    """The same after z with letters of the verdict masked (``mask_verdict``)."""
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
    """How a judge does on held-out pairs, each shown in both orders. Means have 95% intervals over
    source items. A number that the backend cannot measure has an ``n`` of 0 and is null."""

    decoding: Literal["greedy", "sample"]
    pairs: int
    accuracy: Interval
    """Verdicts that are right; no verdict counts as wrong. Chance is 0.5."""
    accuracy_parsed: Interval
    """Verdicts that are right among those that could be read."""
    consistency: Interval
    """Pairs in which the same response is picked in both orders."""
    format_rate: Interval
    """Outputs that are well-formed judgements."""
    with_criteria: Interval
    """log pi(j | z) over the two verdicts, nats, of z as it was written; chance is -0.693."""
    with_masked: Interval
    """The same of z with letters of the verdict masked."""
    criteria_effect: Interval
    """R_appr without a clip, of masked z, over the two verdicts, nats."""
    entropy: Interval
    """Mean entropy of the next-token distributions along the output, in nats."""


class HeldOut(HeldOutFigures):
    """The figures with every output behind them."""

    outcomes: tuple[PairOutcome, ...]


Named = tuple[str, HeldOut]
"""A stage and its evaluation."""


async def evaluate_held_out(
    model: LanguageModel,
    rows: Sequence[OrderedPair],
    settings: ThinkSettings,
    *,
    decoding: Literal["greedy", "sample"] = "sample",
    seed: int = 0,
) -> HeldOut:
    """Let a judge write on every row, and measure its texts.

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
    prompts = _asked(rows, settings)
    temperature = 0.0
    if decoding == "sample":
        temperature = 1.0
    seeds = tuple(seed * len(rows) + number for number in range(len(rows)))
    written = await model.generate(
        prompts, Writing(settings.max_new_tokens, temperature, seed=seeds, entropy=True)
    )
    outputs = _answered(written, Generation, "held-out prompts")
    judgements = [
        parse_judgement(output.text, direct=settings.direct, lenient=not _copyable(row))
        for row, output in zip(rows, outputs, strict=True)
    ]
    readings = await _readings(model, prompts, rows, outputs, judgements)
    outcomes = [
        PairOutcome(
            pair=row.pair.id,
            source_item=row.pair.source_item,
            label=row.label,
            verdict=judgement.verdict,
            well_formed=isinstance(judgement, Judgement),
            text=output.text,
            with_criteria=as_written,
            with_masked=as_masked,
            without_criteria=without,
            entropy=output.entropy,
        )
        for row, output, judgement, (as_written, as_masked, without) in zip(
            rows, outputs, judgements, readings, strict=True
        )
    ]
    return summarise(outcomes, decoding)


def _asked(rows: Sequence[OrderedPair], settings: ThinkSettings) -> list[Prompt]:
    """The prompts, each in a group of its own."""
    prompts = []
    for number, row in enumerate(rows):
        shown = (row.first, row.second)
        prompt = judge_prompt(settings, row.pair, shown, row.pair.culture)
        prompts.append(replace(prompt, group=number))
    return prompts


async def _readings(
    model: LanguageModel,
    prompts: Sequence[Prompt],
    rows: Sequence[OrderedPair],
    outputs: Sequence[Generation],
    judgements: Sequence[Judgement | FormatError],
) -> list[tuple[float | None, ...]]:
    """log pi(label) of each row behind z as written, behind z masked, and without z."""
    texts = [output.text for output in outputs]
    masked = [mask_verdict(before_verdict(text)).rstrip() for text in texts]
    reasonings = [
        *map(_as_written, texts, judgements),
        *map(_before_marker, masked),
        *(MARKER for _ in outputs),
    ]
    labels = [row.label for row in rows] * 3
    values = await label_logprobs(model, [*prompts] * 3, reasonings, labels)
    count = len(rows)
    as_written = values[:count]
    as_masked = values[count : 2 * count]
    return list(zip(as_written, as_masked, values[2 * count :], strict=True))


async def label_logprobs(
    model: LanguageModel,
    prompts: Sequence[Prompt],
    reasonings: Sequence[str],
    labels: Sequence[Verdict],
) -> list[float | None]:
    """log pi(label | z) over the two verdicts; null where the backend gives no probability of a
    given text."""
    ends: list[str] = []
    twice: list[Prompt] = []
    for prompt, reasoning in zip(prompts, reasonings, strict=True):
        for letter in VERDICTS:
            ends.append(f"{reasoning} {letter}")
            twice.append(prompt)
    try:
        continuations = await model.continuation_logprobs(twice, ends, end_of_turn=False)
    except CannotError:  # such as a chat server
        return [None for _ in labels]
    answers = _answered(continuations, Continuation, "log-probabilities of verdicts")
    last = [one.logprobs[-1] for one in answers]
    pairs = zip(last[::2], last[1::2], strict=True)
    return [label_logprob(pair, label) for pair, label in zip(pairs, labels, strict=True)]


def _answered(results: Sequence[T | Failure], kind: type[T], what: str) -> list[T]:
    """All of the answers; a ``CarbError`` where there are failures among them."""
    answers = [one for one in results if isinstance(one, kind)]
    if len(answers) < len(results):
        first = next(one for one in results if isinstance(one, Failure))
        raise CarbError(
            f"{len(results) - len(answers)} of {len(results)} {what} were not answered (first: "
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
    if not reasoning:
        return MARKER
    return f"{reasoning}\n{MARKER}"


def summarise(outcomes: Sequence[PairOutcome], decoding: Literal["greedy", "sample"]) -> HeldOut:
    """The means of outcomes, first within source items, then over them."""
    by_pair: dict[str, list[PairOutcome]] = defaultdict(list)
    for outcome in outcomes:
        by_pair[outcome.pair].append(outcome)
    consistent: list[tuple[str, float | None]] = []
    for one, other in by_pair.values():
        both_read = None not in (one.verdict, other.verdict)
        same = both_read and one.right == other.right
        consistent.append((one.source_item, float(same)))

    def mean(value: Callable[[PairOutcome], float | None], *, share: bool = True) -> Interval:
        values = [(outcome.source_item, value(outcome)) for outcome in outcomes]
        return _over_items(values, share=share)

    return HeldOut(
        decoding=decoding,
        pairs=len(by_pair),
        accuracy=mean(lambda o: o.right),
        accuracy_parsed=mean(lambda o: None if o.verdict is None else o.right),
        consistency=_over_items(consistent),
        format_rate=mean(lambda o: float(o.well_formed)),
        with_criteria=mean(lambda o: o.with_criteria, share=False),
        with_masked=mean(lambda o: o.with_masked, share=False),
        criteria_effect=mean(lambda o: o.criteria_effect, share=False),
        entropy=mean(lambda o: o.entropy, share=False),
        outcomes=tuple(outcomes),
    )


def compare_held_out(before: HeldOut, after: HeldOut) -> Interval:
    """Accuracy after minus before, of the same rows, paired by source item."""
    late, early = (
        item_means([(one.source_item, one.right) for one in side.outcomes])
        for side in (after, before)
    )
    paired = paired_difference(late, early)
    return Interval.model_validate(paired.model_dump(include={*Interval.model_fields}))


def _over_items(values: Sequence[tuple[str, float | None]], *, share: bool = True) -> Interval:
    """Mean and 95% interval over source items, of the values that are known."""
    known = [(item, value) for item, value in values if value is not None]
    means = item_means(known)
    return mean_interval(means, bounded=share).changed(n=len(means))


def item_means(values: Sequence[tuple[str, float]]) -> list[float]:
    """Mean of the values of each source item, in order of first appearance."""
    groups: dict[str, list[float]] = defaultdict(list)
    for item, value in values:
        groups[item].append(value)
    return [sum(group) / len(group) for group in groups.values()]


def _copyable(row: OrderedPair) -> bool:
    """Whether a question or response holds a verdict that the judge may have copied."""
    texts = (row.pair.prompt, row.first, row.second)
    return any(map(MARK.search, texts))
