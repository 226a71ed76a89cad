"""GRPO with the rewards of Think-as-Locals, on TRL's trainer."""

from collections.abc import Sequence
from typing import Any

from carb_data import require
from carb_scorers.models.shared_prefix import dense_head
from tal_rlvr.judge_prompts import PromptConfig, render_prompt
from tal_rlvr.preferences import OrderedPair
from tal_rlvr.trl_rewards import CorrectnessFunction, CriteriaFunction, FormatFunction, RewardConfig
from tal_rlvr.verdict_tokens import make_prompt, verdict_tokens

require("trl", "tal-rlvr[train]")
from trl import GRPOConfig, GRPOTrainer  # noqa: E402 - the line above names the missing extra

PAPER: dict[str, Any] = {
    "loss_type": "grpo",
    "importance_sampling_level": "token",
    "scale_rewards": "group",
    "multi_objective_aggregation": "sum_then_normalize",
    "use_bias_correction_kl": False,
    "disable_dropout": True,
    "mask_truncated_completions": False,
    # a weight of vLLM's log-probabilities against the trainer's, which the paper does not have
    "vllm_importance_sampling_correction": False,
    # the paper has a KL term; its weight is not known to us, and 0.04 is GRPO's first
    # (DeepSeekMath)
    "beta": 0.04,
    "epsilon": 0.2,
}
"""TRL settings that make its loss the paper's objective:

``mean over the group of min(rho A, clip(rho, 1 - eps, 1 + eps) A) - beta KL(pi || pi_ref)`` with
``A = (R - mean) / (std + 1e-4)`` within the group, token by token, averaged over each output and
then over outputs (Zhang et al. 2025, section 5; Shao et al. 2024, arXiv 2402.03300, equation 3).
TRL's own defaults differ.
"""


def paper_config(**overrides: Any) -> GRPOConfig:
    """TRL's ``GRPOConfig`` with the paper's objective (``PAPER``).

    The objective is GRPO's (Zhang et al. 2025, arXiv 2509.21798, section 5; Shao et al. 2024, arXiv
    2402.03300, equation 3).

    Args:
        overrides: Settings of ``GRPOConfig`` by name, which replace the paper's; TRL's other losses
            are allowed.
    """
    return GRPOConfig(**{**PAPER, "report_to": "none", **overrides})


class ThinkAsLocalsTrainer(GRPOTrainer):  # type: ignore[misc]  # TRL is untyped
    """TRL's ``GRPOTrainer`` with the reward R = R_corr + lambda R_appr (Zhang et al. 2025, arXiv
    2509.21798, section 5).

    R_corr pays for right verdicts (``correctness_reward``), and R_appr for criteria that help to
    them (``criteria_reward``). With the settings of ``paper_config``, advantages are
    ``(R - mean) / (max(std, floor) + 1e-4)`` within the outputs of one prompt. ``rewards`` gives
    the floor.

    Rows of ``train_dataset`` are those of ``training_rows``. Everything else of TRL works as it
    does there. LoRA comes by ``peft_config``, vLLM rollouts by ``use_vllm``, evaluation and the
    best checkpoint by ``eval_strategy`` and ``load_best_model_at_end``, accelerate, DeepSpeed and
    FSDP by their launchers, resuming by ``train(resume_from_checkpoint=...)``.

    Args:
        model: folder or hub id (the KL reference is reloaded from it), or a model.
        args: the training arguments, from ``paper_config``.
        train_dataset: the rows that ``training_rows`` makes.
        processing_class: the tokenizer that belongs to the model.
        rewards: the rewards' weights and forms.
        direct: whether outputs are verdicts without reasoning; R_appr is then left out.

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
            self.criteria_function = CriteriaFunction(processing_class, tokens, rewards)
            functions.append(self.criteria_function)
            weights.append(rewards.criteria_weight)
        functions.append(
            FormatFunction(processing_class, direct=direct)
        )  # measured even where it weighs nothing
        weights.append(rewards.format_weight)
        args.reward_weights = weights
        self._floor = rewards.floor
        super().__init__(
            model=model,
            reward_funcs=functions,
            args=args,
            train_dataset=train_dataset,
            processing_class=processing_class,
            **options,
        )
        for scored in filter(None, (self.model, self.ref_model)):
            dense_head(self.accelerator.unwrap_model(scored))
        if self.criteria_function is not None:
            self.criteria_function.bind(self)

    def _calculate_rewards(self, *given: Any) -> Any:
        """TRL's rewards of all processes, ``(outputs, functions)``; how far advantages are damped
        is kept beside."""
        rewards = super()._calculate_rewards(*given)
        size = self.num_generations_eval
        if self.model.training:
            size = self.num_generations
        weighed = rewards * self.reward_weights.to(rewards.device)
        groups = weighed.nansum(dim=1).view(-1, size)
        spread = groups[:, 0] * 0
        if size > 1:
            spread = groups.std(dim=1)
        damping = (spread + 1e-4) / (spread.clamp(min=self._floor) + 1e-4)
        self._damping = damping.repeat_interleave(size)
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        """TRL's batch with advantages of ``(R - mean) / (max(std, floor) + 1e-4)``."""
        out = super()._generate_and_score_completions(inputs)
        scaled = (
            self.scale_rewards == "group"
            and self.multi_objective_aggregation == "sum_then_normalize"
        )
        if scaled and self._floor > 0:
            rows_here = len(out["advantages"])
            start = self.accelerator.process_index * rows_here
            out["advantages"] = out["advantages"] * self._damping[start : start + rows_here]
        return out


def training_rows(
    rows: Sequence[OrderedPair], tokenizer: Any, prompts: PromptConfig, *, direct: bool = False
) -> list[dict[str, Any]]:
    """Rows for ``ThinkAsLocalsTrainer``: ``prompt``, ``swapped_prompt`` (the responses in the other
    order), ``responses`` (both texts as shown) and ``label``."""
    chat = prompts.is_chat(tokenizer)

    def made(row: OrderedPair, shown: tuple[str, str]) -> Any:
        messages = render_prompt(
            row.pair,
            shown,
            row.pair.culture,
            prompts.language,
            direct=direct,
            folder=prompts.folder(),
        )
        return make_prompt(tokenizer, messages, chat=chat)

    return [
        {
            "prompt": made(row, (row.first, row.second)),
            "swapped_prompt": made(row, (row.second, row.first)),
            "responses": [row.first, row.second],
            "label": row.label,
        }
        for row in rows
    ]
