"""The rewards as TRL calls them: objects that read the sampled ids and log what a run should show."""

from __future__ import annotations

import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Literal

from pydantic import Field, model_validator

from carb_data import CarbError
from carb_data.models import Frozen
from tal_rlvr.appropriateness import (
    CLIP,
    BaselineCache,
    CriteriaCase,
    VerdictLogprobs,
    VerdictRow,
    criteria_reward,
    format_reward,
)
from tal_rlvr.correctness import correctness_reward
from tal_rlvr.judgement import FormatError, Judgement, Verdict, parse_judgement
from tal_rlvr.prompts import Prompt, holds_verdict
from tal_rlvr.providers import PolicyVerdicts
from tal_rlvr.tokens import VerdictTokens, encode_prompt, masked_reasoning_ids, reasoning_ids

Baseline = Literal["literal", "direct", "none"]
"""The prompt of the z-free term: the judge's own prompt (the paper's form), one that asks for a verdict alone, or none.

The term is the same for all samples of a group, so group-normalised advantages do not depend on it.
"""


class RewardConfig(Frozen):
    """R = R_corr + lambda R_appr, and what may be changed about it."""

    correctness_weight: float = Field(default=1.0, ge=0)
    """1 in the paper."""
    criteria_weight: float = Field(default=1.0, ge=0)
    """lambda. The paper's value is not known to us; 1 is ours. 0 leaves R_appr out and costs nothing."""
    format_weight: float = Field(default=0.0, ge=0)
    """Not in the paper."""
    normalise: bool = True
    """R_appr over the two verdicts; false is the paper's literal form, over the whole vocabulary."""
    baseline: Baseline = "literal"
    clip: float | Literal["none"] = Field(default=CLIP)
    """Bound on the absolute value of R_appr, in nats, above 0. ``none`` is the paper's form, which pays outputs that
    say nothing more than honest ones (``tal_rlvr.appropriateness.CLIP``)."""
    mask: bool = True
    """Measure R_appr on z without the letters and statements of the verdict (``mask_verdict``), so that criteria are
    paid and not the announcement of a verdict; false is the paper's form."""
    both_orders: bool = True
    """Measure R_appr also with the responses in the other order, and pay the mean. What names the place of a response,
    in whatever code, then earns nothing over the two orders of a pair; what says something of its content earns the
    same. One more row for each output. False is the paper's form, in which a code earns as much as criteria that are
    believed."""
    permuted: bool = False
    """The control of R_appr: its values are permuted at random among the outputs of each prompt, so that their
    distribution stays and their information is lost. Draws depend on the step and the prompt alone."""
    chunk: int = Field(default=16, ge=1)
    """Largest number of rows in one forward pass of R_appr."""
    tokens_per_pass: int = Field(default=16_384, ge=1)
    """Largest number of tokens, padding included, in one forward pass of R_appr; long prompts go in smaller batches."""

    @property
    def bound(self) -> float | None:
        """The clip as a number; null where there is none."""
        return None if self.clip == "none" else self.clip

    @model_validator(mode="after")
    def _positive(self) -> RewardConfig:
        if self.bound is not None and not 0 < self.bound < math.inf:
            raise ValueError(f"clip must be a number above 0 or 'none', got {self.clip}")
        return self


class CorrectnessFunction:
    """R_corr for TRL. Logs the format rate, the accuracy of either order, and the length of the reasoning."""

    __name__ = "R_corr"

    def __init__(self, tokenizer: Any, *, direct: bool = False) -> None:
        self.tokenizer = tokenizer
        self.direct = direct

    def __call__(
        self,
        *,
        completion_ids: Sequence[Sequence[int]],
        label: Sequence[Verdict],
        prompts: Sequence[Prompt] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **_: Any,
    ) -> list[float]:
        judgements = parse_all(self.tokenizer, completion_ids, direct=self.direct, prompts=prompts)
        rewards = correctness_reward(judgements, label)
        if log_metric is not None:
            log_metric("format_rate", _mean(format_reward(judgements)))
            log_metric("verdict_accuracy", _mean([(reward + 1) / 2 for reward in rewards]))
            read = [(reward + 1) / 2 for reward, j in zip(rewards, judgements, strict=True) if j.verdict is not None]
            log_metric("verdict_rate", len(read) / len(rewards))
            if read:
                log_metric("verdict_accuracy/parsed", _mean(read))
            for side in ("A", "B"):
                own = [(reward + 1) / 2 for reward, right in zip(rewards, label, strict=True) if right == side]
                if own:
                    log_metric(f"verdict_accuracy/better_is_{side}", _mean(own))
            well_formed = [j for j in judgements if isinstance(j, Judgement)]
            if well_formed:
                log_metric("criteria/count", _mean([len(j.criteria) for j in well_formed]))
                log_metric("criteria/characters", _mean([j.reasoning_end for j in well_formed]))
        return rewards


class FormatFunction:
    """The format reward for TRL: 1 for a well-formed judgement. Its weight may be 0; it is measured all the same."""

    __name__ = "R_format"

    def __init__(self, tokenizer: Any, *, direct: bool = False) -> None:
        self.tokenizer = tokenizer
        self.direct = direct

    def __call__(self, *, completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
        return format_reward(parse_all(self.tokenizer, completion_ids, direct=self.direct))


class CriteriaFunction:
    """R_appr for TRL, from the live policy of the trainer that it is bound to. Logs both terms and its own seconds."""

    __name__ = "R_appr"

    def __init__(self, tokenizer: Any, tokens: VerdictTokens, config: RewardConfig, *, direct: bool = False) -> None:
        self.tokenizer = tokenizer
        self.tokens = tokens
        self.config = config
        self.direct = direct
        self._cache = BaselineCache()
        self.provider: VerdictLogprobs | None = None
        """What reads the verdict's probability; ``bind`` sets it."""

    def bind(self, trainer: Any) -> None:
        """Measure with this trainer's policy from now on."""
        self.provider = PolicyVerdicts(
            trainer, self.tokens, chunk=self.config.chunk, budget=self.config.tokens_per_pass
        )

    def __call__(
        self,
        *,
        prompts: Sequence[Prompt],
        completion_ids: Sequence[Sequence[int]],
        label: Sequence[Verdict],
        trainer_state: Any,
        bare_prompt: Sequence[Prompt] | None = None,
        swapped_prompt: Sequence[Prompt] | None = None,
        swapped_bare_prompt: Sequence[Prompt] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **_: Any,
    ) -> list[float]:
        if self.provider is None:
            raise CarbError("R_appr is measured with a trainer's policy: call bind(trainer) first.")
        started = time.perf_counter()
        self._cache.use(trainer_state.global_step)
        none = [None] * len(prompts)
        cases = [self._case(*row) for row in zip(prompts, completion_ids, label, bare_prompt or none, strict=True)]
        if self.config.both_orders:
            if swapped_prompt is None:
                raise CarbError(
                    "R_appr in both orders needs a column 'swapped_prompt', which training_rows makes. Make the rows "
                    "with it, or set rewards.both_orders = false."
                )
            other: list[Verdict] = ["B" if side == "A" else "A" for side in label]
            swapped = zip(swapped_prompt, completion_ids, other, swapped_bare_prompt or none, strict=True)
            cases += [self._case(*row) for row in swapped]
        rewards = criteria_reward(
            cases, self.provider, normalise=self.config.normalise, clip=self.config.bound, cache=self._cache
        )
        if log_metric is not None:
            log_metric("R_appr/with_criteria", _mean([reward.with_criteria for reward in rewards]))
            log_metric("R_appr/without_criteria", _mean([reward.without_criteria for reward in rewards]))
            log_metric("R_appr/unpaid", _mean([float(not case.paid) for case in cases]))
            log_metric("R_appr/seconds", time.perf_counter() - started)
        size = len(prompts)  # rows in the other order follow those as shown
        values = [_mean([reward.value for reward in rewards[n::size]]) for n in range(size)]
        if not self.config.permuted:
            return values
        return permuted([case.with_criteria.prefix for case in cases[:size]], values, trainer_state.global_step)

    def _case(self, prompt: Prompt, completion: Sequence[int], label: Verdict, bare: Prompt | None) -> CriteriaCase:
        prefix = tuple(encode_prompt(self.tokenizer, prompt))
        text = self.tokenizer.decode(completion, skip_special_tokens=True)
        paid = isinstance(parse_judgement(text, direct=self.direct), Judgement)
        if self.config.mask:
            suffix = masked_reasoning_ids(self.tokenizer, text, self.tokens)
        else:
            suffix = reasoning_ids(self.tokenizer, completion, self.tokens, direct=self.direct)
        without = None
        if self.config.baseline != "none":
            own = bare is None or self.config.baseline == "literal"
            start = prefix if own else tuple(encode_prompt(self.tokenizer, bare or ""))
            without = VerdictRow(start, self.tokens.marker)
        return CriteriaCase(VerdictRow(prefix, suffix), without, label, paid)


def permuted(prompts: Sequence[tuple[int, ...]], values: Sequence[float], step: int) -> list[float]:
    """The values with those of each prompt in another order, drawn from the step and the prompt.

    Args:
        prompts: the token ids of each output's prompt; equal ones are a group.
        values: the reward of each output.
        step: The number of the trainer's step.
    """
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, prompt in enumerate(prompts):
        groups[prompt].append(place)
    out = list(values)
    for prompt, places in groups.items():
        drawn = random.Random(f"{step}\0{prompt}").sample(places, len(places))
        for place, source in zip(places, drawn, strict=True):
            out[place] = values[source]
    return out


def parse_all(
    tokenizer: Any,
    completion_ids: Sequence[Sequence[int]],
    *,
    direct: bool = False,
    prompts: Sequence[Prompt] | None = None,
) -> list[Judgement | FormatError]:
    """Parse sampled ids; control tokens such as the end of the turn are left out first.

    Where a response in the prompt holds a verdict, only a well-formed judgement has one (``holds_verdict``).
    """
    shown: Sequence[Prompt] = prompts or [""] * len(completion_ids)
    return [
        parse_judgement(
            tokenizer.decode(ids, skip_special_tokens=True), direct=direct, lenient=not holds_verdict(prompt)
        )
        for ids, prompt in zip(completion_ids, shown, strict=True)
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
