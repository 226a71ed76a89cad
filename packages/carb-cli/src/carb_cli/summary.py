"""The results of a run, in a line for each scorer: the place win rate where there are families, and
accuracy."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl
from polars import col

from carb_cli.display import counted, percent, say, sentences, shown
from carb_cli.labels import labels
from carb_cli.report.report_json import marked
from carb_cli.selection import chance
from carb_data import Dataset, Frozen, HomeLine, ScoreTable, home_line, uncollected
from carb_metrics import Cell, Interval, Scored, bon_accuracy, family_accuracy
from carb_metrics.families import BLIND
from carb_scorers import RunRecord, ScorerRecord


class Numbers(Frozen):
    """The numbers of one scorer, from its rows and the data set alone."""

    sets: int
    failed: int
    """Sets with at least one response without a score."""
    accuracy: Cell
    """Accuracy over the main sets with ties shared; ``strict`` has the share where a tie is a
    loss."""
    home_line: HomeLine | None
    """The accuracy of "always the home's answer"; null where answers name no place."""
    row: Interval | None
    """Share of the sets of mirrored families whose right answer is on top; null where the data set
    has none."""
    place_win: Interval | None
    """How often an answer scores higher under its own place than under another one
    (``carb_metrics.family_accuracy``)."""
    place_win_if_lost: Interval | None = None
    """The same with failed comparisons lost; null where none failed."""

    @property
    def sentence(self) -> str:
        """The numbers as people read them, the place win rate first where there is one."""
        if self.sets and self.failed == self.sets:
            return "no scores, every set failed"
        shares = {
            "place win rate": self.place_win,
            "if failures lost": self.place_win_if_lost,
            "row accuracy": self.row,
        }
        parts = [f"{name} {shown(one)}" for name, one in shares.items() if one is not None]
        cell = self.accuracy
        parts.append(f"accuracy {shown(cell)} of {cell.n:,} main sets")
        parts.append(f"strict {percent(cell.strict)}%")
        if self.home_line is not None:
            parts.append(f"home line {percent(self.home_line.accuracy)}%")
        return ", ".join([*parts, f"{self.failed:,} failed"])


def blind(scorers: Iterable[ScorerRecord]) -> list[str]:
    """Names of the baselines that cannot read the place, whatever their user calls them."""
    specs = [scorer.spec for scorer in scorers]
    return [spec.name for spec in specs if f"{spec.kind}:{spec.model}" in BLIND]


@uncollected()
def numbers(
    table: ScoreTable, dataset: Dataset, scorers: Sequence[ScorerRecord]
) -> dict[str, Numbers]:
    """The numbers of each scorer of a table, by name."""
    scores = Scored(table, dataset)
    accuracy = bon_accuracy(scores, by=("scorer",))
    families = family_accuracy(scores, dataset, blind=blind(scorers))
    home = home_line(dataset)
    missing = table.frame.filter(col.score.is_null() & col.perturbation.is_null())
    failed = missing.group_by(col.scorer.cast(pl.String)).agg(col.item_id.n_unique())
    failed_sets = dict(failed.iter_rows())
    rows = {}
    for name in (scorer.spec.name for scorer in scorers):
        row = None
        if families is not None:
            row = families.of(name)
        rows[name] = Numbers(
            sets=len(dataset),
            failed=failed_sets.get(name, 0),
            accuracy=accuracy.cell(name),
            home_line=home if home.n else None,
            row=None if row is None else row.row,
            place_win=None if row is None else row.place_win,
            place_win_if_lost=None if row is None else row.place_win_if_lost,
        )
    return rows


def of_run(record: RunRecord, out: Path, dataset: Dataset) -> dict[str, Numbers]:
    """The numbers of each scorer of a finished run, by name."""
    return numbers(ScoreTable.load(out / "scores.parquet"), dataset, record.scorers)


def show(record: RunRecord, out: Path, dataset: Dataset) -> None:
    """Print how many sets failed, and the numbers of each scorer."""
    errors = sum(scorer.errors for scorer in record.scorers)
    what = (
        counted(len(record.scorers), "scorer"),
        counted(record.dataset.sets, "set"),
    )
    say(f"{', '.join(what)}, {counted(errors, 'error')}: {out}")
    if errors:
        say(f"Why items failed: {out / 'errors.jsonl'}; to try them again: --retry-errors")
    rows = of_run(record, out, dataset)
    short = labels(rows)
    for scorer in record.scorers:
        name = scorer.spec.name
        sentences(f"  {marked(short[name], scorer.spec)}: {rows[name].sentence}")
    _show_doubts(record)
    say(_legend([*rows.values()], dataset))


def _show_doubts(record: RunRecord) -> None:
    """Requests that interruptions cost or that had no answer, and other doubts."""
    short = labels(scorer.spec.name for scorer in record.scorers)
    for scorer in record.scorers:
        name = short[scorer.spec.name]
        if scorer.lost:
            calls = counted(scorer.lost, "more call")
            say(f"  {name}: {calls}, lost by interruptions, are in no cost or usage.")
        if scorer.doubt:
            say(f"  {name}: {scorer.doubt}")
        if scorer.unanswered:
            say(
                f"  {name}: the last {counted(scorer.unanswered, 'request')} had no answer "
                "and count as failed; the same command asks them again."
            )


def _legend(rows: list[Numbers], dataset: Dataset) -> str:
    """The meaning of the numbers, and chance."""
    main = max(one.accuracy.n for one in rows)
    which = ""
    if main < len(dataset):
        which = f" of the {main:,} main sets"
    families = any(one.place_win is not None for one in rows)
    chances = "Chance is 50% of the place win rate, and " if families else "Chance is "
    return (
        f"{chances}{percent(chance(dataset))}% of the right answers{which}, ties shared; "
        "brackets are 95% intervals."
    )
