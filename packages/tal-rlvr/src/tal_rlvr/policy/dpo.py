"""DPO of a policy against a scorer, on TRL: its own samples, ranked by the scorer, are the preferences."""

from __future__ import annotations

from pathlib import Path

import anyio

from carb_data import CarbError
from carb_data.extras import require
from carb_scorers import Scorer
from carb_scorers.bon import score_pool
from tal_rlvr.policy.config import PolicyConfig
from tal_rlvr.policy.grpo import number, on_this_machine, quiet
from tal_rlvr.policy.models import load_policy, lora, rows_of, save
from tal_rlvr.policy.rewards import preference_pairs
from tal_rlvr.policy.run import CurvePoint, OnLog, Part, sample


def optimise(
    config: PolicyConfig, part: Part, scorer: Scorer, report: OnLog
) -> tuple[Path, int, list[CurvePoint], int]:
    """Sample, score, pair best with worst, and train with ``trl.DPOTrainer``.

    Source: Rafailov et al. 2023, NeurIPS, equation 7.

    Returns:
        the model's folder, the number of pairs, the curve, and how many samples could not be scored.

    Raises:
        CarbError: no prompt gives a preference.
    """
    trl = require("trl", package="tal-rlvr", extra="train")
    datasets = require("datasets", package="tal-rlvr", extra="train")
    pool = sample(config, config.policy, part, config.generations, "train", report)
    scores = anyio.run(lambda: score_pool(pool, part, scorer, config.out / "scores", seed=config.seed))
    pairs = preference_pairs(pool, scores)
    if not pairs:
        raise CarbError("The scorer prefers no sample to another of the same prompt; there is nothing to learn from.")
    model, tokenizer = load_policy(config, one_line=part.one_line)
    chat = bool(tokenizer.chat_template)
    prompts = {row["prompt_id"]: row["prompt"] for row in rows_of(config, part, tokenizer)}
    end = "\n" if part.one_line and not chat else ""

    def answer(text: str) -> object:
        return [{"role": "assistant", "content": text}] if chat else f" {text}{end}"

    rows = [{"prompt": prompts[key], "chosen": answer(good), "rejected": answer(bad)} for key, good, bad in pairs]
    arguments = trl.DPOConfig(
        output_dir=str(config.out / "checkpoints"),
        max_steps=config.steps,
        learning_rate=config.learning_rate,
        beta=config.beta,
        per_device_train_batch_size=config.prompts_per_step,
        logging_steps=config.log_every,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=config.seed,
        **on_this_machine(),
    )
    trainer = trl.DPOTrainer(
        model=model,
        args=arguments,
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=tokenizer,
        peft_config=lora(config),
    )
    quiet(trainer)
    report("dpo", 0, config.steps, "steps")
    trainer.train()
    folder = config.out / "model"
    save(trainer, tokenizer, folder)
    curve = [
        CurvePoint(step=int(row["step"]), reward=number(row, "rewards/margins"), loss=number(row, "loss"))
        for row in trainer.state.log_history
        if "rewards/margins" in row
    ]
    unscored = sum(len(pool.samples[key]) for key in scores.errors)
    return folder, len(pairs), curve, unscored
