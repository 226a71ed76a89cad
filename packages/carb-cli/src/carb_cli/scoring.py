"""Scoring into a run's folder, as ``carb run`` and ``carb eval`` do it: progress, Ctrl-C, and what is said."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import anyio

from carb_cli import display
from carb_cli.display import percent
from carb_cli.interrupts import graceful
from carb_cli.labels import labels
from carb_cli.main import FAILED, OK, command_line
from carb_cli.output import write
from carb_cli.progress import Rates, label, progress
from carb_cli.selection import SetOptions, chance, select
from carb_data import CarbError, Dataset, ScoreTable, load
from carb_data.extras import require
from carb_metrics import bon_accuracy
from carb_scorers import Progress
from carb_scorers.evaluation import WINDOW
from carb_scorers.run import RunRecord, run
from carb_scorers.run.score_journal import OtherRunError

EngineName = Literal["local", "ray"]
FAILED_SHARE = 0.1
"""Share of failed requests above which a run counts as failed."""
LEAST_MASS = 0.5
"""Probability of the letters that a judge may answer with, below which its answers are doubtful."""


def score(
    data: Sequence[str],
    dataset: Dataset,
    scorers: Sequence[str],
    out: Path,
    *,
    options: SetOptions | None = None,
    seed: int = 0,
    window: int = WINDOW,
    engine: EngineName = "local",
    fresh: bool = False,
    retry_errors: bool = False,
) -> RunRecord | None:
    """Score a data set into a folder; what the folder holds already is not scored again.

    Args:
        data: names of the data sets, for the record.
        dataset: the sets to score.
        scorers: the scorers' specs.
        out: folder of the run.
        options: the options that chose the sets, for the message where the folder holds other sets.
        seed: seed of the order in which candidates are presented.
        window: number of requests that a scorer gets at once.
        engine: where the scorers run.
        fresh: whether to discard what the folder holds.
        retry_errors: whether to ask again for items that failed.

    Returns:
        The record of the finished run; null where the user stopped it.
    """
    run_scorers = _runner(engine)
    arguments = command_line()
    rates = Rates()
    begun: dict[str, int] = {}
    with (
        progress() as report,
        graceful(
            "Stopping after the requests that are being scored; press Ctrl-C again to stop at once.",
            lambda: _say_how_to_go_on(out, arguments),
        ) as stop,
    ):

        def on_progress(state: Progress) -> None:
            # A scorer may load its model at its first batch; the last batch of one is followed by the next's loading.
            stop.loading = state.done in (begun.setdefault(state.scorer, state.done), state.total)
            detail = rates.detail(state.scorer, state.done, state.total, state.errors, state.tokens)
            report(label(state.scorer), state.done, state.total, detail)
            stop.check()

        async def work() -> RunRecord | None:
            loop = asyncio.get_running_loop()
            with anyio.CancelScope() as scope:
                stop.on_ask = lambda: loop.call_soon_threadsafe(scope.cancel)
                return await run_scorers(
                    dataset,
                    scorers,
                    out,
                    names=data,
                    seed=seed,
                    window=window,
                    fresh=fresh,
                    retry_errors=retry_errors,
                    command=arguments,
                    on_progress=on_progress,
                )
            return None

        record: RunRecord | None = None
        try:
            record = anyio.run(work)
        except OtherRunError:
            _refuse_for_perturbed_texts(data, out, options)
            raise
        except BaseException:  # KeyboardInterrupt, alone or in a group
            if not stop.asked:
                raise
    if record is None:
        _say_how_to_go_on(out, arguments)
    else:
        _keep_the_review(data, out, record)
    return record


def _refuse_for_perturbed_texts(data: Sequence[str], out: Path, options: SetOptions | None) -> None:
    """Name the reason where a folder holds the same sets and only differs in whether perturbed texts are scored.

    Raises:
        CarbError: that is the reason.
    """
    if options is None or not (out / "run.json").is_file():
        return
    held = RunRecord.read(out).dataset.fingerprint
    if select(data, replace(options, perturbed=not options.perturbed)).fingerprint == held:
        has, do = ("without", "leave --perturbed out") if options.perturbed else ("with", "add --perturbed")
        raise CarbError(
            f"{out} holds a run of the same sets {has} perturbed texts. To go on with it, {do}. Else choose another "
            f"--out, or discard the old results with --fresh."
        )


def exit_code(record: RunRecord) -> int:
    """1 where a scorer failed on more than a tenth of its requests: the run did not do what it was asked for."""
    failed = any(scorer.scored == 0 or scorer.errors > FAILED_SHARE * scorer.items for scorer in record.scorers)
    return FAILED if failed else OK


def say_what_was_found(record: RunRecord, out: Path, dataset: Dataset) -> None:
    """Print how many sets failed, and the accuracy of each scorer."""
    errors = sum(scorer.errors for scorer in record.scorers)
    number = len(record.scorers)
    display.say(f"{number} scorer{'' if number == 1 else 's'}, {record.dataset.sets} sets, {errors} errors: {out}")
    if errors:
        display.say(f"Why items failed: {out / 'errors.jsonl'}; to try them again: --retry-errors")
    found = bon_accuracy(ScoreTable.load(out / "scores.parquet").with_items(dataset), by=("scorer",))
    cells = {name: found.cell(name) for name in found.groups["scorer"].to_list()}
    short = labels(cells)
    for name, cell in cells.items():
        if cell.errors and cell.n == cell.errors:
            display.say(f"  {short[name]}: no scores, every set failed")
            continue
        limits = display.interval(cell.low, cell.high)
        lost = f", {cell.errors:,} of {cell.n:,} sets failed" if cell.errors else ""
        display.say(f"  {short[name]}: {percent(cell.accuracy)}% right [{limits}]{lost}")
    for scorer in record.scorers:
        if scorer.label_mass is not None and scorer.label_mass < LEAST_MASS:
            display.say(
                f"  {short[scorer.spec.name]}: the letters that it was asked for have only "
                f"{percent(scorer.label_mass)}% of its probability; it may answer in another form. See read=generate."
            )
    counted = max((cell.n for cell in cells.values()), default=0)
    which = f" Shares are of the {counted:,} main sets." if counted < len(dataset) else ""
    by_chance = percent(chance(dataset))
    display.say(f"Chance is {by_chance}%; ties are shared; brackets are 95% intervals.{which}")


def _runner(engine: EngineName) -> Callable[..., Awaitable[RunRecord]]:
    """The function that scores, called as ``carb_scorers.run.run``.

    Raises:
        CarbError: the engine's extra is not installed.
    """
    if engine == "local":
        return run
    from carb_scorers.run.ray_engine import RayEngine

    async def run_on_ray(*arguments: Any, **options: Any) -> RunRecord:
        engine = RayEngine()
        try:
            return await run(*arguments, **options, engine=engine)
        finally:
            await engine.aclose()

    require("ray", package="carb-scorers", extra="ray")
    return run_on_ray


def _keep_the_review(data: Sequence[str], out: Path, record: RunRecord) -> None:
    """Copy what people said of the data set into the run's folder, so that its report shows the human line anywhere."""
    from carb_cli.review.findings import (
        companion,
        line_beside,
    )  # takes a fifth of a second, which a first score waits for

    kept, path = companion(out / "dataset.parquet"), Path(data[0])
    kept.unlink(missing_ok=True)
    review = line_beside(path) if len(data) == 1 else None  # of several data sets it would be one's line
    if review is not None and review.fingerprint in (record.dataset.fingerprint, load(path).fingerprint):
        write(kept, companion(path).read_bytes())


def _say_how_to_go_on(out: Path, arguments: Sequence[str]) -> None:
    again = shlex.join(part for part in arguments if part != "--fresh")
    display.note(f"Stopped. What was scored is kept in {out}. To go on, run the same command again:")
    display.note(f"  {again}")
