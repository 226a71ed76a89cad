"""The whole road in one call: hide the labels, score, join the labels back."""

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from carb_data import BonSet, CarbError, Dataset, ScoreTable, load
from carb_scorers.evaluation import WINDOW, OnProgress
from carb_scorers.run.execute import JOURNAL, Job, labels_of, scored
from carb_scorers.scorer import Scorer
from carb_scorers.waiting import wait_for

Sets = Dataset | Iterable[BonSet] | str | Path
"""A data set, a list of sets, or the name or path of a data set as ``carb_data.load`` takes it."""
_polars_began: set[int] = set()
"""Processes, by id, whose polars has threads. A forked process inherits the set, not the threads,
and would wait for them for ever."""


async def evaluate_async(
    dataset: Sets,
    scorers: Sequence[Scorer | str] | Scorer | str,
    *,
    seed: int = 0,
    folder: Path | str | None = None,
    on_progress: OnProgress | None = None,
) -> ScoreTable:
    """Do what ``evaluate`` does, for callers that have an event loop already (asyncio or trio).

    Arguments, result and errors are those of ``evaluate``.
    """
    _refuse_a_fork()
    sets = _dataset(dataset)
    given = scorers
    if isinstance(given, str) or not isinstance(given, Sequence):
        given = [given]
    journals = None
    if folder is not None:
        journals = Path(folder) / JOURNAL
    job = Job(sets, journals, seed, WINDOW, False, on_progress)
    tables: list[ScoreTable] = []
    failures: list[str] = []
    for label, one in zip(labels_of(given), given, strict=True):
        outcome = await scored(job, label, one)
        tables.append(outcome.table)
        if outcome.record.without_fact:
            warnings.warn(f"'{label}': {outcome.record.doubt}", stacklevel=2)
        if outcome.errors:
            reasons = Counter(f"{row.kind}: {row.message}" for row in outcome.errors)
            told = "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common(3))
            record = outcome.record
            failures.append(
                f"'{label}' did not score {record.errors} of {record.items} requests: {told}."
            )
    whole = ScoreTable.concat(tables)
    if failures and whole.frame["score"].null_count() == len(whole.frame):
        raise CarbError("\n".join(failures))
    for failure in failures:
        warnings.warn(failure, stacklevel=2)
    return whole.with_items(sets)


def _dataset(given: Sets) -> Dataset:
    if isinstance(given, Dataset):
        return given
    if isinstance(given, str | Path):
        return load(given)
    if not isinstance(given, Iterable):
        kind = type(given).__name__
        raise CarbError(f"evaluate takes a Dataset or its name first, then scorers; got a {kind}.")
    return Dataset(given)


def _refuse_a_fork() -> None:
    if _polars_began and os.getpid() not in _polars_began:
        raise CarbError(
            "This process was forked from one that evaluated, and would hang: polars' threads are "
            "not forked. Start it with multiprocessing.get_context('spawn')."
        )
    _polars_began.add(os.getpid())


def evaluate(
    dataset: Sets,
    scorers: Sequence[Scorer | str] | Scorer | str,
    *,
    seed: int = 0,
    folder: Path | str | None = None,
    on_progress: OnProgress | None = None,
) -> ScoreTable:
    """Score every response of a data set with every scorer.

    The labels are hidden, candidates are put into a seeded random order under opaque ids, scored,
    and the labels are joined back. It may be called where an event loop runs, as in a notebook.

    Args:
        dataset: the sets to score: a ``Dataset``, a list of sets, or a name or path for ``load``.
        scorers: spec strings (opened and closed here) or ``Scorer`` objects (left open); a list of
            them, or one.
        seed: seed of the order in which candidates are presented.
        folder: the folder of the journal, which is that of ``carb run --out``. The same call goes
            on after any interruption, and asks no failed request again. Null keeps nothing on disk.
        on_progress: the function that is called after each window.

    Returns:
        A row per scorer and response, perturbed ones included. ``score`` is on the scorer's own
        scale, higher being better. It is null where scoring failed, and a warning gives the
        reasons. The table has the columns of ``with_items``, so that main
        sets and mirrors differ as in the command.

    Raises:
        CarbError: a spec is wrong, an argument is no scorer or no data set, or a model or extra is
            missing. Two scorers share a name, or nothing could be scored. Or the folder holds
            results of another data set, seed, scorer or version, or a server no longer answers.
    """
    call = partial(evaluate_async, seed=seed, folder=folder, on_progress=on_progress)
    return wait_for(call, dataset, scorers)
