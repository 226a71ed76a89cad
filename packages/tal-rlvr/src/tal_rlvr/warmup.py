"""Supervised warm-up: teaching the form of a judgement to a model that does not follow it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from pydantic import Field, TypeAdapter

from carb_data.models import Frozen
from tal_rlvr.judgement import MARKER, Verdict, write_judgement
from tal_rlvr.pairs import OrderedPair


class _Phrase(Frozen):
    name: str
    why: str
    assessment: str
    """The target text, with ``{better}`` and ``{worse}`` for the letters."""


class WarmupConfig(Frozen):
    """Settings of the warm-up. All are ours: the paper's models follow the form as they are."""

    steps: int = Field(default=0, ge=0)
    """0: no warm-up."""
    batch_size: int = Field(default=8, ge=1)
    learning_rate: float = Field(default=5e-5, gt=0)
    flipped: float = Field(default=0.1, ge=0, le=0.5)
    """Share of targets with the wrong verdict, so that room to explore is left; at 0.5 the form alone is taught."""
    criteria: int = Field(default=1, ge=1, le=4)
    """Criteria in each target."""
    quote: bool = False
    """The criterion names the picked response, as the style ``compact`` shows it (``rice = A``). A small model finds
    the letter of a text that it has just copied."""
    quote_characters: int = Field(default=24, ge=4)
    """Longest quotation, in characters. It begins with the first word in which the two responses differ."""


@cache
def _phrases() -> dict[str, list[_Phrase]]:
    text = (resources.files("tal_rlvr") / "resources" / "criteria.json").read_bytes()
    return TypeAdapter(dict[str, list[_Phrase]]).validate_json(text)


def warmup_target(
    row: OrderedPair, verdict: Verdict, rng: random.Random, config: WarmupConfig, *, direct: bool = False
) -> str:
    """A judgement in the right form from stock phrases: it teaches the form, not the culture."""
    if direct:
        return f"{MARKER} {verdict}"
    if config.quote:
        own, other = (row.first, row.second) if verdict == "A" else (row.second, row.first)
        text = _quotation(own, other, config.quote_characters)
        return write_judgement([(f"{text} = {verdict}", "usual there", 3, verdict)], f"{verdict} fits.", verdict)
    known = _phrases()
    chosen = rng.sample(known.get(row.pair.domain or "", known["general"]), config.criteria)
    worse = "B" if verdict == "A" else "A"
    lines = [(p.name, p.why, rng.randint(2, 5), verdict) for p in chosen]
    assessment = " ".join(p.assessment.replace("{better}", verdict).replace("{worse}", worse) for p in chosen)
    return write_judgement(lines, assessment, verdict)


def _quotation(text: str, other: str, longest: int) -> str:
    """The words of ``text`` from where it differs from ``other``, whole ones as far as they fit."""
    words, others = text.replace("|", "/").split(), other.replace("|", "/").split()
    shared = next((n for n, pair in enumerate(zip(words, others, strict=False)) if pair[0] != pair[1]), 0)
    quoted = " ".join(words[shared:])
    if len(quoted) <= longest:
        return quoted
    cut = quoted[: longest + 1].rpartition(" ")[0]
    return cut or quoted[:longest]


def warmup_rows(
    rows: Sequence[OrderedPair], config: WarmupConfig, *, seed: int, direct: bool = False
) -> list[tuple[OrderedPair, str]]:
    """As many targets as the warm-up takes, the pairs repeated in new order where they do not suffice."""
    rng = random.Random(f"{seed}\0warmup")
    wanted = config.steps * config.batch_size
    drawn: list[tuple[OrderedPair, str]] = []
    while rows and len(drawn) < wanted:
        for row in rng.sample(list(rows), min(len(rows), wanted - len(drawn))):
            verdict = row.label
            if rng.random() < config.flipped:
                verdict = "B" if verdict == "A" else "A"
            drawn.append((row, warmup_target(row, verdict, rng, config, direct=direct)))
    return drawn


def tokenised(tokenizer: Any, prompt: Sequence[int], target: str) -> dict[str, list[int]]:
    """Ids of prompt, target and the end of the turn, with the mask of what is learned."""
    answer = [*tokenizer(target, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    return {
        "input_ids": [*prompt, *answer],
        "completion_mask": [0] * len(prompt) + [1] * len(answer),
    }
