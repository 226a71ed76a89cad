"""Scoring into a run's folder, as ``carb run`` and ``carb eval`` do it: progress and Ctrl-C."""

import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from cyclopts import Parameter

from carb_cli import display
from carb_cli.display import duration, note
from carb_cli.labels import labels
from carb_cli.main import FAILED, INTERRUPTED, OK, command_line
from carb_cli.options import Flag, OptionGroup
from carb_cli.progress import Report, progress
from carb_data import Dataset, load, seed_folders, write_whole
from carb_scorers import Progress, RunRecord, parse_spec
from carb_scorers.run import run

FAILED_SHARE = 0.1
"""Share of failed requests above which a run counts as failed."""


@Parameter(name="*")
@dataclass(frozen=True)
class RunOptions(OptionGroup):
    """Options that say how a data set is scored; ``carb_scorers.run.run`` takes them by the same
    names."""

    seed: int = 0
    """Seed of the order in which candidates are presented."""
    window: int | None = None
    """Requests that a scorer gets at once. Default: some seconds of work."""
    fresh: Flag = False
    """Discard the folder's results."""
    retry_errors: Flag = False
    """Score the failed items of an earlier run into the same folder again."""


AS_USUAL = RunOptions()


def score(
    data: Sequence[str],
    dataset: Dataset,
    scorers: Sequence[str],
    out: Path,
    options: RunOptions = AS_USUAL,
) -> RunRecord:
    """Score a data set into a folder; results in the folder are not scored again.

    Args:
        data: names of the data sets, for the record.
        dataset: the sets to score.
        scorers: the scorers' specs.
        out: folder of the run.
        options: how it is scored.

    Returns:
        The record of the finished run.
    """
    with progress() as report, _going_on_later(out):
        loading = _models(scorers)
        times: dict[str, list[tuple[float, float]]] = {}

        def show_next() -> None:
            if loading:
                report(loading[0], 0, 0, "loading")

        def on_progress(state: Progress) -> None:
            show_state(report, state)
            label = labels([state.scorer])[state.scorer]
            share = state.done / max(state.total, 1)
            times.setdefault(label, []).append((time.monotonic(), share))
            if loading[:1] == [label] and state.done >= state.total:
                loading.pop(0)
                show_next()

        show_next()

        work = partial(
            run,
            names=[*map(versioned, data)],
            command=command_line(),
            on_progress=on_progress,
            **asdict(options),
        )
        record = anyio.run(work, dataset, scorers, out)
    for label in _models(scorers):
        if sentence := pace(label, len(dataset), times[label]):
            note(sentence)
    _keep_the_review(data, out, record)
    return record


def show_state(report: Report, state: Progress) -> None:
    """Show how far a scorer is."""
    label = labels([state.scorer])[state.scorer]
    report(label, state.done, state.total, display.counted(state.errors, "error"))


def pace(scorer: str, sets: int, times: Sequence[tuple[float, float]]) -> str:
    """How long 1,000 sets take; empty where nothing was scored.

    Args:
        scorer: its label.
        sets: the sets of the run.
        times: seconds, and the share of the run that was done by then; first, once it was loaded.
    """
    (began, before) = times[0]
    (ended, after) = times[-1]
    if after == before:
        return ""
    done = (after - before) * sets
    took = ended - began
    return (
        f"{scorer}: {done:.0f} sets in {duration(took)}, without loading; at this pace "
        f"1,000 sets take {duration(1000 / done * took)}."
    )


def _models(scorers: Sequence[str]) -> list[str]:
    """The labels of the scorers that load a model, which can take half a minute."""
    names = [spec.name for spec in map(parse_spec, scorers) if spec.kind != "baseline"]
    return [labels([name])[name] for name in names]


def versioned(name: str) -> str:
    """The name of a data set with the version of the seed, ``carb-seed@3``."""
    return next((full for full in seed_folders() if full.startswith(f"{name}@")), name)


@contextmanager
def _going_on_later(out: Path) -> Iterator[None]:
    """Within, Ctrl-C prints how to go on and ends the process at once.

    A model that computes in a thread, or that is being loaded, would not listen. The scores are in
    the journal, and a process may end at any moment.
    """

    def leave(_signal: int, _frame: Any) -> None:
        display.notes.show_cursor(True)
        say_how_to_go_on(out)
        sys.stderr.flush()
        os._exit(INTERRUPTED)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def say_how_to_go_on(out: Path) -> None:
    """Say where the work is kept when the command that is being run was stopped."""
    again = shlex.join(part for part in command_line() if part != "--fresh")
    note(
        f"Stopped. The scores so far are kept in {out}. To resume, run the same command "
        f"again:\n  {again}"
    )


def exit_code(record: RunRecord) -> int:
    """1 where a scorer failed on more than a tenth of its requests, or its server was gone before
    the end. One last request may fail by its own fault."""
    failed = any(
        scorer.scored == 0 or scorer.unanswered > 1 or scorer.errors > FAILED_SHARE * scorer.items
        for scorer in record.scorers
    )
    return FAILED if failed else OK


def _keep_the_review(data: Sequence[str], out: Path, record: RunRecord) -> None:
    """Copy the review of the data set into the run's folder, so that its report shows the human
    line anywhere."""
    # Importing this takes a fifth of a second, which a first score waits for.
    from carb_cli.review.findings import companion, line_beside

    kept = companion(out / "dataset.parquet")
    path = Path(data[0])
    kept.unlink(missing_ok=True)
    review = (
        line_beside(path) if len(data) == 1 else None
    )  # of several data sets it would be one's line
    if review is not None and review.fingerprint in (
        record.dataset.fingerprint,
        load(path).fingerprint,
    ):
        write_whole(kept, companion(path).read_bytes())
