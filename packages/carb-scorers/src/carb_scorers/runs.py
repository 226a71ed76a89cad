"""A run: scorers over a data set into a folder that says everything needed to repeat it, and that resumes."""

from __future__ import annotations

import platform
from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import polars as pl

from carb_data import CarbError, Dataset, ScoreTable
from carb_data.journal import DiskError
from carb_scorers.blind import Blinded, unblind
from carb_scorers.engines.base import Engine
from carb_scorers.engines.local import LocalEngine
from carb_scorers.evaluation import WINDOW, OnProgress, ProgressCounter, requests_for
from carb_scorers.folder import RunFolder
from carb_scorers.journal import JournalHead, OtherRunError, ScoreJournal, check_journals, journal_path
from carb_scorers.parts import read_parts
from carb_scorers.records import (
    DatasetRecord,
    ErrorRow,
    Machine,
    RunRecord,
    ScorerRecord,
    cost,
    installed_versions,
)
from carb_scorers.scorer import Scorer, ScoreResult, ScorerSpec
from carb_scorers.spec import check_given, identity, open_scorer, parse_spec, provider

__all__ = ["DatasetRecord", "Machine", "RunRecord", "ScorerRecord", "run"]


async def run(
    dataset: Dataset,
    scorers: Sequence[Scorer | str],
    out: Path,
    *,
    names: Sequence[str] = (),
    seed: int = 0,
    window: int = WINDOW,
    fresh: bool = False,
    retry_errors: bool = False,
    command: Sequence[str] = (),
    on_progress: OnProgress | None = None,
    engine: Engine | None = None,
) -> RunRecord:
    """Score a data set into a folder; the same call goes on after any interruption.

    Writes ``run.json``, ``scores.parquet`` (a ``ScoreTable``), ``errors.jsonl``, ``dataset.parquet`` (what was
    scored) and ``journal/``. What is in the journal is not asked again. The folder keeps the scorers of earlier runs
    into it: those that are not named now stay in its record and its table as they are.

    A scorer that cannot go on (a user's mistake, a server that is gone for good, ``STOP_AFTER`` failures without one
    success) does not keep the others from their work: all are tried, then the mistakes are reported together and no
    ``run.json`` is written.

    Args:
        dataset: the sets to score.
        scorers: spec strings (opened and closed here) or ``Scorer`` objects (left open).
        out: The folder of the run. It is made where it does not exist.
        names: The names of the data sets, for the record.
        seed: The seed of the order in which candidates are presented. The default is 0.
        window: The number of requests that a scorer gets at once. Results are kept window by window.
        fresh: Whether to discard what is in the folder. By default the run goes on from it.
        retry_errors: Whether to ask again for the items that have an error row. By default an error is a result
            like any other, so that resuming ends with the table of an uninterrupted run.
        command: The command line, for the record.
        on_progress: A function that is called after each window. By default nothing is called.
        engine: The place where the scorers run. The default is this process. The table is the same everywhere,
            and a run may go on with another engine than it began with.

    Raises:
        CarbError: a spec is wrong, a model is missing, the disk is full, another process writes into the folder,
            or it holds results of another data set, seed, scorer or version.
    """
    labels = _labels(scorers)
    options = _Options(engine or LocalEngine(), seed, window, retry_errors, on_progress)
    outcomes: list[_Outcome] = []
    mistakes: list[tuple[str, CarbError]] = []
    with RunFolder(out, fresh=fresh) as folder:
        check_journals(folder.journal, fingerprint=dataset.fingerprint, seed=seed)
        kept = _kept(folder, set(labels))
        for label, given in zip(labels, scorers, strict=True):
            try:
                outcomes.append(await _score(dataset, given, label, folder, options))
            except (DiskError, OtherRunError):
                raise  # the next scorer would fail alike
            except CarbError as error:
                mistakes.append((label, error))
        _report(mistakes, len(labels), out)
        _refuse_same_names(outcomes)
        outcomes = [*kept, *outcomes]
        record = RunRecord(
            created=datetime.now(UTC),
            command=tuple(command),
            dataset=DatasetRecord(
                names=tuple(names),
                fingerprint=dataset.fingerprint,
                sets=len(dataset),
                responses=sum(len(item.responses) + len(item.perturbed) for item in dataset),
            ),
            scorers=tuple(outcome.record for outcome in outcomes),
            seed=seed,
            window=window,
            engine=options.engine.name,
            python=platform.python_version(),
            versions=installed_versions(),
            machine=Machine.current(),
        )
        _write(folder, dataset, outcomes, record)
    return record


def _kept(folder: RunFolder, now: Set[str]) -> list[_Outcome]:
    """The scorers of an earlier run into this folder that are not among those of now.

    Its data set and seed are those of now, as ``check_journals`` has seen.

    Raises:
        CarbError: their scores were made by another version of this package.
    """
    if not (folder.path / "run.json").is_file():
        return []
    earlier = RunRecord.read(folder.path)
    others = [record for record in earlier.scorers if record.spec.name not in now]
    if not others:
        return []
    mine = installed_versions()["carb-scorers"]
    theirs = earlier.versions.get("carb-scorers")
    if theirs != mine:
        raise OtherRunError(
            folder.path, f"scorers that are not named now, made by carb-scorers {theirs} (this is {mine})"
        )
    frame = ScoreTable.load(folder.path / "scores.parquet").frame
    lines = (folder.path / "errors.jsonl").read_text(encoding="utf-8").split("\n")
    errors = [ErrorRow.model_validate_json(line) for line in lines if line]
    return [
        _Outcome(
            ScoreTable(frame.filter(pl.col("scorer") == record.spec.name)),
            record,
            tuple(row for row in errors if row.scorer == record.spec.name),
        )
        for record in others
    ]


FIRST = 2
"""Requests in a new run's first window, where a scorer gets whole windows: a first score, or what is wrong, shows after
them and not after a whole window. One for each of two workers."""

STOP_AFTER = 32
"""Requests that fail without one success before a scorer is stopped."""


@dataclass(frozen=True, slots=True)
class _Options:
    engine: Engine
    seed: int
    window: int
    retry_errors: bool
    on_progress: OnProgress | None


@dataclass(frozen=True, slots=True)
class _Outcome:
    table: ScoreTable
    record: ScorerRecord
    errors: tuple[ErrorRow, ...]


def _labels(scorers: Sequence[Scorer | str]) -> list[str]:
    """The names under which the scorers have their journals; mistakes in specs are found before any work is done."""
    labels = []
    for given in scorers:
        check_given(given)
        if isinstance(given, str):
            parsed = parse_spec(given)
            provider(parsed.kind)
            if parsed.kind == "baseline":  # opening one costs nothing
                open_scorer(given)
            label = parsed.name
        else:
            label = given.spec.name
        if label in labels:
            raise CarbError(f"The scorer '{label}' is given twice; name each once.")
        labels.append(label)
    return labels


async def _score(dataset: Dataset, given: Scorer | str, label: str, folder: RunFolder, options: _Options) -> _Outcome:
    session = await options.engine.open(given)
    try:
        head = JournalHead(
            fingerprint=dataset.fingerprint, seed=options.seed, spec=identity(session.spec), version=_version(given)
        )
        path = journal_path(folder.journal, label)
        parts = path.with_suffix(".parts")
        with ScoreJournal(path, head) as journal:
            journal.add(read_parts(parts))
            blinded = requests_for(dataset, session.spec, options.seed)
            kept = {key: r for key, r in journal.results.items() if r.complete or not options.retry_errors}
            tally = ProgressCounter(session.spec.name, len(blinded), options.on_progress)
            tally.add(kept.values(), spent=False)
            write = journal.add if session.writes_parts else journal.append
            started = any(result.scores for result in kept.values())
            held: list[ScoreResult] = []

            def keep(results: Sequence[ScoreResult]) -> None:
                nonlocal started
                held.extend(results)
                started = started or any(result.scores for result in results)
                if not started and len(held) >= STOP_AFTER:
                    raise _all_failed(session.spec.name, held)
                if started:
                    write(held)
                    held.clear()
                tally.add(results)  # last: whoever looks at the progress may stop the run, and nothing is lost then

            missing = [b.request for b in blinded if b.request.request_id not in kept]
            windows = not session.writes_parts and session.spec.in_flight is None
            first = min(FIRST, options.window) if windows and not kept else 0
            for part in (missing[:first], missing[first:]):
                await session.score(part, keep, window=options.window, parts=parts)
            write(held)
            return _outcome(dataset, session.spec, blinded, journal)
    finally:
        await session.aclose()


def _all_failed(name: str, failed: Sequence[ScoreResult]) -> CarbError:
    errors = [result.error for result in failed if result.error is not None]
    return CarbError(
        f"'{name}' failed all of its first {len(failed)} requests (the last: {errors[-1].kind}: {errors[-1].message}). "
        f"None of these errors was kept. Correct what is wrong and run the same command again."
    )


def _outcome(dataset: Dataset, spec: ScorerSpec, blinded: Sequence[Blinded], journal: ScoreJournal) -> _Outcome:
    results = [journal.results[b.request.request_id] for b in blinded]
    return _Outcome(
        unblind(dataset, spec.name, zip(blinded, results, strict=True)),
        ScorerRecord(
            spec=spec,
            items=len(results),
            errors=sum(not result.complete for result in results),
            scored=sum(len(result.scores) for result in results),
            usage=journal.spent,
            cost=cost(spec, journal.spent),
        ),
        tuple(row for b, result in zip(blinded, results, strict=True) for row in _error_rows(spec.name, b, result)),
    )


def _error_rows(scorer: str, blinded: Blinded, result: ScoreResult) -> list[ErrorRow]:
    """One row for a request without any score, else one for each response without."""
    whole = [] if result.error is None else [(None, result.error)]
    return [
        ErrorRow(scorer=scorer, item_id=blinded.item_id, response_id=key, kind=error.kind, message=error.message)
        for key, error in (*whole, *((blinded.recorded[key], error) for key, error in result.errors.items()))
    ]


def _version(given: Scorer | str) -> str:
    own = f"carb-scorers {version('carb-scorers')}"
    other = provider(parse_spec(given).kind) if isinstance(given, str) else own
    return own if other == own else f"{own}, {other}"


def _report(mistakes: Sequence[tuple[str, CarbError]], total: int, out: Path) -> None:
    if not mistakes:
        return
    if total == 1:
        raise mistakes[0][1]
    lines = [f"{name}: {error}" for name, error in mistakes]
    done = f" What the other {total - len(mistakes)} scored is kept in {out}." if total > len(mistakes) else ""
    raise CarbError(
        "\n".join([f"{len(mistakes)} of {total} scorers could not go on.{done} Correct this and run it again:", *lines])
    )


def _refuse_same_names(outcomes: Sequence[_Outcome]) -> None:
    names = [outcome.record.spec.name for outcome in outcomes]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise CarbError(f"Several scorers call themselves {repeated}; a run needs a name of its own for each.")


def _write(folder: RunFolder, dataset: Dataset, outcomes: Sequence[_Outcome], record: RunRecord) -> None:
    """The files of a finished run; ``run.json``, which says that it is finished, comes last."""
    table = ScoreTable.concat([outcome.table for outcome in outcomes])
    errors = "".join(f"{row.model_dump_json()}\n" for outcome in outcomes for row in outcome.errors)
    (folder.path / "run.json").unlink(missing_ok=True)
    folder.write("dataset.parquet", dataset.save)
    folder.write("scores.parquet", table.save)
    folder.write("errors.jsonl", lambda path: path.write_text(errors, encoding="utf-8"))
    folder.write("run.json", lambda path: path.write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8"))
