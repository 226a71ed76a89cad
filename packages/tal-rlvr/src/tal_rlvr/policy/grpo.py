"""GRPO of a policy against a scorer, on TRL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from carb_data.extras import require
from carb_scorers import Scorer
from tal_rlvr.policy.alarms import Samples, text_stats
from tal_rlvr.policy.callbacks import number, tell
from tal_rlvr.policy.config import PolicyConfig
from tal_rlvr.policy.evaluating import OnLog, TaskPart
from tal_rlvr.policy.models import load_policy, lora, rows_of, save
from tal_rlvr.policy.results import LoggedStep
from tal_rlvr.policy.rewards import ScorerReward


def optimise(
    config: PolicyConfig, part: TaskPart, scorer: Scorer, report: OnLog
) -> tuple[Path, list[LoggedStep], Samples, int]:
    """Train with ``trl.GRPOTrainer``; token-level ratios, group-scaled advantages, a KL penalty to the start.

    Source: Shao et al. 2024, arXiv:2402.03300, equation 3, which is TRL's ``loss_type="grpo"``.

    Returns:
        the model's folder, the curve, the samples by step, and how many of them could not be scored.
    """
    trl = require("trl", package="tal-rlvr", extra="train")
    datasets = require("datasets", package="tal-rlvr", extra="train")
    model, tokenizer, ends = load_policy(config, one_line=part.one_line)
    by_id = {prompt.id: prompt for prompt in part.prompts}
    seen: dict[int, tuple[list[str], list[str]]] = {}

    def keep(step: int, prompt_ids: Sequence[str], answers: Sequence[str]) -> None:
        keys, texts = seen.setdefault(step + 1, ([], []))
        keys.extend(prompt_ids)
        texts.extend(answers)

    reward = ScorerReward(scorer, by_id, one_line=part.one_line, on_answers=keep)
    arguments = trl.GRPOConfig(
        loss_type="grpo",
        importance_sampling_level="token",
        scale_rewards="group",
        use_bias_correction_kl=False,
        disable_dropout=True,
        num_generations=config.generations,
        per_device_train_batch_size=config.generations * config.prompts_per_step,
        max_completion_length=config.max_new_tokens,
        temperature=config.temperature,
        **trainer_arguments(config),
    )
    trainer = trl.GRPOTrainer(
        model=model,
        reward_funcs=reward,
        args=arguments,
        train_dataset=datasets.Dataset.from_list(rows_of(config, part, tokenizer)),
        processing_class=tokenizer,
        peft_config=lora(config),
    )
    tell(trainer, "grpo", config.steps, report, {"reward": "reward", "kl": "KL per token"})
    report("grpo", 0, config.steps, "steps")
    trainer.train()
    folder = config.out / "model"
    save(trainer, tokenizer, folder, ends)
    curve = []
    for row in trainer.state.log_history:
        if "reward" in row:
            keys, texts = seen.get(int(row["step"]), ([], []))
            stats = text_stats(texts, keys, [by_id[key].language for key in keys])
            curve.append(_point(row, stats if texts else None))
    return folder, curve, seen, reward.failed


def _point(row: Mapping[str, Any], stats: Any) -> LoggedStep:
    per_token, tokens = number(row, "kl"), number(row, "completions/mean_length")
    return LoggedStep(
        step=int(row["step"]),
        reward=number(row, "reward"),
        reward_sd=number(row, "reward_std"),
        kl=None if per_token is None or tokens is None else per_token * tokens,
        loss=number(row, "loss"),
        stats=stats,
    )


def trainer_arguments(config: PolicyConfig) -> dict[str, Any]:
    """Arguments of TRL's trainers that do not depend on the method."""
    torch = require("torch", package="tal-rlvr", extra="train")
    here: dict[str, Any] = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False}
    if torch.cuda.is_available():
        here = {"bf16": torch.cuda.is_bf16_supported()}
    return here | {
        "output_dir": str(config.out / "checkpoints"),
        "max_steps": config.steps,
        "learning_rate": config.learning_rate,
        "beta": config.beta,
        "logging_steps": config.log_every,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "seed": config.seed,
    }
