"""DPO of a policy against a scorer, on TRL: its own samples, ranked by the scorer, are the preferences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from carb_data import CarbError
from carb_data.extras import require
from carb_data.waiting import wait_for
from carb_scorers import Scorer
from carb_scorers.bon import score_pool
from tal_rlvr.policy.alarms import Samples
from tal_rlvr.policy.callbacks import PolicyWatch, number, tell
from tal_rlvr.policy.config import PolicyConfig
from tal_rlvr.policy.divergence import Forward
from tal_rlvr.policy.evaluating import OnLog, TaskPart, sample
from tal_rlvr.policy.grpo import trainer_arguments
from tal_rlvr.policy.models import load_policy, lora, rows_of, save
from tal_rlvr.policy.results import LoggedStep
from tal_rlvr.policy.rewards import preference_pairs


def optimise(
    config: PolicyConfig, part: TaskPart, scorer: Scorer, report: OnLog
) -> tuple[Path, list[LoggedStep], Samples, int, int]:
    """Sample, score, pair best with worst, and train with ``trl.DPOTrainer``.

    Source: Rafailov et al. 2023, NeurIPS, equation 7.

    Returns:
        the model's folder, the curve, the samples looked at by step, how many samples could not be scored, and the
        number of pairs.

    Raises:
        CarbError: no prompt gives a preference.
    """
    trl = require("trl", package="tal-rlvr", extra="train")
    datasets = require("datasets", package="tal-rlvr", extra="train")
    pool = sample(config, config.policy, part, config.generations, "train", report)
    scores = wait_for(lambda: score_pool(pool, part, scorer, config.out / "scores", seed=config.seed))
    pairs = preference_pairs(pool, scores)
    if not pairs:
        raise CarbError("The scorer prefers no sample to another of the same prompt; there is nothing to learn from.")
    model, tokenizer, ends = load_policy(config, one_line=part.one_line)
    chat = bool(tokenizer.chat_template)
    prompts = {row["prompt_id"]: row["prompt"] for row in rows_of(config, part, tokenizer)}
    end = "\n" if part.one_line and not chat else ""

    def answer(text: str) -> object:
        return [{"role": "assistant", "content": text}] if chat else f" {text}{end}"

    rows = [{"prompt": prompts[key], "chosen": answer(good), "rejected": answer(bad)} for key, good, bad in pairs]
    arguments = trl.DPOConfig(
        per_device_train_batch_size=config.prompts_per_step,
        **trainer_arguments(config),
    )
    trainer = trl.DPOTrainer(
        model=model,
        args=arguments,
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=tokenizer,
        peft_config=lora(config),
    )
    tell(trainer, "dpo", config.steps, report, {"loss": "loss", "rewards/margins": "margin"})
    watch = PolicyWatch(config, part, scorer, tokenizer)
    watch.on(trainer, lambda model: _without_adapter(model) if config.lora_rank else trainer.ref_model)
    report("dpo", 0, config.steps, "steps")
    trainer.train()
    folder = config.out / "model"
    save(trainer, tokenizer, folder, ends)
    unscored = sum(len(pool.samples[key]) for key in scores.errors)
    return folder, _curve(trainer.state.log_history, watch.points), watch.samples, unscored, len(pairs)


def _curve(logs: Sequence[Mapping[str, Any]], looks: Mapping[int, LoggedStep]) -> list[LoggedStep]:
    """Every logged step, with what a look at it found."""
    found = dict(looks)
    for row in logs:
        if "rewards/margins" in row:
            step = int(row["step"])
            told = {"margin": number(row, "rewards/margins"), "loss": number(row, "loss")}
            found[step] = found.get(step, LoggedStep(step=step)).model_copy(update=told)
    return [found[step] for step in sorted(found)]


def _without_adapter(model: Any) -> Forward:
    """The model as it was before its adapter."""

    def forward(**given: Any) -> Any:
        with model.disable_adapter():
            return model(**given)

    return forward
