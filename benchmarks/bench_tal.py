"""Think-as-Locals: what R_appr costs.

``python benchmarks/bench_tal.py [--model FOLDER]``: a step with R_appr against the step with R_corr
alone, split into generation, rewards, log-probabilities and backward, as JSON. Both trainers take
the same prompts and outputs of the same length in turn, in one process, so that the ratio does not
depend on what else the machine does. Without ``--model`` SmolLM2-135M-Instruct is used (see
``tests/small_models.py``).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--group", type=int, default=4)
    parser.add_argument("--new-tokens", type=int, default=40)
    print(json.dumps(cost(parser.parse_args()), indent=1))


def cost(
    arguments: argparse.Namespace, on_step: Callable[..., None] = lambda **_: None
) -> dict[str, Any]:
    """Medians of the parts of a step in seconds, and the ratio of the steps, pair by pair; each
    pair is given to ``on_step`` when it is done."""
    from transformers import AutoTokenizer

    from small_models import model_folder

    folder = arguments.model or str(model_folder("smollm2-135m"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    alone: list[dict[str, float]] = []
    both: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as out:
        trainers = [make(folder, tokenizer, weight, out, arguments) for weight in (0.0, 1.0)]
        for step in range(arguments.steps + 1):
            for place in (0, 1) if step % 2 else (1, 0):
                measured = one_step(trainers[place], step, arguments)
                if step:  # the first warms caches up
                    (alone, both)[place].append(measured)
            if step:
                on_step(step=step, seconds_R_corr=alone[-1], seconds_R_corr_and_R_appr=both[-1])
        prompt = len(tokenizer(trainers[0].train_dataset[0]["prompt"])["input_ids"])
    ratios = [round(b["step"] / a["step"], 3) for a, b in zip(alone, both, strict=True)]
    return {
        "model": folder,
        "batch": arguments.batch,
        "group": arguments.group,
        "prompt_tokens": prompt,
        "new_tokens": arguments.new_tokens,
        "seconds_R_corr": medians(alone),
        "seconds_R_corr_and_R_appr": medians(both),
        "step_ratios": ratios,
        "median_step_ratio": round(statistics.median(ratios), 3),
        # of one process: the other parts of the step are the same work in both
        "ratio_by_own_time": round(
            statistics.median(b["step"] / (b["step"] - b["rewards"]) for b in both), 3
        ),
    }


def medians(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(row[name] for row in rows), 3) for name in rows[0]}


def make(
    folder: str, tokenizer: Any, weight: float, out: str, arguments: argparse.Namespace
) -> Any:
    """A trainer on made-up questions; R_appr is left out where its weight is 0."""
    import torch
    from datasets import Dataset

    from tal_rlvr.judge_prompts import PromptConfig
    from tal_rlvr.preferences import Pair, both_orders
    from tal_rlvr.trainer import ThinkAsLocalsTrainer, paper_config, training_rows
    from tal_rlvr.trl_rewards import RewardConfig

    words = [
        "rice",
        "bread",
        "noodles",
        "soup",
        "tea",
        "coffee",
        "football",
        "school",
        "holiday",
        "family",
        "market",
    ]
    pairs = [
        Pair(
            id=f"{a}-{b}",
            source_item=a,
            prompt=f"What do people there think of first when they hear the word {a}?",
            chosen=f"{a} with {b}",
            rejected=f"{b} without {a}",
            culture="thai",
            language="en",
        )
        for a in words
        for b in words
        if a != b
    ]
    rows = [row for pair in pairs for row in both_orders(pair)]
    settings = paper_config(
        output_dir=out,
        use_cpu=not torch.cuda.is_available(),
        bf16=torch.cuda.is_available(),
        gradient_checkpointing=False,
        dataloader_pin_memory=False,
        per_device_train_batch_size=arguments.batch,
        num_generations=arguments.group,
        max_completion_length=arguments.new_tokens,
        max_steps=arguments.steps + 1,
        save_strategy="no",
        disable_tqdm=True,
        generation_kwargs={"min_new_tokens": arguments.new_tokens},
    )
    trainer = ThinkAsLocalsTrainer(
        folder,
        settings,
        Dataset.from_list(training_rows(rows, tokenizer, PromptConfig(style="compact", chat="no"))),
        tokenizer,
        rewards=RewardConfig(criteria_weight=weight),
    )
    trainer.create_optimizer()
    trainer.current_gradient_accumulation_steps = 1
    return trainer


def one_step(trainer: Any, step: int, arguments: argparse.Namespace) -> dict[str, float]:
    """Seconds of generation, rewards, reference log-probabilities, and forward, backward and update
    of one step."""
    clock = {"generation": 0.0, "rewards": 0.0}
    generate, rewards = trainer._generate_single_turn, trainer._calculate_rewards

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                return function(*given, **named)
            finally:
                clock[name] += time.perf_counter() - started

        return call

    trainer._generate_single_turn = timed("generation", generate)
    trainer._calculate_rewards = timed("rewards", rewards)
    groups = arguments.batch // arguments.group
    count = len(trainer.train_dataset)
    rows = [trainer.train_dataset[(step * groups + n) % count] for n in range(groups)]
    batch = [row for row in rows for _ in range(arguments.group)]
    trainer.model.train()
    trainer.state.global_step = (
        step  # another policy than before: the z-free terms are computed anew
    )
    started = time.perf_counter()
    inputs = trainer._generate_and_score_completions(batch)
    scored = time.perf_counter()
    trainer.compute_loss(trainer.model, inputs).backward()
    trainer.optimizer.step()
    trainer.optimizer.zero_grad()
    ended = time.perf_counter()
    trainer._generate_single_turn, trainer._calculate_rewards = generate, rewards
    clock["log_probabilities"] = scored - started - sum(clock.values())
    clock["backward_and_update"] = ended - scored
    clock["step"] = ended - started
    return clock


if __name__ == "__main__":
    main()
