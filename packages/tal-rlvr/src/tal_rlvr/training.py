"""A whole run: contamination check, warm-up, GRPO, evaluation before and after."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from carb_data import CarbError, Frozen, read_file, write_whole
from carb_metrics import Interval
from carb_scorers.models.source import model_source
from tal_rlvr.curve import svg
from tal_rlvr.held_out import HeldOutFigures, Named, compare_held_out
from tal_rlvr.mix import ordered
from tal_rlvr.train_config import HELD_OUT_SETS, OnLog, OnNote, TrainConfig, load_config, write_json

RESULT = "result.json"


class Stage(HeldOutFigures):
    """The held-out evaluation of one model: ``HeldOut`` without its texts, which are in
    ``held-out/STAGE.json``."""

    name: str
    """``before`` (after the warm-up) or ``after``."""


class TrainResult(Frozen):
    """The result of a run."""

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
    changes: dict[str, Interval]
    """Held-out accuracy after GRPO minus before it, by decoding, paired by source item."""
    held_out_sets: str | None = None
    """File of the sets whose pairs were held out; null where no source holds sets."""
    curve: tuple[dict[str, float], ...]
    """The log of each step; ``curve.svg`` shows the reward."""
    dev: tuple[dict[str, float], ...] = ()
    """The log of each evaluation during training, on the pairs of ``mix.dev``."""


def train(
    config: str | Path | TrainConfig,
    *,
    resume: bool = False,
    overrides: Mapping[str, Any] | None = None,
    on_log: OnLog | None = None,
    on_note: OnNote | None = None,
) -> TrainResult:
    """Train by a preset, a TOML file or a configuration: check the data, warm up, evaluate,
    GRPO, evaluate.

    Args:
        config: the configuration, in any form that ``load_config`` takes.
        resume: whether to go on from the last checkpoint in the output folder; the result is that
            of a run that never stopped.
        overrides: the values that replace those of the file.
        on_log: a function that receives each log; ``OnLog`` explains it.
        on_note: a function that receives messages; ``OnNote`` explains it. Nothing is ever printed
            to standard output.

    Raises:
        CarbError: the configuration, the data or the model are not usable, or training data holds
            evaluation items.
        MissingExtraError: the extra ``train`` is not installed.
    """
    if not isinstance(config, TrainConfig):
        config = load_config(config, overrides)
    # a typing error is told before TRL is imported and a hub is asked
    model_source(config.model, revision=config.revision)
    from tal_rlvr.training_setup import check_settings, checked_parts
    from tal_rlvr.training_stages import TrainingRun

    _check_begun(config, resume)
    check_settings(config)
    run = TrainingRun(config, on_log, on_note)
    run.rehearse()
    checked = checked_parts(config, on_note)
    parts, lengths = run.fit(checked)
    run.begin()
    held_out = ordered(parts.held_out, shuffle=False)
    base = run.warm_up(parts.train, checked.targets)
    before = run.evaluate("before", base, held_out)
    trained = run.reinforce(base, parts, resume=resume)
    after = run.evaluate("after", trained.model, held_out)
    result = TrainResult(
        out=str(config.out),
        seed=config.seed,
        train_pairs=len(parts.train),
        held_out_pairs=len(parts.held_out),
        dropped_pairs=checked.dropped,
        too_long_pairs=lengths.too_long,
        **trained._asdict(),
        **_compared(config.out, before, after),
    )
    if run.is_main:
        _write(config.out, result)
    return result


def _compared(out: Path, before: Sequence[Named], after: Sequence[Named]) -> dict[str, Any]:
    """The fields of a result about held-out pairs."""
    sets = out / HELD_OUT_SETS
    stages = []
    for name, held in (*before, *after):
        stages.append(Stage(name=name, **held.model_dump(exclude={"outcomes"})))
    changes = {
        early.decoding: compare_held_out(early, late)
        for (_, early), (_, late) in zip(before, after, strict=True)
    }
    return {
        "held_out_sets": str(sets) if sets.is_file() else None,
        "stages": tuple(stages),
        "changes": changes,
    }


def _write(out: Path, result: TrainResult) -> None:
    rewards = [entry["reward"] for entry in result.curve]
    if rewards:
        write_whole(out / "curve.svg", svg(rewards))
    write_json(out / RESULT, result)  # last: with it the run is finished


def _check_begun(config: TrainConfig, resume: bool) -> None:
    """A folder with a run that was begun is taken up only with ``resume``, and only by the same
    run."""
    if (config.out / RESULT).is_file():
        raise CarbError(f"{config.out} holds a finished run. Choose another 'out', or remove it.")
    begun = config.out / "config.json"
    if not begun.is_file():
        return
    if not resume:
        raise CarbError(
            f"{config.out} holds a run that was begun. Resume it, choose another 'out', or "
            "remove it."
        )
    remedy = "Choose another 'out', or remove it."
    if read_file(TrainConfig, begun, "configuration of a run", remedy) != config:
        raise CarbError(
            f"{config.out} holds a run with other settings (see {begun}). Resume it with the same "
            "ones, or choose another 'out'."
        )
