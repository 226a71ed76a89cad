"""Think-as-Locals: what R_appr costs, and what its terms measure.

``python benchmarks/bench_tal.py cost [--model FOLDER]``: a step with R_appr against the step with R_corr alone,
split into generation, rewards, log-probabilities and backward. Both trainers take the same prompts and outputs of the
same length in turn, in one process, so that the ratio does not depend on what else the machine does.

``python benchmarks/bench_tal.py terms --run RUN``: R_appr of the outputs that a finished run kept, in the
paper's form and the verdict-normalised one, with the judge's own prompt and with a direct one for the z-free term, and
besides of the same outputs with their criteria replaced by another item's.

``python benchmarks/bench_tal.py table RUN... [--figure FILE]``: finished runs as Markdown, held-out accuracy and
training curves.

``python benchmarks/bench_tal.py perturbed RUN... --data FILE``: how training changed what perturbations move, as
Markdown. The judges before and after GRPO score the English sets of FILE that have perturbed texts of every kind that
occurs in it, and on whose questions the run was not trained (``[evaluation] perturbed`` does the like within a run).
Scores are kept in ``RUN/perturbed``.

The first is taken where none is named. The first two print JSON. Without ``--model`` SmolLM2-135M-Instruct is used
(see ``tests/small_models.py``).
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
BLOCK = 10
"""Steps in a cell of the table of curves."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command")
    cost_parser = commands.add_parser("cost")
    cost_parser.add_argument("--model")
    cost_parser.add_argument("--steps", type=int, default=6)
    cost_parser.add_argument("--batch", type=int, default=8)
    cost_parser.add_argument("--group", type=int, default=4)
    cost_parser.add_argument("--new-tokens", type=int, default=40)
    terms_parser = commands.add_parser("terms")
    terms_parser.add_argument("--run", type=Path, required=True)
    terms_parser.add_argument("--stage", default="before-sample")
    terms_parser.add_argument("--limit", type=int, default=40, help="outputs to measure")
    table_parser = commands.add_parser("table")
    table_parser.add_argument("runs", type=Path, nargs="+")
    table_parser.add_argument("--figure", type=Path, help="an SVG file for the training curves")
    perturbed_parser = commands.add_parser("perturbed")
    perturbed_parser.add_argument("runs", type=Path, nargs="+")
    perturbed_parser.add_argument("--data", type=Path, required=True)
    perturbed_parser.add_argument("--limit", type=int, help="sets to score, drawn with seed 0")
    given = sys.argv[1:]
    arguments = parser.parse_args(given or ["cost"])
    if arguments.command == "table":
        print(table(arguments.runs))
        if arguments.figure is not None:
            draw(arguments.runs, arguments.figure)
        return
    if arguments.command == "perturbed":
        print(perturbed(arguments.runs, arguments.data, arguments.limit))
        return
    result = cost(arguments) if arguments.command == "cost" else terms(arguments)
    print(json.dumps(result, indent=1))


def cost(arguments: argparse.Namespace) -> dict[str, Any]:
    """Medians of the parts of a step in seconds, and the ratio of the steps, pair by pair."""
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
        "ratio_by_own_time": round(statistics.median(b["step"] / (b["step"] - b["rewards"]) for b in both), 3),
    }


def medians(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(row[name] for row in rows), 3) for name in rows[0]}


def make(folder: str, tokenizer: Any, weight: float, out: str, arguments: argparse.Namespace) -> Any:
    """A trainer on made-up questions; R_appr is left out where its weight is 0."""
    from datasets import Dataset

    from tal_rlvr.pairs import Pair, both_orders
    from tal_rlvr.prompting import PromptConfig
    from tal_rlvr.reward_functions import RewardConfig
    from tal_rlvr.trainer import ThinkAsLocalsTrainer, paper_config, training_rows

    words = ["rice", "bread", "noodles", "soup", "tea", "coffee", "football", "school", "holiday", "family", "market"]
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
        use_cpu=True,
        bf16=False,
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
    """Seconds of generation, rewards, reference log-probabilities, and forward, backward and update of one step."""
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
    trainer.state.global_step = step  # another policy than before: the z-free terms are computed anew
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


def terms(arguments: argparse.Namespace) -> dict[str, Any]:
    """Means over outputs of both terms and of R_appr, in nats, for each form of it."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from tal_rlvr.appropriateness import CriteriaCase, VerdictRow, criteria_reward
    from tal_rlvr.config import TrainConfig
    from tal_rlvr.held_out import HeldOut
    from tal_rlvr.mix import ordered
    from tal_rlvr.providers import ModelVerdicts
    from tal_rlvr.tokens import encode_prompt, reasoning_ids, verdict_tokens
    from tal_rlvr.trainer import training_rows

    config = TrainConfig.model_validate_json((arguments.run / "config.json").read_bytes())
    held = HeldOut.model_validate_json((arguments.run / "held-out" / f"{arguments.stage}.json").read_bytes())
    folder = arguments.run / ("model" if arguments.stage.startswith("after") else "warmup")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokens = verdict_tokens(tokenizer)
    measure = ModelVerdicts(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), tokens)
    known: dict[VerdictRow, tuple[float, float]] = {}

    def provider(wanted: Sequence[VerdictRow]) -> list[tuple[float, float]]:
        new = [row for row in dict.fromkeys(wanted) if row not in known]
        known.update(zip(new, measure(new), strict=True))
        return [known[row] for row in wanted]

    rows = training_rows(ordered(config.mix.parts().held_out, shuffle=False), tokenizer, config.prompts)
    if len(rows) != len(held.outcomes):
        raise SystemExit("The run's data has changed since.")
    rows, outcomes = rows[: arguments.limit], held.outcomes[: arguments.limit]
    own = [tuple(encode_prompt(tokenizer, row["prompt"])) for row in rows]
    bare = {
        "literal": [VerdictRow(prompt, tokens.marker) for prompt in own],
        "direct": [VerdictRow(tuple(encode_prompt(tokenizer, row["bare_prompt"])), tokens.marker) for row in rows],
    }
    written = [tokenizer(outcome.text, add_special_tokens=False)["input_ids"] for outcome in outcomes]
    z = [reasoning_ids(tokenizer, ids, tokens) for ids in written]
    result: dict[str, Any] = {"run": str(arguments.run), "stage": arguments.stage, "outputs": len(rows)}
    for kind, suffixes in {"own_criteria": z, "another_item_s_criteria": [*z[2:], *z[:2]]}.items():
        for normalise in (False, True):
            for baseline, without in bare.items():
                cases = [
                    CriteriaCase(VerdictRow(prompt, suffix), row, outcome.label)
                    for prompt, suffix, row, outcome in zip(own, suffixes, without, outcomes, strict=True)
                ]
                found = criteria_reward(cases, provider, normalise=normalise)
                means = [statistics.mean(column) for column in zip(*found, strict=True)]
                name = f"{kind}/{'normalised' if normalise else 'full_vocabulary'}/{baseline}"
                result[name] = dict(
                    zip(("R_appr", "with_criteria", "without_criteria"), (round(m, 3) for m in means), strict=True)
                )
    return result


def table(runs: Sequence[Path]) -> str:
    """Held-out accuracy before and after with 95% intervals, and blocks of the training curve."""
    from tal_rlvr.train import read_result

    def shown(value: Any, *, signed: bool = False) -> str:
        form = "+.2f" if signed else ".2f"
        return f"{value.mean:{form}} [{value.low:{form}}, {value.high:{form}}]"

    heads = ["run, decoding", "accuracy before", "after", "change, p", "same pick in both orders", "entropy"]
    heads += ["log π(j \\| z)", "R_appr"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    results = {folder: read_result(folder) for folder in runs}
    blocks = range(0, max(len(result.curve) for result in results.values()), BLOCK)
    curves = [
        "| run | " + " | ".join(f"steps {n + 1}-{n + BLOCK}" for n in blocks) + " |",
        "|---" * (len(blocks) + 1) + "|",
    ]
    for folder, result in results.items():
        for decoding, change in result.changes.items():
            before, after = (
                next(s for s in result.stages if s.name == name and s.decoding == decoding)
                for name in ("before", "after")
            )
            moved = [
                f"{getattr(before, name).mean:.2f} → {getattr(after, name).mean:.2f}"
                for name in ("consistency", "entropy", "with_criteria", "criteria_effect")
            ]
            lines.append(
                f"| {folder.name}, {decoding} | {shown(before.accuracy)} | {shown(after.accuracy)} | "
                f"{shown(change, signed=True)}, {change.p:.4f} | " + " | ".join(moved) + " |"
            )
        cells = [
            f"{statistics.mean(step['reward'] for step in block):+.2f}, "
            f"{statistics.mean(step['verdict_accuracy'] for step in block):.2f}"
            for block in (result.curve[start : start + BLOCK] for start in blocks)
            if block
        ]
        curves.append(f"| {folder.name} | " + " | ".join(cells) + " |")
    sizes = [
        f"{folder.name}: seed {result.seed}, {result.steps} steps, {result.stages[0].pairs} held-out pairs of "
        f"{result.stages[0].accuracy.n} source items, form kept {result.stages[0].format_rate.mean:.2f} before and "
        f"{result.stages[-1].format_rate.mean:.2f} after."
        for folder, result in results.items()
    ]
    return "\n".join([*lines, "", *sizes, "", "Mean reward and verdict accuracy of the sampled outputs:", "", *curves])


def perturbed(runs: Sequence[Path], data: Path, limit: int | None) -> str:
    """A row for each run and perturbation: mean change before and after in within-item spreads, and their ratio."""
    from carb_metrics import sensitivity_change
    from tal_rlvr import read_perturbed

    heads = ["run", "perturbation", "pairs", "before", "after", "after / before"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for run in runs:
        if read_perturbed(run) is None:
            score_sets(run, data, limit)
        scores = read_perturbed(run)
        assert scores is not None
        lost = scores.frame["score"].null_count() / len(scores)
        for row in (kind.model_dump() for kind in sensitivity_change(scores, "before", "after").kinds):
            values = ["–" if row[name] is None else f"{row[name]:.2f}" for name in ("before", "after", "factor")]
            low, high = ("–" if row[name] is None else f"{row[name]:.2f}" for name in ("factor_low", "factor_high"))
            cells = [run.name, row["perturbation"], str(row["n"]), values[0], values[1], f"{values[2]} [{low}, {high}]"]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append(f"| {run.name} | *texts without a score* | | {100 * lost:.0f}% of both | | |")
    return "\n".join(lines)


def score_sets(run: Path, data: Path, limit: int | None) -> None:
    """Let a run's judges before and after training score sets that are new to them."""
    from carb_data import Dataset, load
    from tal_rlvr.config import PerturbedSets, TrainConfig
    from tal_rlvr.perturbed import score_perturbed

    config = TrainConfig.model_validate_json((run / "config.json").read_bytes())
    trained_on = {pair.source_item for pair in config.mix.parts().train}
    every = load(data).filter(languages=["en"])
    kinds = {text.perturbation for item in every for text in item.perturbed}
    kept = [
        item
        for item in every
        if item.source_item not in trained_on and {text.perturbation for text in item.perturbed} == kinds
    ]
    sets = run / "perturbed" / "sets.jsonl"
    sets.parent.mkdir(exist_ok=True)
    Dataset(random.Random(0).sample(kept, min(limit or len(kept), len(kept)))).save(sets)
    evaluation = config.evaluation.model_copy(update={"perturbed": PerturbedSets(path=str(sets))})
    config = config.model_copy(update={"evaluation": evaluation})
    warm = run / "warmup"
    for name, model in (("before", warm if warm.is_dir() else Path(config.model)), ("after", run / "model")):
        score_perturbed(config, name, str(model)).save(sets.with_name(f"{name}.parquet"))


def draw(runs: Sequence[Path], path: Path) -> None:
    """Reward, verdict accuracy and entropy of the sampled outputs at each step, as means of the last ``BLOCK``."""
    import altair as alt

    from carb_cli.figures.theme import SERIES, themed, to_svg
    from tal_rlvr.train import read_result

    measures = {"reward": "reward", "verdict_accuracy": "verdict accuracy", "entropy": "entropy (nats)"}
    rows = [
        {
            "run": folder.name,
            "step": step + 1,
            "measure": title,
            "value": statistics.mean(entry[name] for entry in curve[max(0, step + 1 - BLOCK) : step + 1]),
        }
        for folder in runs
        for curve in [read_result(folder).curve]
        for step in range(len(curve))
        for name, title in measures.items()
    ]
    panels = [
        alt.Chart(alt.Data(values=[row for row in rows if row["measure"] == title]))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("step:Q", title="step"),
            y=alt.Y("value:Q", title=title, scale=alt.Scale(zero=False)),
            color=alt.Color(
                "run:N",
                sort=[folder.name for folder in runs],
                scale=alt.Scale(range=list(SERIES)),
                legend=alt.Legend(title=None, orient="bottom", symbolStrokeWidth=3),
            ),
        )
        .properties(width=230, height=180)
        for title in measures.values()
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_svg(themed(alt.hconcat(*panels))), encoding="utf-8")


if __name__ == "__main__":
    main()
