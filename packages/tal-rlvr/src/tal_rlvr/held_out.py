"""A judge on held-out pairs: accuracy, both orders, format, the criteria's effect, entropy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Literal

from carb_data.models import Frozen
from tal_rlvr.appropriateness import VerdictRow, label_logprob
from tal_rlvr.generation import write
from tal_rlvr.judgement import Judgement, Verdict, parse_judgement
from tal_rlvr.paired import Difference, Mean, difference, estimate
from tal_rlvr.pairs import OrderedPair
from tal_rlvr.prompting import PromptConfig
from tal_rlvr.providers import ModelVerdicts
from tal_rlvr.reading import MARK, plain
from tal_rlvr.tokens import encode_prompt, masked_reasoning_ids, reasoning_ids, verdict_tokens


class PairOutcome(Frozen):
    """One output of the judge."""

    pair: str
    source_item: str
    label: Verdict
    verdict: Verdict | None
    """Null where none can be read."""
    well_formed: bool
    text: str
    with_criteria: float
    """log pi(j | q, y1, y2, z) over the two verdicts, nats, of z as it was written."""
    with_masked: float
    """The same after z with letters and statements of the verdict masked (``mask_verdict``)."""
    without_criteria: float
    entropy: float

    @property
    def right(self) -> float:
        """1 where the verdict is the label, 0 otherwise, no verdict included."""
        return float(self.verdict == self.label)


class HeldOutFigures(Frozen):
    """How a judge does on held-out pairs, each shown in both orders. Intervals are over source items."""

    decoding: Literal["greedy", "sample"]
    pairs: int
    accuracy: Mean
    """Verdicts that are right; no verdict counts as wrong. Chance is 0.5."""
    accuracy_parsed: Mean
    """Verdicts that are right among those that could be read."""
    accuracy_better_first: Mean
    accuracy_better_second: Mean
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


def evaluate_held_out(
    model: Any,
    tokenizer: Any,
    rows: Sequence[OrderedPair],
    prompts: PromptConfig,
    *,
    max_new_tokens: int,
    decoding: Literal["greedy", "sample"] = "sample",
    direct: bool = False,
    seed: int = 0,
) -> HeldOut:
    """Let a judge write on every row and measure what it wrote.

    Args:
        rows: held-out pairs in both orders, as ``ordered(pairs, shuffle=False)`` gives them.
        decoding: ``sample`` draws at temperature 1, which is the distribution that training acts on.
    """
    from tal_rlvr.trainer import training_rows  # needs TRL

    encoded = [
        tuple(encode_prompt(tokenizer, row["prompt"])) for row in training_rows(rows, tokenizer, prompts, direct=direct)
    ]
    temperature = 1.0 if decoding == "sample" else None
    written = write(model, tokenizer, encoded, max_new_tokens=max_new_tokens, temperature=temperature, seed=seed)
    tokens = verdict_tokens(tokenizer)
    suffixes = [reasoning_ids(tokenizer, output.ids, tokens, direct=direct) for output in written]
    queries = [VerdictRow(prompt, suffix) for prompt, suffix in zip(encoded, suffixes, strict=True)]
    masked = [
        VerdictRow(prompt, masked_reasoning_ids(tokenizer, output.text, tokens))
        for prompt, output in zip(encoded, written, strict=True)
    ]
    bare = [VerdictRow(prompt, tokens.marker) for prompt in encoded]
    values = ModelVerdicts(model, tokens)([*queries, *masked, *bare])
    outcomes = []
    for number, (row, output) in enumerate(zip(rows, written, strict=True)):
        judgement = parse_judgement(output.text, direct=direct, lenient=not _copyable(row))
        written_as, as_masked, without = (label_logprob(values[number + n * len(rows)], row.label) for n in range(3))
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


def summarise(outcomes: Sequence[PairOutcome], decoding: Literal["greedy", "sample"]) -> HeldOut:
    """The means of outcomes, first within source items, then over them."""
    by_pair: dict[str, list[PairOutcome]] = defaultdict(list)
    for outcome in outcomes:
        by_pair[outcome.pair].append(outcome)
    consistent = [
        (orders[0].source_item, float(len(orders) == 2 and orders[0].right == orders[1].right and _all_parsed(orders)))
        for orders in by_pair.values()
    ]

    def over_items(values: Sequence[tuple[str, float]]) -> Mean:
        return estimate(list(by_item(values).values()))

    return HeldOut(
        decoding=decoding,
        pairs=len(by_pair),
        accuracy=over_items([(o.source_item, o.right) for o in outcomes]),
        accuracy_parsed=over_items([(o.source_item, o.right) for o in outcomes if o.verdict is not None]),
        accuracy_better_first=over_items([(o.source_item, o.right) for o in outcomes if o.label == "A"]),
        accuracy_better_second=over_items([(o.source_item, o.right) for o in outcomes if o.label == "B"]),
        consistency=over_items(consistent),
        format_rate=over_items([(o.source_item, float(o.well_formed)) for o in outcomes]),
        with_criteria=over_items([(o.source_item, o.with_criteria) for o in outcomes]),
        with_masked=over_items([(o.source_item, o.with_masked) for o in outcomes]),
        criteria_effect=over_items([(o.source_item, o.with_masked - o.without_criteria) for o in outcomes]),
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
    early, late = (by_item([(o.source_item, o.right) for o in side.outcomes]) for side in (before, after))
    return difference(list(early.values()), list(late.values()))


def by_item(values: Sequence[tuple[str, float]]) -> dict[str, float]:
    """Mean of the values of each source item, in order of first appearance."""
    groups: dict[str, list[float]] = defaultdict(list)
    for item, value in values:
        groups[item].append(value)
    return {item: sum(group) / len(group) for item, group in groups.items()}


def _copyable(row: OrderedPair) -> bool:
    """Whether a question or response holds a verdict that the judge may have copied."""
    return any(MARK.search(plain(text)) for text in (row.pair.prompt, row.first, row.second))


def _all_parsed(outcomes: Sequence[PairOutcome]) -> bool:
    return all(outcome.verdict is not None for outcome in outcomes)
