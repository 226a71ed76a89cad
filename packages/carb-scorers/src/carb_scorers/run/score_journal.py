"""The journal of a scorer's results: nothing is scored twice.

It is a ``carb_data.journal.Store`` for each scorer. Results that come together, those of one
window, stand in one line, so that they are there all together or not at all. After a resume windows
of a given size, and so the very bits of the scores, are those of an uninterrupted run.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence, Set
from operator import attrgetter
from pathlib import Path

import polars as pl

from carb_data import (
    CarbError,
    Dataset,
    DiskError,
    Frozen,
    OtherHeadError,
    Store,
    cultures,
    read_store,
)
from carb_scorers.blind import Asked, blind
from carb_scorers.evaluation import OnProgress, ProgressCounter, score_all
from carb_scorers.run.record import RunRecord
from carb_scorers.scorer import (
    TRANSPORT,
    Results,
    ScoreError,
    Scorer,
    ScoreResult,
    ScorerSpec,
    Usage,
    before_call,
    told_culture,
)
from carb_scorers.spec import identity, kinds, provider

STOP_AFTER = 32
"""Requests in a row that get no answer, before a scorer is stopped."""


class OtherRunError(CarbError):
    """The folder holds results of something else."""

    def __init__(self, folder: Path, what: str) -> None:
        super().__init__(
            f"{folder} holds results of {what}. Choose another folder (--out), or discard the "
            "old results (--fresh)."
        )


class NoAnswerError(CarbError):
    """A scorer got no answer to ``STOP_AFTER`` requests in a row, or to none at all."""

    def __init__(
        self,
        scorer: str,
        unanswered: Results,
        *,
        ever: bool,
    ) -> None:
        self.last = unanswered[-1].error or ScoreError(kind="connection", message="no answer")
        self.ever = ever
        """Whether it has answered before."""
        super().__init__(
            f"'{scorer}' got no answer to {len(unanswered)} requests in a row (the last: "
            f"{self.last.kind}: {self.last.message}). None of these errors was kept. Correct the "
            "cause and run the same command again."
        )


class OtherModelError(CarbError):
    """A server answers as another model than the one that answered before."""

    def __init__(self, scorer: str, before: Set[str], now: Set[str]) -> None:
        super().__init__(
            f"'{scorer}' is answered by {', '.join(sorted(now))}, and the kept results are from "
            f"{', '.join(sorted(before))}: one number would stand for two models. Serve the first "
            "one again, or choose another folder (--out), or discard the old results (--fresh)."
        )


class JournalHead(Frozen):
    """The scorer and the data of a journal."""

    format: int = 4
    fingerprint: str
    """Fingerprint of the data set."""
    seed: int
    """Seed of the presented order."""
    spec: ScorerSpec
    version: str
    """Versions of carb-scorers and of the package that provides the scorer."""
    place_names: str | None = None
    """A hash of the names of the sets' cultures, for a scorer that gets them."""


def journal_head(
    spec: ScorerSpec, *, fingerprint: str, seed: int, places: Iterable[str] = ()
) -> JournalHead:
    """The head of a scorer's journal; prices and the like are no part of it. ``places`` are the ids
    of the sets' cultures."""
    ours = provider("baseline")
    other = ours
    if spec.kind in kinds():
        other = provider(spec.kind)
    made_by = ours
    if other != ours:
        made_by = f"{ours}, {other}"
    named = sorted(
        (culture, cultures.name(culture)) for culture in set(places) if culture in cultures
    )
    names = None
    if told_culture(spec):
        names = hashlib.sha256(repr(named).encode()).hexdigest()
    return JournalHead(
        fingerprint=fingerprint, seed=seed, spec=identity(spec), version=made_by, place_names=names
    )


def journal_path(folder: Path, scorer: str) -> Path:
    """The journal of a scorer: a readable part of its name and a hash of all of it."""
    readable = re.sub(r"[^A-Za-z0-9.=-]+", "_", scorer).strip("_")[-60:]
    return folder / f"{readable}-{hashlib.sha256(scorer.encode()).hexdigest()[:10]}.jsonl"


class ScoreJournal(Store[JournalHead, ScoreResult, str]):
    """The journal of one scorer, open for appending; without a folder it is kept in memory
    alone."""

    def __init__(self, folder: Path | None, head: JournalHead) -> None:
        """Open or create a journal.

        Raises:
            CarbError: it belongs to another data set, scorer, seed or version, another process
                writes into it, or it cannot be written.
        """
        self._replaced = Usage()
        path = None
        if folder is not None:
            path = journal_path(folder, head.spec.name)
        try:
            super().__init__(
                path, head, ScoreResult, lambda result: result.request_id, better=self._first_counts
            )
        except OtherHeadError as error:
            assert folder is not None
            raise _other(folder, head.spec, error.changed) from None
        self._count = None
        if path is not None:
            self._count = path.with_suffix(".asked")

    def called(self) -> None:
        """Note that a server is about to be called: a byte, which survives a kill."""
        if self._count is None:
            return
        try:
            with self._count.open("ab") as file:
                file.write(b".")
        except OSError as error:
            raise DiskError(self._count, error) from None

    @property
    def lost(self) -> int:
        """Calls of a server that no result here counts."""
        if self._count is None or not self._count.exists():
            return 0
        return max(0, self._count.stat().st_size - self.spent.requests)

    @property
    def spent(self) -> Usage:
        """The usage of all results together, replaced ones included."""
        spent = self._replaced
        for result in self.values.values():
            if result.usage is not None:
                spent += result.usage
        return spent

    def _first_counts(self, new: ScoreResult, old: ScoreResult) -> bool:
        """The first result with all scores counts; where none has all, the last of those with the
        most."""
        replaces = _prefers(new, old)
        dropped = new
        if replaces:
            dropped = old
        self._replaced += dropped.usage or Usage()
        return replaces


async def score_missing(
    scorer: Scorer,
    requests: Sequence[Asked],
    journal: ScoreJournal,
    *,
    window: int | None = None,
    retry_errors: bool = False,
    on_progress: OnProgress | None = None,
) -> list[ScoreResult]:
    """Score the requests without a result in the journal, and keep each result at once; give all
    results, in order.

    Last requests without an answer are returned as failed and not kept, since the server may be
    gone. The same call sends them again.

    Raises:
        NoAnswerError: ``STOP_AFTER`` requests in a row, or all, got no answer, and none of these
            errors is kept.
        CarbError: as ``score_all``.
    """
    name = scorer.spec.name
    known, kept, missing = _standing(requests, journal, retry_errors)
    tally = ProgressCounter(name, len(requests), on_progress)
    tally.add(kept, spent=False)
    unanswered: list[ScoreResult] = []
    served = _served(known)

    def keep(results: Results) -> None:
        for result in filter(attrgetter("usage"), results):
            now = _served([result])
            if not (served <= now or now <= served):
                raise OtherModelError(name, served, now)
            served.update(now)
        journal.append(_settled(unanswered, results))
        if len(unanswered) >= STOP_AFTER:
            raise NoAnswerError(name, unanswered, ever=bool(journal.values))
        # last: whoever looks at the progress may stop the run, and nothing is lost then
        tally.add(results)

    counting = before_call.set(journal.called)
    try:
        await score_all(scorer, missing, keep, window=window)
    finally:  # the caller's next calls are not this run's
        before_call.reset(counting)
    if unanswered and not journal.values:
        raise NoAnswerError(name, unanswered, ever=False)
    tail = {result.request_id: result for result in unanswered}
    # an error that stands there already is no more lasting for what its retry cost
    journal.append([result for key, result in tail.items() if key in journal.values])
    scored = tail | journal.values
    return [scored[request.request_id] for request in requests]


def _standing(
    requests: Sequence[Asked], journal: ScoreJournal, retry_errors: bool
) -> tuple[list[ScoreResult], list[ScoreResult], Sequence[Asked]]:
    """The results that are there, those of them that stay, and the requests to make."""
    known: list[ScoreResult] = []
    kept: list[ScoreResult] = []
    if not journal.values:
        return known, kept, requests
    missing: list[Asked] = []
    for one in requests:
        result = journal.values.get(one.request_id)
        if result is None:
            missing.append(one)
            continue
        known.append(result)
        if result.complete or not retry_errors:
            kept.append(result)
        else:
            missing.append(one)
    return known, kept, missing


def _served(results: Iterable[ScoreResult]) -> set[str]:
    """The names of the models that servers gave, without the fingerprints of their machines."""
    usages = [result.usage for result in results if result.usage is not None]
    return {name.partition(" ")[0] for usage in usages for name in usage.served}


def _settled(unanswered: list[ScoreResult], results: Results) -> list[ScoreResult]:
    """The results to keep: those without an answer only once another has one, so that the server is
    not gone. The others wait in ``unanswered``."""
    ready = []
    for result in results:
        unanswered.append(result)
        if result.error is None or result.error.kind not in TRANSPORT:
            ready += unanswered
            unanswered.clear()
    return ready


def read_journal(path: Path) -> tuple[JournalHead, dict[str, ScoreResult]]:
    """Read the journal of a scorer; the file is not changed.

    Returns:
        The head, which tells the scorer and the data, and the results by request id.

    Raises:
        CarbError: it is no journal.
    """
    head, journalled = read_store(path, JournalHead, ScoreResult)
    results: dict[str, ScoreResult] = {}
    for result in journalled:
        known = results.get(result.request_id)
        if known is None or _prefers(result, known):
            results[result.request_id] = result
    return head, results


SCHEMA = {
    **dict.fromkeys(["scorer", "item_id", "order_id", "response_id"], pl.String),
    "position": pl.Int64,
    "score": pl.Float64,
}


def read_presentations(folder: Path) -> pl.DataFrame:
    """The presentations of a finished run, as ``carb_metrics.judge_bias`` takes them.

    A presentation is one time that a judge was shown a set. They are read from the journal, and the
    ids of sets and responses are joined to them. Left out are sets in which a perturbed text
    replaces its original, and presentations of a single candidate, as a pointwise judge has them.

    Args:
        folder: the folder of the run.

    Returns:
        A row per response shown: ``scorer``, ``item_id``, ``order_id``, ``response_id``,
        ``position``, ``score``. ``order_id`` is the number of the presentation within its item and
        scorer, as a text. ``position`` counts from 0, as shown. ``score`` is what this presentation
        gave; its scale follows the judge's mode. Without judges, or where they failed, no rows.

    Raises:
        CarbError: the folder holds no finished run, or its journal is damaged.
    """
    record = RunRecord.read(folder)
    journals = folder / "journal"
    compared = [one.spec.name for one in record.scorers if one.spec.comparative]
    paths = {journal_path(journals, name) for name in compared}
    dataset = Dataset()
    rows = []
    for path in sorted(paths.intersection(journals.glob("*.jsonl"))):
        head, results = read_journal(path)
        if not any(result.presentations for result in results.values()):
            continue
        if not len(dataset):  # most runs show nothing side by side
            dataset = Dataset.load(folder / "dataset.parquet", registry=None)
        for item in dataset:
            blinded = next(blind(item, seed=head.seed, comparative=head.spec.comparative))
            result = results.get(blinded.request_id)
            if result is None:
                continue
            shown = [one for one in result.presentations if len(one.order) > 1]
            for number, presentation in enumerate(shown):
                for position, key in enumerate(presentation.order):
                    response = blinded.recorded[key]
                    score = presentation.scores[key]
                    row = (head.spec.name, item.id, str(number), response, position, score)
                    rows.append(row)
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _prefers(new: ScoreResult, old: ScoreResult) -> bool:
    return not old.complete and len(new.scores) >= len(old.scores)


def _other(folder: Path, spec: ScorerSpec, changed: Sequence[str]) -> OtherRunError:
    what = {
        "fingerprint": "data set",
        "spec": "scorer",
        "version": "version of the scorer's package",
        "place_names": "set of place names",
    }
    named = " and ".join(what.get(name, name) for name in changed)
    added = ""
    if "fingerprint" in changed:
        added = " (or of these sets with or without --perturbed)"
    clock = (spec.revision or "").partition("+clock:")[2]
    if clock and "spec" in changed:
        added += (
            f" (its chat template writes the date, today {clock}; pin it with "
            "chat_template_kwargs=, or a chat_template= with the date in it)"
        )
    return OtherRunError(folder.parent, f"another {named} for '{spec.name}'{added}")
