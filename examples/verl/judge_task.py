"""The Think-as-Locals task for verl (0.9): its data files, and R_corr as its reward function.

    python examples/verl/judge_task.py run.toml data/judge
    sh examples/verl/train.sh MODEL data/judge

The first writes ``train.parquet`` and ``held-out.parquet`` from the mix and the prompts of a
configuration of ``carb train``; the second starts verl's GRPO with ``compute_score`` as its
``reward.custom_reward_function``. R_appr needs the policy's own probabilities, which verl's reward
functions are not given: here is R_corr alone, and form is logged.
"""

# ruff: noqa: T201 - a script, which prints

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tal_rlvr import (
    Judgement,
    TrainConfig,
    correctness_reward,
    load_config,
    parse_judgement,
    render_prompt,
)
from tal_rlvr.judgement import holds_verdict
from tal_rlvr.mix import ordered


def compute_score(
    data_source: str,  # noqa: ARG001 - verl passes it by name
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    **_: Any,
) -> dict[str, float]:
    """verl's reward function: ``score`` is R_corr (+1 or -1), and the other values are logged."""
    # where a response shows a verdict, which the judge may copy, only a well-formed judgement has
    # one
    judgement = parse_judgement(solution_str, lenient=not (extra_info or {}).get("strict", True))
    return {
        "score": correctness_reward([judgement], [ground_truth])[0],
        "well_formed": float(isinstance(judgement, Judgement)),
        "readable": float(judgement.verdict is not None),
    }


def rows(config: TrainConfig, part: str) -> list[dict[str, Any]]:
    """Pairs of one part of the mix, each in both orders, as verl reads them."""
    parts = config.mix.mixed()[0]
    pairs = parts.train if part == "train" else parts.held_out
    found = []
    for row in ordered(pairs, seed=config.seed, shuffle=part == "train"):
        pair, prompts = row.pair, config.prompts
        shown = (row.first, row.second)
        messages = render_prompt(
            pair, shown, pair.culture, prompts.language, folder=prompts.folder()
        )
        found.append(
            {
                "data_source": "carb-judge",
                "prompt": messages,
                "ability": "judging",
                "reward_model": {"style": "rule", "ground_truth": row.label},
                "extra_info": {
                    "id": f"{pair.id}/{row.label}",
                    "source_item": pair.source_item,
                    "culture": pair.culture,
                    "language": pair.language,
                    "strict": holds_verdict(messages),
                },
            }
        )
    return found


def main(config_file: str, folder: str) -> int:
    config = load_config(config_file)
    Path(folder).mkdir(parents=True, exist_ok=True)
    for part in ("train", "held-out"):
        written = rows(config, part)
        pl.DataFrame(written).write_parquet(Path(folder) / f"{part}.parquet")
        print(f"{len(written)} rows in {folder}/{part}.parquet")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
