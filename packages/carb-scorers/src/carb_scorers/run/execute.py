"""A run: scorers over a data set into a folder with everything needed to repeat and resume it."""

import hashlib
import platform
import shutil
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import NamedTuple

from filelock import FileLock, Timeout
from polars import col

from carb_data import CarbError, Dataset, DiskError, ScoreTable, uncollected, write_whole
from carb_scorers.blind import Blinded, blind, unblind
from carb_scorers.evaluation import OnProgress, Progress
from carb_scorers.open_book import OpenBookScorer
from carb_scorers.run.record import (
    DatasetRecord,
    ErrorRow,
    Machine,
    RunRecord,
    ScorerRecord,
    cost,
    installed_versions,
)
from carb_scorers.run.score_journal import (
    JournalHead,
    NoAnswerError,
    OtherRunError,
    ScoreJournal,
    journal_head,
    journal_path,
    score_missing,
)
from carb_scorers.scorer import ScoreError, Scorer, ScoreResult, ScorerSpec, failed, told_culture
from carb_scorers.spec import check_given, kinds, parse_spec, plan_of, provider, using

JOURNAL = "journal"
"""The folder of the journals within a run's folder."""
_FILES = ("scores.parquet", "errors.jsonl", "dataset.parquet")


async def run(
    dataset: Dataset,
    scorers: Sequence[Scorer | str],
    out: Path,
    *,
    names: Sequence[str] = (),
    seed: int = 0,
    window: int | None = None,
    fresh: bool = False,
    retry_errors: bool = False,
    command: Sequence[str] = (),
    on_progress: OnProgress | None = None,
) -> RunRecord:
    """Score a data set into a folder; the same call goes on after any interruption.

    Writes ``run.json``, ``scores.parquet`` (a ``ScoreTable``), ``errors.jsonl``,
    ``dataset.parquet`` (what was scored) and ``journal/``. Requests in the journal are not sent
    again. The folder keeps the scorers of earlier runs into it. Scorers of earlier runs stay in its
    record and its table.

    A scorer may be unable to go on: a user's mistake, a server that is gone, too many requests in a
    row without an answer. All others are scored first. Then the mistakes are reported together, and
    no ``run.json`` is written. A server that never answered failed on every set. These errors are
    in the table and not in the journal, so that the same call asks again.

    Args:
        dataset: the sets to score.
        scorers: spec strings (opened and closed here) or ``Scorer`` objects (left open).
        out: The folder of the run. It is made where it does not exist.
        names: The names of the data sets, for the record.
        seed: The seed of the order in which candidates are presented. The default is 0.
        window: The number of requests that a scorer gets at once. By default as many as take a few
            seconds: a kill loses one window. Scores of models on GPUs depend on neighbours in their
            last bits. With a number, they are the same to the last bit after a resume, too.
        fresh: Whether to discard what is in the folder. By default the run goes on from it.
        retry_errors: Whether to ask again for the items that have an error row. By default an error
            is a result like any other, so that resuming ends with the table of an uninterrupted
            run.
        command: The command line, for the record.
        on_progress: A function that is called after each window. By default nothing is called.

    Raises:
        CarbError: a spec is wrong, a model is missing, or the disk is full. Another process writes
            into the folder, or it holds results of another data set, seed, scorer or version.
    """
    labels = labels_of(scorers)
    mistakes: list[tuple[str, CarbError]] = []
    job = Job(dataset, out / JOURNAL, seed, window, retry_errors, on_progress)
    with _locked(out, fresh=fresh):
        outcomes = _kept(out, dataset, seed, set(labels))
        finished = await _finished(job, out, labels, scorers)
        for label, given in zip(labels, scorers, strict=True):
            if finished:
                break
            try:
                outcomes.append(await scored(job, label, given))
            except (DiskError, OtherRunError):
                raise  # the next scorer would fail alike
            except CarbError as error:
                mistakes.append((label, error))
        if mistakes:
            raise _all_of(mistakes, len(labels), out)
        if finished:
            records, contents = finished.scorers, finished.contents
        else:
            records = tuple(outcome.record for outcome in outcomes)
            _write(out, dataset, outcomes)
            contents = _contents(out, dataset, records)
        record = RunRecord(
            created=datetime.now(UTC),
            command=tuple(command),
            dataset=_described(dataset, names),
            scorers=records,
            seed=seed,
            window=window,
            python=platform.python_version(),
            versions=installed_versions(),
            machine=Machine.current(),
            contents=contents,
        )
        write_whole(out / "run.json", record.model_dump_json(indent=2) + "\n")
    return record


def _described(dataset: Dataset, names: Sequence[str]) -> DatasetRecord:
    return DatasetRecord(
        names=tuple(names),
        fingerprint=dataset.fingerprint,
        sets=len(dataset),
        responses=sum(len(item.responses) + len(item.perturbed) for item in dataset),
    )


class Job(NamedTuple):
    """Shared by all scorers of a run."""

    dataset: Dataset
    journals: Path | None
    """The folder of the journals; null keeps no result."""
    seed: int
    window: int | None
    retry_errors: bool
    on_progress: OnProgress | None

    @uncollected()
    def requests(self, spec: ScorerSpec) -> list[Blinded]:
        """All requests to a scorer, in the order of the data set."""
        told = told_culture(spec)
        return [
            one
            for item in self.dataset
            for one in blind(item, seed=self.seed, comparative=spec.comparative, told=told)
        ]


def _head(job: Job, label: str, scorer: Scorer) -> JournalHead:
    """The head of a scorer's journal."""
    spec = scorer.spec
    if spec.name != label:
        raise CarbError(f"'{label}' calls itself '{spec.name}'. A scorer keeps its given name.")
    if job.journals and not spec.revision and spec.kind not in kinds():
        raise CarbError(
            f"'{label}' may change, and its kept scores would not. Give its spec a revision, "
            "and change it with the code."
        )
    places = (item.culture for item in job.dataset)
    return journal_head(spec, fingerprint=job.dataset.fingerprint, seed=job.seed, places=places)


async def scored(job: Job, label: str, given: Scorer | str) -> "Outcome":
    """One scorer's results, those that its journal had and the new ones."""
    async with using(given) as scorer:
        spec = scorer.spec
        head = _head(job, label, scorer)
        blinded = job.requests(spec)
        without_fact: tuple[str, ...] = ()
        if isinstance(scorer, OpenBookScorer):
            without_fact = scorer.without_fact(blinded)
        with ScoreJournal(job.journals, head) as journal:
            try:
                results = await score_missing(
                    scorer,
                    blinded,
                    journal,
                    window=job.window,
                    retry_errors=job.retry_errors,
                    on_progress=job.on_progress,
                )
            except NoAnswerError as error:
                if error.ever and job.journals:
                    raise
                message = f"no answer; {error.last.message}"
                results = [
                    journal.values.get(one.request_id)
                    or failed(one.request, error.last.kind, message)
                    for one in blinded
                ]
            outcome = _outcome(job.dataset, spec, blinded, results, journal)
    return outcome._replace(record=outcome.record.changed(without_fact=without_fact))


@contextmanager
def _locked(out: Path, *, fresh: bool) -> Iterator[None]:
    """Make a run's folder, and keep other processes from writing into it. The lock ends with the
    process, however."""
    lock = FileLock(out / ".lock")
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise CarbError(
            f"Another process is writing into {out}. Wait until it has ended, or choose "
            "another --out."
        ) from None
    except OSError as error:
        raise CarbError(
            f"Cannot write into {out}: {error.strerror}. Choose another folder."
        ) from None
    try:
        for torn in out.glob(".partial-*"):  # of a process that was killed while it wrote
            torn.unlink()
        if fresh:
            try:
                if (out / JOURNAL).exists():
                    shutil.rmtree(out / JOURNAL)
                for name in ("run.json", *_FILES):
                    (out / name).unlink(missing_ok=True)
            except OSError as error:
                raise CarbError(f"Cannot discard the results in {out}: {error.strerror}.") from None
        yield
    finally:
        lock.release()


async def _finished(
    job: Job, out: Path, labels: Sequence[str], scorers: Sequence[Scorer | str]
) -> RunRecord | None:
    """The record of a finished run that the same call would only make again: nothing that decides a
    score or a file has changed, and nothing is left to ask. Null for any other run."""
    with suppress(OSError, CarbError):  # as the whole way will say
        earlier = RunRecord.read(out)
        known = earlier.scorers
        left = any(one.unanswered or (job.retry_errors and one.errors) for one in known)
        if left or labels != [one.spec.name for one in known]:
            return None
        if earlier.contents != _contents(out, job.dataset, known):
            return None
        records = []
        for one, given in zip(known, scorers, strict=True):
            async with using(given) as scorer:
                head = _head(job, one.spec.name, scorer)
            with journal_path(out / JOURNAL, one.spec.name).open("rb") as journal:
                if journal.readline() != f"{head.model_dump_json()}\n".encode():
                    return None
            spec = scorer.spec
            records.append(one.changed(spec=spec, cost=cost(spec, one.usage)))
            if job.on_progress is not None:
                job.on_progress(Progress(spec.name, one.items, one.items, one.errors, 0))
        return earlier.changed(scorers=tuple(records))
    return None


@uncollected()
def _contents(folder: Path, dataset: Dataset, scorers: Sequence[ScorerRecord]) -> str:
    """A hash of a finished run's files and counts, and of what the fingerprint leaves out of its
    sets: their order, that of their responses, and their headings."""
    digest = hashlib.sha256(repr(installed_versions()).encode())
    for item in dataset:
        ids = [one.id for one in item.answers]
        layout = repr((item.id, item.kind, item.place, item.form, ids))
        digest.update(layout.encode("utf-8", "surrogatepass"))
    for one in scorers:
        counted = one.model_dump_json(exclude={"spec", "cost"})
        digest.update(counted.encode())
    journals = sorted((folder / JOURNAL).glob("*"))
    for path in (*journals, *map(folder.joinpath, _FILES)):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _kept(folder: Path, dataset: Dataset, seed: int, now: Set[str]) -> "list[Outcome]":
    """The scorers that an earlier finished run left in this folder and that this run does not name.

    Raises:
        OtherRunError: it was of another data set, seed or version.
    """
    if not (folder / "run.json").is_file():
        return []
    earlier = RunRecord.read(folder)
    if earlier.dataset.fingerprint != dataset.fingerprint:
        raise OtherRunError(folder, _other_sets(folder, dataset))
    if earlier.seed != seed:
        raise OtherRunError(folder, "another seed")
    others = [record for record in earlier.scorers if record.spec.name not in now]
    if not others:
        return []
    current = installed_versions()["carb-scorers"]
    theirs = earlier.versions.get("carb-scorers")
    if theirs != current:
        raise OtherRunError(
            folder,
            f"scorers that are not named now, made by carb-scorers {theirs} (this is {current})",
        )
    frame = ScoreTable.load(folder / "scores.parquet").frame
    lines = (folder / "errors.jsonl").read_text(encoding="utf-8").split("\n")
    errors = [ErrorRow.model_validate_json(line) for line in lines if line]
    kept = []
    for record in others:
        name = record.spec.name
        table = ScoreTable(frame.filter(col("scorer") == name))
        of_scorer = tuple(row for row in errors if row.scorer == name)
        kept.append(Outcome(table, record, of_scorer))
    return kept


def _other_sets(folder: Path, dataset: Dataset) -> str:
    """The sets that a finished run scored in place of these."""
    scored = Dataset.load(folder / "dataset.parquet", registry=None)
    shared = Dataset(item for item in scored if item.id in dataset)
    ours_of_them = Dataset(dataset[item.id] for item in shared)
    same = shared.fingerprint == ours_of_them.fingerprint
    if same and 0 < len(shared) < max(len(scored), len(dataset)):
        return (
            f"{len(scored):,} sets, {len(shared):,} of them among the {len(dataset):,} of this "
            "command (--limit, --cultures or --domains differ)"
        )
    theirs, ours = (any(item.perturbed for item in sets) for sets in (scored, dataset))
    if (
        theirs == ours
        or scored.without_perturbed().fingerprint != dataset.without_perturbed().fingerprint
    ):
        return "another data set"
    how = "without"
    option = "leave out"
    if theirs:
        how = "with"
        option = "give"
    return f"these sets {how} their perturbed texts; to resume them {option} --perturbed"


class Outcome(NamedTuple):
    table: ScoreTable
    record: ScorerRecord
    errors: tuple[ErrorRow, ...]


def labels_of(scorers: Sequence[Scorer | str]) -> list[str]:
    """The names under which the scorers have their journals; mistakes in specs are found before any
    work is done."""
    labels = []
    for given in scorers:
        check_given(given)
        if isinstance(given, str):
            parsed = parse_spec(given)
            provider(parsed.kind)
            if parsed.kind == "baseline":  # no model is behind it, so that it can be tried
                plan_of(parsed)
            label = parsed.name
        else:
            label = given.spec.name
        if label in labels:
            raise CarbError(f"The scorer '{label}' is given twice; name each once.")
        labels.append(label)
    return labels


@uncollected()
def _outcome(
    dataset: Dataset,
    spec: ScorerSpec,
    blinded: Sequence[Blinded],
    results: Sequence[ScoreResult],
    journal: ScoreJournal,
) -> Outcome:
    outcomes = list(zip(blinded, results, strict=True))
    incomplete = [pair for pair in outcomes if not pair[1].complete]
    masses = [result.label_mass for result in results if result.label_mass is not None]
    label_mass = None
    if masses:
        label_mass = median(masses)
    record = ScorerRecord(
        spec=spec,
        items=len(results),
        errors=len(incomplete),
        scored=sum(len(result.scores) for result in results),
        label_mass=label_mass,
        usage=journal.spent,
        lost=journal.lost,
        unanswered=sum(result.request_id not in journal.values for result in results),
        cost=cost(spec, journal.spent),
    )
    errors = tuple(row for pair in incomplete for row in _error_rows(spec.name, *pair))
    return Outcome(unblind(dataset, spec.name, outcomes), record, errors)


def _error_rows(scorer: str, blinded: Blinded, result: ScoreResult) -> Iterator[ErrorRow]:
    """One row for a request without any score, else one for each response without."""
    errors: dict[str | None, ScoreError] = {
        blinded.recorded[key]: error for key, error in result.errors.items()
    }
    if result.error is not None:
        errors[None] = result.error
    for response_id, error in errors.items():
        yield ErrorRow(
            scorer=scorer,
            item_id=blinded.item.id,
            response_id=response_id,
            kind=error.kind,
            message=error.message,
        )


def _all_of(mistakes: Sequence[tuple[str, CarbError]], total: int, out: Path) -> CarbError:
    """One error with all mistakes."""
    if total == 1:
        return mistakes[0][1]
    lines = [f"{name}: {error}" for name, error in mistakes]
    done = ""
    if total > len(mistakes):
        done = f" The scores of the other {total - len(mistakes)} are kept in {out}."
    head = f"{len(mistakes)} of {total} scorers stopped.{done} Correct this and run it again:"
    return CarbError("\n".join([head, *lines]))


@uncollected()
def _write(folder: Path, dataset: Dataset, outcomes: Sequence[Outcome]) -> None:
    """The files of a finished run but for ``run.json``, its mark, which comes last."""
    table = ScoreTable.concat([outcome.table for outcome in outcomes])
    errors = "".join(f"{row.model_dump_json()}\n" for outcome in outcomes for row in outcome.errors)
    (folder / "run.json").unlink(missing_ok=True)
    dataset.save(folder / "dataset.parquet")
    table.save(folder / "scores.parquet")
    write_whole(folder / "errors.jsonl", errors)
