"""A whole run: contamination check, warm-up, GRPO, evaluation before and after."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from carb_data import CarbError
from carb_data.extras import require
from carb_data.models import Frozen
from carb_scorers.models.source import model_source
from tal_rlvr.config import TrainConfig, load_config
from tal_rlvr.held_out import HeldOutFigures
from tal_rlvr.mix import ordered
from tal_rlvr.paired import Difference

RESULT = "result.json"
CONFIG = "config.json"
THINK = "think.json"
"""Beside a trained model: which prompt it was trained with."""


class Stage(HeldOutFigures):
    """The held-out evaluation of one model: ``HeldOut`` without its texts, which are in ``held-out/STAGE.json``."""

    name: str
    """``start`` (as the model came), ``before`` (after the warm-up) or ``after``."""


class TrainResult(Frozen):
    """What a run did."""

    out: str
    model: str
    """Folder of the trained model: ``think:MODEL`` scores with it."""
    seed: int
    steps: int
    train_pairs: int
    held_out_pairs: int
    dropped_pairs: int
    """Training pairs left out because of the contamination check."""
    too_long_pairs: int = 0
    """Training pairs left out because their prompt does not fit (``max_prompt_tokens``)."""
    stages: tuple[Stage, ...]
    changes: dict[str, Difference]
    """Held-out accuracy after GRPO minus before it, by decoding, paired by source item."""
    curve: tuple[dict[str, float], ...]
    """What was logged at each step."""


OnLog = Callable[[str, int, Mapping[str, float]], None]
"""``(stage, step, values)``: called in the main process whenever a trainer logs."""
OnNote = Callable[[str], object]
"""Called in the main process with a sentence that a user should read, such as how many pairs are left out."""


def run(
    config: str | Path | TrainConfig,
    *,
    resume: bool = False,
    overrides: dict[str, Any] | None = None,
    on_log: OnLog | None = None,
    on_note: OnNote | None = None,
) -> TrainResult:
    """Train as a preset, a TOML file or a configuration says; what ``carb train --config`` runs.

    Args:
        config: the configuration, in any form that ``load_config`` takes.
        resume: whether to go on from the last checkpoint in the output folder; the result is that of a run that never
            stopped.
        overrides: the values that replace those of the file.
        on_log: a function that receives each log; ``OnLog`` explains it.
        on_note: a function that receives messages; ``OnNote`` explains it. Nothing is ever printed to standard
            output.

    Raises:
        CarbError: the configuration, the data or the model are not usable, or training data holds evaluation items.
        MissingExtraError: ``pip install 'tal-rlvr[train]'`` is needed.
    """
    loaded = config if isinstance(config, TrainConfig) else load_config(config, overrides)
    return train(loaded, resume=resume, on_log=on_log, on_note=on_note)


def train(
    config: TrainConfig, *, resume: bool = False, on_log: OnLog | None = None, on_note: OnNote | None = None
) -> TrainResult:
    """Check the data, warm up, evaluate, train with GRPO, evaluate. See ``run``."""
    model_source(config.model)  # a typing error is told before TRL is imported and a hub is asked
    require("trl", package="tal-rlvr", extra="train")
    from tal_rlvr import pipeline, preparing

    out = config.out
    finished = out / RESULT
    if finished.is_file():
        raise CarbError(f"{out} holds a finished run. Choose another 'out', or remove it.")
    _check_begun(config, resume)
    preparing.check_backend(config)
    out.mkdir(parents=True, exist_ok=True)
    place = pipeline.TrainingRun(config, on_log, on_note)
    parts, dropped = preparing.checked_parts(config, on_note)
    stages: list[Any] = []
    with place:
        parts, lengths = place.fit(parts)
        held_out = ordered(parts.held_out, shuffle=False)
        if config.evaluation.before == "both":
            stages += place.evaluate("start", config.model, held_out)
        base = place.warm_up(parts.train)
        stages += place.evaluate("before", base, held_out)
        model, curve, steps = place.reinforce(base, parts.train, resume=resume)
        stages += place.evaluate("after", model, held_out)
    result = TrainResult(
        out=str(out),
        model=str(model),
        seed=config.seed,
        steps=steps,
        train_pairs=len(parts.train),
        held_out_pairs=len(parts.held_out),
        dropped_pairs=dropped,
        too_long_pairs=lengths.too_long,
        stages=tuple(Stage(name=name, **held.model_dump(exclude={"outcomes"})) for name, held in stages),
        changes=preparing.changes(stages),
        curve=tuple(curve),
    )
    if place.is_main:
        write_json(finished, result.model_dump_json(indent=1))
    return result


def _check_begun(config: TrainConfig, resume: bool) -> None:
    """A folder with a run that was begun is taken up only when asked to, and only by the same run."""
    try:
        begun = (config.out / CONFIG).read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    if not resume:
        raise CarbError(f"{config.out} holds a run that was begun. Resume it, choose another 'out', or remove it.")
    if TrainConfig.model_validate_json(begun) != config:
        raise CarbError(
            f"{config.out} holds a run with other settings (see {config.out / CONFIG}). Resume it with the same ones, "
            f"or choose another 'out'."
        )


def write_json(path: Path, content: str) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(content + "\n", encoding="utf-8")
    draft.replace(path)


def read_result(folder: str | Path) -> TrainResult:
    """The result of a finished run.

    Raises:
        CarbError: there is none.
    """
    path = Path(folder) / RESULT
    try:
        return TrainResult.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise CarbError(f"{path} is not the result of a training run: {error}.") from None
