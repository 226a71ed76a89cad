"""The rewards as TRL calls them: objects that read the sampled ids and log what a run should
show."""

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any, Literal

from pydantic import (
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from carb_data import CarbError, Frozen
from carb_scorers.models.marks import written_text
from tal_rlvr.judge_prompts import Prompt
from tal_rlvr.judge_rewards import (
    CLIP,
    CriteriaCase,
    Reading,
    VerdictLogprobs,
    VerdictRow,
    correctness_reward,
    criteria_reward,
    format_reward,
)
from tal_rlvr.judgement import (
    FormatError,
    Judgement,
    Verdict,
    before_verdict,
    holds_verdict,
    parse_judgement,
)
from tal_rlvr.masking import copied_share
from tal_rlvr.verdict_logprobs import PolicyVerdicts
from tal_rlvr.verdict_tokens import (
    VerdictTokens,
    encode_prompt,
    reasoning_ids,
)

PAPER_FORM: dict[str, Any] = {
    "format_weight": 0.0,
    "gate": False,
    "odds": False,
    "clip": "none",
    "mask": False,
    "both_orders": False,
    "copied": 1.0,
    "floor": 0.0,
}
"""The settings that turn every addition of ours off."""


class RewardConfig(Frozen):
    """R = R_corr + lambda R_appr, and our additions to it."""

    model_config = ConfigDict(allow_inf_nan=False)

    base: Literal["ours", "paper"] = "ours"
    """Where settings that are not given come from: the defaults below, or ``PAPER_FORM``."""
    correctness_weight: NonNegativeFloat = 1.0
    """1 in the paper."""
    criteria_weight: NonNegativeFloat = 1.0
    """lambda. The paper's value is not known to us; 1 is ours. 0 leaves R_appr out and costs
    nothing."""
    format_weight: NonNegativeFloat = 0.25
    """The pay of a well-formed judgement. Ours; 0 in the paper."""
    gate: bool = True
    """An output that is no well-formed judgement earns an R_appr of 0, whatever its text. Ours."""
    odds: bool = True
    """R_appr is a difference of the label's log-odds against the other verdict. Ours; false is the
    paper's form, of the label's log-probability over the vocabulary."""
    clip: PositiveFloat | Literal["none"] = CLIP
    """R_appr is ``x / (1 + |x| / clip)`` of the gain ``x`` in nats. It stays below the clip, and a
    larger gain earns more at any size. At 1 or below, a right verdict earns more than a wrong one
    whatever the criteria do. Ours; ``none`` is the paper's form."""
    mask: bool = True
    """Measure R_appr on z without the verdict's letters and the columns of weight and response
    (``mask_verdict``). Then it pays criteria and not the announcement of a verdict. Ours; false is
    the paper's form."""
    both_orders: bool = True
    """Average R_appr over both orders of the responses. A criterion that names the place of a
    response, in whatever code, then earns nothing. One about its content earns the same in both.
    Ours; false is the paper's form."""
    copied: float = Field(default=0.5, gt=0, le=1)
    """Criteria that repeat more than this share of either response word for word (``copied_share``)
    count as none: they earn an R_appr of 0. Ours; 1 allows all, as in the paper."""
    floor: NonNegativeFloat = 0.1
    """Smallest standard deviation of a group's rewards that advantages are divided by. Where all
    verdicts of a group are the same, the noise of R_appr would otherwise be scaled up to advantages
    near 1. Ours; 0 in the paper."""
    tokens_per_pass: PositiveInt = 16_384
    """Largest number of tokens, padding included, in one forward pass of R_appr; long prompts go in
    smaller batches."""

    @property
    def bound(self) -> float | None:
        """The clip as a number; null where there is none."""
        if self.clip == "none":
            return None
        return self.clip

    @model_validator(mode="before")
    @classmethod
    def _on_base(cls, values: Any) -> Any:
        on_paper = isinstance(values, Mapping) and values.get("base") == "paper"
        if not on_paper:
            return values
        return {**PAPER_FORM, **values}

    @model_validator(mode="after")
    def _has_weight(self) -> "RewardConfig":
        if self.correctness_weight + self.criteria_weight + self.format_weight == 0:
            raise ValueError("a reward must have a weight above 0")
        return self


class _OfOutputs:
    """Shared by rewards that read nothing but outputs."""

    def __init__(self, tokenizer: Any, *, direct: bool = False) -> None:
        self.tokenizer = tokenizer
        self.direct = direct


class CorrectnessFunction(_OfOutputs):
    """R_corr for TRL. Logs the format rate and the accuracy of verdicts."""

    __name__ = "R_corr"

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
            log_metric("format_rate", fmean(format_reward(judgements)))
            log_metric("verdict_accuracy", (fmean(rewards) + 1) / 2)
        return rewards


class FormatFunction(_OfOutputs):
    """The format reward for TRL: 1 for a well-formed judgement. Its weight may be 0; it is measured
    all the same."""

    __name__ = "R_format"

    def __call__(self, *, completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
        return format_reward(parse_all(self.tokenizer, completion_ids, direct=self.direct))


class CriteriaFunction:
    """R_appr for TRL, from the live policy of the trainer that it is bound to. Logs both terms and
    its own seconds."""

    __name__ = "R_appr"

    def __init__(self, tokenizer: Any, tokens: VerdictTokens, config: RewardConfig) -> None:
        self.tokenizer = tokenizer
        self.tokens = tokens
        self.config = config
        self.provider: VerdictLogprobs | None = None
        """The reader of the verdict's probability; ``bind`` sets it."""
        self.variables: Mapping[str, Any] = {}
        """Variables of the chat template; ``bind`` takes those of the trainer's rollouts."""

    def bind(self, trainer: Any) -> None:
        """Measure with this trainer's policy from now on."""
        self.provider = PolicyVerdicts(trainer, self.tokens, budget=self.config.tokens_per_pass)
        self.variables = trainer.chat_template_kwargs

    def __call__(
        self,
        *,
        prompts: Sequence[Prompt],
        completion_ids: Sequence[Sequence[int]],
        label: Sequence[Verdict],
        swapped_prompt: Sequence[Prompt] | None = None,
        responses: Sequence[Sequence[str]] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **_: Any,
    ) -> list[float]:
        if self.provider is None:
            raise CarbError("R_appr is measured with a trainer's policy: call bind(trainer) first.")
        if (self.config.both_orders and swapped_prompt is None) or (
            self.config.copied < 1 and responses is None
        ):
            raise CarbError(
                "R_appr needs the columns 'swapped_prompt' (for rewards.both_orders) and "
                "'responses' (for rewards.copied), which training_rows makes. Make the rows with "
                "it, or set both_orders = false and copied = 1."
            )
        started = time.perf_counter()
        none = [None] * len(prompts)
        swapped = swapped_prompt if self.config.both_orders else None
        columns = (prompts, completion_ids, label, swapped or none, responses or none)
        cases = [self._case(*row) for row in zip(*columns, strict=True)]
        rewards = criteria_reward(
            cases, self.provider, odds=self.config.odds, clip=self.config.bound
        )
        if log_metric is not None:
            log_metric("R_appr/with_criteria", fmean([reward.with_criteria for reward in rewards]))
            log_metric(
                "R_appr/without_criteria", fmean([reward.without_criteria for reward in rewards])
            )
            log_metric("R_appr/unpaid", fmean([float(not case.paid) for case in cases]))
            log_metric("R_appr/seconds", time.perf_counter() - started)
        return [reward.value for reward in rewards]

    def _case(
        self,
        prompt: Prompt,
        completion: Sequence[int],
        label: Verdict,
        swapped: Prompt | None,
        responses: Sequence[str] | None,
    ) -> CriteriaCase:
        text = self.tokenizer.decode(completion, skip_special_tokens=True)
        suffix = reasoning_ids(self.tokenizer, completion, self.tokens, mask=self.config.mask)
        shown = self._reading(prompt, suffix)
        other = None
        if swapped is not None:
            other = self._reading(swapped, suffix)
        return CriteriaCase(*shown, label, self._pays(text, responses), other)

    def _reading(self, prompt: Prompt, suffix: tuple[int, ...]) -> Reading:
        prefix = tuple(encode_prompt(self.tokenizer, prompt, self.variables))
        return Reading(VerdictRow(prefix, suffix), VerdictRow(prefix, self.tokens.marker))

    def _pays(self, text: str, responses: Sequence[str] | None) -> bool:
        """Whether an output has criteria of its own."""
        if self.config.gate and not isinstance(parse_judgement(text), Judgement):
            return False
        reasoning = before_verdict(text)
        return self.config.copied >= 1 or all(
            copied_share(reasoning, response) <= self.config.copied for response in responses or ()
        )


def parse_all(
    tokenizer: Any,
    completion_ids: Sequence[Sequence[int]],
    *,
    direct: bool = False,
    prompts: Sequence[Prompt] | None = None,
) -> list[Judgement | FormatError]:
    """Parse sampled ids; control tokens such as the end of the turn are left out first.

    Where a response in the prompt holds a verdict, only a well-formed judgement has one
    (``holds_verdict``).
    """
    shown: Sequence[Prompt] = prompts or [""] * len(completion_ids)
    return [
        parse_judgement(
            written_text(tokenizer, ids),
            direct=direct,
            lenient=not holds_verdict(prompt),
        )
        for ids, prompt in zip(completion_ids, shown, strict=True)
    ]
