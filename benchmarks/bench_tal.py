"""What R_appr costs: a training step with it against the step with R_corr alone, split into its parts.

``python benchmarks/bench_tal.py [--model smollm2-135m] [--steps 6]`` prints JSON: medians in seconds, and the ratios.
Both trainers take the same prompts and the same fixed-length outputs in turn, in one process, so that the ratio does
not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--group", type=int, default=4)
    parser.add_argument("--new-tokens", type=int, default=48)
    arguments = parser.parse_args()

    from transformers import AutoTokenizer

    from small_models import model_folder

    folder = str(model_folder(arguments.model))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with tempfile.TemporaryDirectory() as out:
        trainers = {weight: make(folder, tokenizer, weight, out, arguments) for weight in (0.0, 1.0)}
        parts: dict[float, list[dict[str, float]]] = {0.0: [], 1.0: []}
        for step in range(arguments.steps + 1):
            for weight in (0.0, 1.0) if step % 2 else (1.0, 0.0):
                measured = one_step(trainers[weight], step, arguments)
                if step:  # the first warms caches up
                    parts[weight].append(measured)
    alone, both = (median(parts[weight]) for weight in (0.0, 1.0))
    result = {
        "model": arguments.model,
        "batch": arguments.batch,
        "group": arguments.group,
        "prompt_tokens": 50,
        "new_tokens": arguments.new_tokens,
        "seconds_R_corr": alone,
        "seconds_R_corr_and_R_appr": both,
        "step_ratio": statistics.median(b["step"] / a["step"] for a, b in zip(parts[0.0], parts[1.0], strict=True)),
        "rewards_share_of_step": both["rewards"] / both["step"],
    }
    print(json.dumps(result, indent=1))


def median(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(row[name] for row in rows), 3) for name in rows[0]}


def make(folder, tokenizer, weight, out, arguments):
    from datasets import Dataset

    from tal_rlvr.pairs import Pair, both_orders
    from tal_rlvr.prompting import PromptConfig
    from tal_rlvr.reward_functions import RewardConfig
    from tal_rlvr.trainer import ThinkAsLocalsTrainer, paper_config, training_rows

    words = [
        "rice",
        "bread",
        "noodles",
        "soup",
        "tea",
        "coffee",
        "football",
        "baseball",
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
    prompts = PromptConfig(style="compact", chat="no")
    settings = paper_config(
        output_dir=out,
        use_cpu=True,
        bf16=False,
        activation_checkpointing=False,
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
        Dataset.from_list(training_rows(rows, tokenizer, prompts)),
        tokenizer,
        rewards=RewardConfig(criteria_weight=weight),
    )
    trainer.create_optimizer()
    trainer.current_gradient_accumulation_steps = 1
    return trainer


def one_step(trainer, step, arguments) -> dict[str, float]:
    """Seconds of generation, rewards, log-probabilities (reference) and forward-backward-update of one step."""
    clock = {"generation": 0.0, "rewards": 0.0}
    generate, rewards = trainer._generate_single_turn, trainer._calculate_rewards

    def timed(name, function):
        def call(*given, **named):
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
    trainer.state.global_step = step  # another policy than before: the z-free terms are computed anew
    started = time.perf_counter()
    inputs = trainer._generate_and_score_completions(batch)
    scored = time.perf_counter()
    loss = trainer.compute_loss(trainer.model, inputs)
    loss.backward()
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
