"""Supervised warm-up: teaching the form of a judgement to a model that does not follow it."""

import random
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt, TypeAdapter

from carb_data import CarbError, Frozen, validate
from tal_rlvr.judge_rewards import OTHER
from tal_rlvr.judgement import MARKER, FormatError, Verdict, parse_judgement, write_judgement
from tal_rlvr.layouts import read_rows
from tal_rlvr.preferences import OrderedPair, Pair
from tal_rlvr.verdict_tokens import text_ids

Target = tuple[OrderedPair, str]
"""A pair as it is shown, and the judgement to learn."""


class _Phrase(Frozen):
    name: str
    why: str
    assessment: str
    """The target text, with ``{better}`` and ``{worse}`` for the letters."""


class WarmupConfig(Frozen):
    """Settings of the warm-up. All are ours: the paper's models follow the form as they are."""

    model_config = ConfigDict(allow_inf_nan=False)

    targets: str | None = None
    """A JSON Lines or Parquet file of judgements to learn, from people or a strong model:
    ``prompt``, ``first``, ``second`` (the responses as shown), ``judgement``, and ``culture`` and
    ``language`` where they are known. Without one, targets are made from stock phrases, which teach
    the form and nothing about a culture."""
    steps: NonNegativeInt = 0
    """0: no warm-up, or with ``targets`` once through them."""
    batch_size: PositiveInt = 8
    learning_rate: PositiveFloat = 5e-5
    flipped: float = Field(default=0.1, ge=0, le=0.5)
    """Share of targets with the wrong verdict, so that room to explore is left; at 0.5 the form
    alone is taught."""
    quote: bool = False
    """The criterion names the picked response, as the style ``compact`` shows it (``rice = A``). A
    small model finds the letter of a text that it has just copied."""

    def steps_for(self, targets: int) -> int:
        """Steps of a warm-up on so many targets of a file; 0 where there is no warm-up."""
        return self.steps or -(-targets // self.batch_size)


class _Row(Frozen):
    prompt: str
    first: str
    second: str
    judgement: str
    culture: str = "general"
    language: str = "en"


def _picked(shown: _Row | OrderedPair, verdict: Verdict) -> tuple[str, str]:
    """The response that a verdict picks, and the other one."""
    if verdict == "A":
        return shown.first, shown.second
    return shown.second, shown.first


def read_targets(path: str, *, direct: bool = False) -> list[Target]:
    """The judgements of a file, each with its pair.

    Args:
        path: the file; ``WarmupConfig.targets`` describes its rows.
        direct: whether its judgements are verdicts alone.

    Raises:
        CarbError: the file cannot be read, or a row is no well-formed judgement; the message names
            the first.
    """
    targets = []
    for number, content in enumerate(read_rows(Path(path)), 1):
        row = validate(_Row, content, f"{path}: row {number} is not valid")
        judgement = parse_judgement(row.judgement, direct=direct)
        if isinstance(judgement, FormatError):
            raise CarbError(
                f"{path}: row {number} holds no well-formed judgement: {judgement.message}."
            )
        verdict = judgement.verdict
        chosen, rejected = _picked(row, verdict)
        pair = Pair(
            id=f"target-{number}",
            source_item=f"target:{number}",
            prompt=row.prompt,
            chosen=chosen,
            rejected=rejected,
            culture=row.culture,
            language=row.language,
        )
        shown = OrderedPair(pair=pair, first=row.first, second=row.second, label=verdict)
        targets.append((shown, row.judgement.strip()))
    if not targets:
        raise CarbError(f"{path} holds no judgement. Leave [warmup] targets out for stock phrases.")
    return targets


def repeated(targets: Sequence[Target], config: WarmupConfig, *, seed: int) -> list[Target]:
    """As many targets as the warm-up takes, in new order each time they are gone through."""
    rng = random.Random(f"{seed}\0targets")
    wanted = config.steps_for(len(targets)) * config.batch_size
    drawn: list[Target] = []
    while targets and len(drawn) < wanted:
        lacking = wanted - len(drawn)
        drawn += rng.sample(targets, min(len(targets), lacking))
    return drawn


@cache
def _phrases() -> list[_Phrase]:
    text = (resources.files("tal_rlvr") / "resources" / "criteria.json").read_bytes()
    return TypeAdapter(list[_Phrase]).validate_json(text)


def warmup_target(
    row: OrderedPair,
    verdict: Verdict,
    rng: random.Random,
    config: WarmupConfig,
    *,
    direct: bool = False,
) -> str:
    """A judgement in the right form from stock phrases: it teaches the form, not the culture."""
    if direct:
        return f"{MARKER} {verdict}"
    if config.quote:
        name = f"{_quotation(*_picked(row, verdict))} = {verdict}"
        criterion = (name, "usual there", 3, verdict)
        return write_judgement([criterion], f"{verdict} fits.", verdict)
    phrase = rng.choice(_phrases())
    assessment = phrase.assessment.replace("{better}", verdict).replace("{worse}", OTHER[verdict])
    criterion = (phrase.name, phrase.why, rng.randint(2, 5), verdict)
    return write_judgement([criterion], assessment, verdict)


def _quotation(text: str, other: str, longest: int = 24) -> str:
    """The words of ``text`` from where it differs from ``other``, whole ones as far as so many
    characters hold."""
    words = text.replace("|", "/").split()
    pairs = enumerate(zip(words, other.replace("|", "/").split(), strict=False))
    differing = (index for index, (one, two) in pairs if one != two)
    quoted = " ".join(words[next(differing, 0) :])
    if len(quoted) <= longest:
        return quoted
    return quoted[: longest + 1].rpartition(" ")[0] or quoted[:longest]


def warmup_rows(
    rows: Sequence[OrderedPair], config: WarmupConfig, *, seed: int, direct: bool = False
) -> list[Target]:
    """As many targets of stock phrases as the warm-up takes. Where there are too few pairs, they
    are repeated in a new order."""
    rng = random.Random(f"{seed}\0warmup")
    targets = []
    without_text = [(row, "") for row in rows]
    for row, _ in repeated(without_text, config, seed=seed):
        verdict = row.label
        if rng.random() < config.flipped:
            verdict = OTHER[row.label]
        text = warmup_target(row, verdict, rng, config, direct=direct)
        targets.append((row, text))
    return targets


def tokenised(tokenizer: Any, prompt: Sequence[int], target: str) -> dict[str, list[int]]:
    """Ids of prompt, target and the end of the turn, with the mask of what is learned."""
    answer = [*text_ids(tokenizer, target), tokenizer.eos_token_id]
    return {
        "input_ids": [*prompt, *answer],
        "completion_mask": [0] * len(prompt) + [1] * len(answer),
    }
