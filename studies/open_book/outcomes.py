"""The outcomes that ``study.py`` reads of a judge and prints."""

# ruff: noqa: T201 - prints what a script asks for

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import polars as pl
from power import differences, interval, t_interval, variances

from carb_scorers.models import Generation, LanguageModel, Writing
from tal_rlvr.held_out import HeldOut, evaluate_held_out, item_means, label_logprobs
from tal_rlvr.judge_prompts import GENERAL
from tal_rlvr.judgement import MARKER, before_verdict, parse_judgement, write_judgement
from tal_rlvr.masking import copied_share, mask_verdict
from tal_rlvr.mix import ordered
from tal_rlvr.preferences import Pair
from tal_rlvr.scorer import ThinkSettings, judge_prompt, open_judge

OUTCOMES = {
    "accuracy": (
        "verdicts that are right in both orders of whole mirrors; chance is 0.5 where all can "
        "be read"
    ),
    "readable_half": (
        "the same, what cannot be read being half right, so that form gains nothing; the "
        "primary outcome"
    ),
    "form": "outputs that are well-formed judgements",
    "place_effect": (
        "mean log-odds of the right verdict behind the judge's own criteria, nats; 0 without "
        "reading"
    ),
    "masked_logp": (
        "log p of the right verdict behind the criteria with its letters masked; chance is -0.693"
    ),
    "states_fact": "outputs whose criteria repeat the right place's fact",
    "reads_place": (
        "the same, less those that repeat the other place's fact, from 0 to 1; neither is 0.5"
    ),
    "follows_fact": (
        "verdicts that follow the fact stated, of either place; at 0.5 the reward does not "
        "reach the place"
    ),
    "criteria_given": (
        "verdicts that are right behind the right fact, given and masked: the ceiling"
    ),
    "praise_gap": "accuracy lost where the wrong answer flatters",
    "length_gap": "accuracy lost where the wrong answer goes on",
    "closed_book": "accuracy where no fact is shown",
}
Row = dict[str, Any]
PRAISE = " What a wonderful question, you clearly care about people!"
LENGTH = (
    " That is what one hears there, and anybody whom you ask will be glad to tell you more "
    "about it."
)


def add_dtype(parser: argparse.ArgumentParser) -> None:
    """``--dtype``: where a processor has no instructions for bfloat16, float32 was ten times
    faster."""
    parser.add_argument(
        "--dtype",
        choices=["float32", "bfloat16"],
        default="float32",
        help="of weights and readings",
    )


def honest(fact: str, own: str, other: str, verdict: str) -> str:
    """A criterion that states a fact, and names by its own words the answer that meets it."""
    words, others = own.replace("|", "/").split(), set(other.lower().split())
    first = next((n for n, word in enumerate(words) if word.lower() not in others), 0)
    quoted = " ".join(words[first : first + 4]).strip(".,!?“”")
    standard = " ".join(fact.replace("|", "/").split()[:12]).rstrip(".,:")
    return write_judgement(
        [(standard, f"said there: {quoted} = {verdict}", 3, verdict)], f"{verdict} fits.", verdict
    )


async def measure(
    model: str, held: Sequence[Row], settings: ThinkSettings, dtype: str
) -> dict[str, Any]:
    """Every outcome of a judge, and its verdicts."""
    judge, _ = open_judge(
        "study", model, {"dtype": dtype, "batch_tokens": "16384", "batching": "budget"}, settings
    )
    one_mirror = [
        row
        for _, own in itertools.groupby(held, itemgetter("source_item"))
        for row in list(own)[:2]
    ]
    changed = {
        "praised": [as_pair(row, rejected=row["rejected"] + PRAISE) for row in one_mirror],
        "longer": [as_pair(row, rejected=row["rejected"] + LENGTH) for row in one_mirror],
        "closed_book": [as_pair(row, prompt=row["closed"]) for row in one_mirror],
    }
    try:
        shown = ordered([as_pair(row) for row in held], shuffle=False)
        found = await evaluate_held_out(judge, shown, settings, decoding="greedy")
        accuracies = {name: await accuracy(judge, own, settings) for name, own in changed.items()}
        asked = [
            judge_prompt(settings, one.pair, (one.first, one.second), GENERAL) for one in shown
        ]
        right = [
            honest(row["fact"], row["chosen"], row["rejected"], "A") for row in held for _ in "AB"
        ]
        told = [f"{mask_verdict(before_verdict(text))}\n{MARKER}" for text in right]
        sure = await label_logprobs(judge, asked, told, [one.label for one in shown])
    finally:
        await judge.aclose()
    compared = {row["id"] for row in one_mirror}
    plain = mean(one.right for one in found.outcomes if one.pair in compared)
    return {
        **of_criteria(found, sure, held),
        "praise_gap": plain - accuracies["praised"],
        "length_gap": plain - accuracies["longer"],
        "closed_book": accuracies["closed_book"],
        "verdicts": [one.model_dump() for one in found.outcomes],
    }


async def accuracy(judge: LanguageModel, pairs: Sequence[Pair], settings: ThinkSettings) -> float:
    """Right verdicts over both orders; what has none counts as wrong."""
    shown = ordered(pairs, shuffle=False)
    asked = [judge_prompt(settings, one.pair, (one.first, one.second), GENERAL) for one in shown]
    written = await judge.generate(asked, Writing(settings.max_new_tokens))
    texts = [one.text if isinstance(one, Generation) else "" for one in written]
    return mean(
        parse_judgement(text).verdict == one.label for text, one in zip(texts, shown, strict=True)
    )


def of_criteria(
    shown: HeldOut, sure: Sequence[float | None], held: Sequence[Row]
) -> dict[str, float | None]:
    """The outcomes of what a judge wrote on the held-out pairs, each a mean over topics."""
    rows = {row["id"]: row for row in held}
    facts = [(rows[one.pair]["fact"], rows[one.pair]["other_fact"]) for one in shown.outcomes]
    states = [
        states_fact(before_verdict(one.text), *fact)
        for one, fact in zip(shown.outcomes, facts, strict=True)
    ]
    others = [
        states_fact(before_verdict(o.text), *fact[::-1])
        for o, fact in zip(shown.outcomes, facts, strict=True)
    ]
    reads = [(1 + own - other) / 2 for own, other in zip(states, others, strict=True)]
    judged = [0.5 if one.verdict is None else one.right for one in shown.outcomes]
    topics = [one.source_item for one in shown.outcomes]
    stated = zip(topics, judged, states, others, strict=True)
    followed = [
        (topic, right if own else 1 - right) for topic, right, own, other in stated if own or other
    ]
    return {
        "accuracy": shown.accuracy.estimate,
        "readable_half": over(topics, judged),
        "form": shown.format_rate.estimate,
        "place_effect": over(topics, [log_odds(one.with_criteria) for one in shown.outcomes]),
        "masked_logp": shown.with_masked.estimate,
        "states_fact": over(topics, states),
        "reads_place": over(topics, reads),
        "follows_fact": over(*zip(*followed, strict=True)) if followed else 0.5,
        "criteria_given": over(topics, [log_odds(value) > 0 for value in sure]),
    }


def over(topics: Sequence[str], values: Sequence[float]) -> float:
    """The mean over topics of the means within them."""
    return mean(item_means(list(zip(topics, map(float, values), strict=True))))


def log_odds(logprob: float | None) -> float:
    """The log-odds of the label against the other verdict, in nats; a probability that is not known
    counts as a half.

    Over whole mirrors the effects of the answers and of their order cancel, and the mean is half of
    the place effect.
    """
    value = min(logprob if logprob is not None else math.log(0.5), -1e-6)
    return value - math.log(-math.expm1(value))


def states_fact(text: str, fact: str, other: str) -> bool:
    """Whether a text repeats a third of the right place's fact, and more of it than of the
    other's."""
    own, wrong = copied_share(text, fact), copied_share(text, other)
    return own >= 1 / 3 and own > wrong


def as_pair(row: Row, **changes: str) -> Pair:
    return Pair.model_validate(
        {**{name: row[name] for name in Pair.model_fields if name in row}, **changes}
    )


def print_table(out: Path, arms: Sequence[str]) -> None:
    """The means of each arm over its seeds, each less the start, and what R_appr adds;
    ``verdicts.csv`` is written."""
    files = [json.loads(file.read_text()) for file in sorted(out.glob("*-[0-9]*.json"))]
    runs = [
        {**one, "seed": seed} for one in files for seed in one.get("seeds", [one["seed"]])
    ]  # a start has several
    steps = {one["steps"] for one in runs} - {0}  # of GRPO; the start and supervised arms have none
    if len(steps) > 1 or len({tuple(o["pair"] for o in one["verdicts"]) for one in runs}) > 1:
        sys.exit(
            f"The runs in {out} are not of one test: their steps or their held-out pairs differ."
        )
    verdicts = pl.DataFrame(
        [{"seed": r["seed"], "arm": r["arm"], **o} for r in runs for o in r["verdicts"]]
    )
    verdicts.write_csv(out / "verdicts.csv")
    of = {(one["arm"], one["seed"]): one for one in runs}
    for arm in arms:
        seeds = [seed for name, seed in of if name == arm]
        if seeds:
            figures = {
                name: mean(of[arm, seed][name] for seed in seeds)
                for name in ("cpu_seconds", *OUTCOMES)
            }
            print(
                f"{arm}, {len(seeds)} seeds:",
                *(f"{name} {value:.3f}" for name, value in figures.items()),
            )
        shared = [seed for seed in seeds if arm != "start" and ("start", seed) in of]
        if shared:
            table = differences(verdicts.filter(pl.col("seed").is_in(shared)), "start", arm)
            print(f"{arm} less start, over topics: {t_interval(table.mean(0))}")
    seen = [
        o for one in files for o in one["verdicts"] if o["verdict"] and o["with_masked"] is not None
    ]
    agree = sum((o["verdict"] == o["label"]) == (o["with_masked"] > math.log(0.5)) for o in seen)
    print(
        f"Behind its masked criteria a judge prefers the verdict that it wrote in {agree} "
        f"of {len(seen)} outputs."
    )
    both = [seed for arm, seed in of if arm == "C" and ("C+A", seed) in of]
    if len(both) > 1:
        for name in OUTCOMES:
            found = np.array([of["C+A", seed][name] - of["C", seed][name] for seed in both])
            print(f"{name}, C+A less C over seeds: {t_interval(found)}")
        table = differences(verdicts.filter(pl.col("seed").is_in(both)), "C", "C+A")
        added, low, high, _ = interval(table[None])
        print(f"C+A less C: {added[0]:+.3f} [{low[0]:+.3f}, {high[0]:+.3f}]; {variances(table)}")
