"""GRPO with the rewards of Think-as-Locals, on TRL's trainer."""

from __future__ import annotations

import tal_rlvr._training  # noqa: F401  # isort: skip  # before torch: names the missing extra
from collections.abc import Sequence
from typing import Any

from trl import GRPOConfig, GRPOTrainer

from tal_rlvr.pairs import OrderedPair
from tal_rlvr.prompting import PromptConfig
from tal_rlvr.prompts import render_prompt
from tal_rlvr.reward_functions import CorrectnessFunction, CriteriaFunction, FormatFunction, RewardConfig
from tal_rlvr.tokens import is_chat, make_prompt, verdict_tokens

PAPER: dict[str, Any] = {
    "loss_type": "grpo",
    "importance_sampling_level": "token",
    "scale_rewards": "group",
    "multi_objective_aggregation": "sum_then_normalize",
    "use_bias_correction_kl": False,
    "disable_dropout": True,
    "mask_truncated_completions": False,
    "beta": 0.04,  # the paper has a KL term; its weight is not known to us, and 0.04 is GRPO's first (DeepSeekMath)
    "epsilon": 0.2,
}
"""TRL settings that make its loss the paper's objective:

``mean over the group of min(rho A, clip(rho, 1 - eps, 1 + eps) A) - beta KL(pi || pi_ref)`` with
``A = (R - mean) / (std + 1e-4)`` within the group, token by token, averaged over each output and then over outputs
(Zhang et al. 2025, section 5; Shao et al. 2024, arXiv 2402.03300, equation 3). TRL's own defaults differ.
"""


def paper_config(**overrides: Any) -> GRPOConfig:
    """A ``GRPOConfig`` with the paper's objective; anything may be overridden, TRL's other losses included."""
    return GRPOConfig(**{**PAPER, "report_to": "none", **overrides})


class ThinkAsLocalsTrainer(GRPOTrainer):  # type: ignore[misc]  # TRL is untyped
    """TRL's ``GRPOTrainer`` with R = R_corr + lambda R_appr.

    Rows of ``train_dataset`` are those of ``training_rows``. Everything else of TRL works as it does there: LoRA by
    ``peft_config``, vLLM rollouts by ``use_vllm``, accelerate, DeepSpeed and FSDP by their launchers, resuming by
    ``train(resume_from_checkpoint=...)``.

    Args:
        model: folder or hub id (the KL reference is reloaded from it), or a model.
        args: the training arguments, from ``paper_config``.
        train_dataset: The rows that ``training_rows`` makes.
        processing_class: The tokenizer that belongs to the model.
        rewards: the rewards' weights and forms.
        direct: whether outputs are verdicts without reasoning ; R_appr is then left out.

    Raises:
        CarbError: the tokenizer has no one token for each verdict.
    """

    def __init__(
        self,
        model: Any,
        args: GRPOConfig,
        train_dataset: Any,
        processing_class: Any,
        *,
        rewards: RewardConfig | None = None,
        direct: bool = False,
        **options: Any,
    ) -> None:
        rewards = rewards or RewardConfig()
        tokens = verdict_tokens(processing_class)
        functions: list[Any] = [CorrectnessFunction(processing_class, direct=direct)]
        weights = [rewards.correctness_weight]
        self.criteria_function: CriteriaFunction | None = None
        if rewards.criteria_weight > 0 and not direct:
            self.criteria_function = CriteriaFunction(processing_class, tokens, rewards, direct=direct)
            functions.append(self.criteria_function)
            weights.append(rewards.criteria_weight)
        functions.append(FormatFunction(processing_class, direct=direct))  # measured even where it weighs nothing
        weights.append(rewards.format_weight)
        args.reward_weights = weights
        super().__init__(
            model=model,
            reward_funcs=functions,
            args=args,
            train_dataset=train_dataset,
            processing_class=processing_class,
            **options,
        )
        if self.criteria_function is not None:
            self.criteria_function.bind(self)


def training_rows(
    rows: Sequence[OrderedPair], tokenizer: Any, prompts: PromptConfig, *, direct: bool = False
) -> list[dict[str, Any]]:
    """Rows for ``ThinkAsLocalsTrainer``: ``prompt``, ``bare_prompt`` (asks for a verdict alone), ``swapped_prompt`` and
    ``swapped_bare_prompt`` (the responses in the other order), and ``label``."""
    chat = prompts.is_chat(is_chat(tokenizer))
    out = []
    for row in rows:
        think = "direct" if direct else "think"
        shown, swapped = (row.first, row.second), (row.second, row.first)
        made: dict[str, Any] = {"label": row.label}
        for name, form, pair in (
            ("prompt", think, shown),
            ("bare_prompt", "direct", shown),
            ("swapped_prompt", think, swapped),
            ("swapped_bare_prompt", "direct", swapped),
        ):
            messages = render_prompt(
                row.pair, pair, row.pair.culture, prompts.language, form=form, folder=prompts.folder()
            )
            made[name] = make_prompt(tokenizer, messages, chat=chat)
        out.append(made)
    return out
