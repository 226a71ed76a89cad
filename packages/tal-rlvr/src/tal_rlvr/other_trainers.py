"""The judge's task for other trainers: rows as chat messages, and the rewards that need an output's text alone.

R_appr reads the policy's probabilities, which neither verl's reward functions nor ``verifiers`` are given: these train
with R_corr (the arm ``no-criteria``), and form is measured.

verl: ``python -m tal_rlvr.other_trainers CONFIG FOLDER`` writes ``train.parquet`` and ``held-out.parquet`` in its
layout, and ``compute_score`` is its ``reward.custom_reward_function``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from carb_data.models import Frozen
from tal_rlvr.config import TrainConfig, load_config
from tal_rlvr.correctness import correctness_reward
from tal_rlvr.judgement import Judgement, Verdict, parse_judgement
from tal_rlvr.mix import ordered
from tal_rlvr.pairs import OrderedPair
from tal_rlvr.prompting import PromptConfig
from tal_rlvr.prompts import holds_verdict, render_prompt

__all__ = ["JudgeRow", "compute_score", "judge_rows", "judged", "write_verl"]


class JudgeRow(Frozen):
    """One question to the judge: a pair in one order."""

    id: str
    """The pair's id and the right verdict: unique, and for logs alone."""
    source_item: str
    """What a split must not divide."""
    prompt: str
    """The user's message."""
    label: Verdict
    culture: str
    language: str
    strict: bool
    """Whether only a well-formed judgement has a verdict, since a response shows one that the judge may copy."""


def judge_rows(rows: Sequence[OrderedPair], prompts: PromptConfig, *, direct: bool = False) -> Iterator[JudgeRow]:
    """The rows of pairs in presented order.

    Args:
        rows: The pairs that ``tal_rlvr.mix.ordered`` gives.
        prompts: The settings of the prompt that is shown.
        direct: whether to ask for a verdict alone.
    """
    form = "direct" if direct else "think"
    for row in rows:
        pair, shown = row.pair, (row.first, row.second)
        (message,) = render_prompt(pair, shown, pair.culture, prompts.language, form=form, folder=prompts.folder())
        yield JudgeRow(
            id=f"{pair.id}/{row.label}",
            source_item=pair.source_item,
            prompt=message["content"],
            label=row.label,
            culture=pair.culture,
            language=pair.language,
            strict=holds_verdict(message["content"]),
        )


def judged(output: str, label: Verdict, *, strict: bool) -> dict[str, float]:
    """R_corr (+1 or -1), and whether the output is a well-formed judgement and has a readable verdict (0 or 1)."""
    judgement = parse_judgement(output, lenient=not strict)
    return {
        "R_corr": correctness_reward([judgement], [label])[0],
        "well_formed": float(isinstance(judgement, Judgement)),
        "readable": float(judgement.verdict is not None),
    }


def compute_score(
    data_source: str,  # noqa: ARG001 - verl passes it by name
    solution_str: str,
    ground_truth: Verdict,
    extra_info: Mapping[str, Any] | None = None,
    **_: Any,
) -> dict[str, float]:
    """verl's reward function: ``score`` is R_corr, and the other values are logged."""
    values = judged(solution_str, ground_truth, strict=bool((extra_info or {}).get("strict", True)))
    return {"score": values["R_corr"], **values}


def write_verl(config: TrainConfig, folder: Path) -> tuple[int, int]:
    """Write ``train.parquet`` and ``held-out.parquet`` as verl reads them; returns their numbers of rows.

    Raises:
        CarbError: see ``TrainingMix.mixed``.
    """
    import polars as pl

    folder.mkdir(parents=True, exist_ok=True)
    parts = config.mix.parts()
    counts = []
    for name, pairs in (("train", parts.train), ("held-out", parts.held_out)):
        rows = ordered(pairs, seed=config.seed, shuffle=name == "train")
        written = [
            {
                "data_source": "carb-judge",
                "prompt": [{"role": "user", "content": row.prompt}],
                "ability": "judging",
                "reward_model": {"style": "rule", "ground_truth": row.label},
                "extra_info": row.model_dump(include={"id", "source_item", "culture", "language", "strict"}),
            }
            for row in judge_rows(rows, config.prompts, direct=config.direct)
        ]
        pl.DataFrame(written).write_parquet(folder / f"{name}.parquet")
        counts.append(len(written))
    return counts[0], counts[1]


if __name__ == "__main__":
    write_verl(load_config(sys.argv[1]), Path(sys.argv[2]))
