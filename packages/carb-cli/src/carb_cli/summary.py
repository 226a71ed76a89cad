"""What a run found, in a line for each scorer: the place win rate where there are families, and
accuracy."""

from __future__ import annotations

from pathlib import Path

from carb_cli import display
from carb_cli.display import percent
from carb_cli.labels import labels
from carb_cli.selection import chance
from carb_data import Dataset, Frozen, ScoreTable
from carb_metrics import Interval, Scored, bon_accuracy, family_accuracy
from carb_metrics.rows import Cell, FamilyRow
from carb_scorers.run import RunRecord


class ScorerNumbers(Frozen):
    """The numbers of one scorer, as a report has them."""

    scorer: str
    place_win: Interval | None
    """Null where there are no families; as ``row``."""
    row: Interval | None
    accuracy: Interval
    """The share of main sets that are right, ties shared."""
    strict: float | None
    sets: int
    errors: int


def numbers(record: RunRecord, out: Path, dataset: Dataset) -> list[ScorerNumbers]:
    """The numbers of each scorer of a run, in the order of its record."""
    scores = Scored(ScoreTable.load(out / "scores.parquet"), dataset)
    accuracy = bon_accuracy(scores, by=("scorer",))
    families = family_accuracy(scores, dataset)
    found = []
    for scorer in record.scorers:
        name = scorer.spec.name
        row = None if families is None else families.of(name)
        found.append(_numbers(name, accuracy.cell(name), row))
    return found


def _numbers(name: str, cell: Cell, row: FamilyRow | None) -> ScorerNumbers:
    return ScorerNumbers(
        scorer=name,
        place_win=None if row is None else row.place_win,
        row=None if row is None else row.row,
        accuracy=Interval(estimate=cell.accuracy, low=cell.low, high=cell.high, n=cell.n),
        strict=cell.strict,
        sets=cell.n,
        errors=cell.errors or 0,
    )


def show(record: RunRecord, out: Path, dataset: Dataset) -> None:
    """Print how many sets failed, and the numbers of each scorer."""
    errors = sum(scorer.errors for scorer in record.scorers)
    what = (
        display.counted(len(record.scorers), "scorer"),
        display.counted(record.dataset.sets, "set"),
    )
    display.say(f"{', '.join(what)}, {display.counted(errors, 'error')}: {out}")
    if errors:
        display.say(f"Why items failed: {out / 'errors.jsonl'}; to try them again: --retry-errors")
    found = numbers(record, out, dataset)
    short = labels(one.scorer for one in found)
    for one in found:
        display.say(f"  {short[one.scorer]}: {_line(one)}")
    _show_doubts(record)
    display.say(_legend(found, dataset))


def _line(one: ScorerNumbers) -> str:
    if one.errors and one.sets == one.errors:
        return "no scores, every set failed"
    parts = [f"{display.shown(one.accuracy)} right"]
    if one.place_win is not None:
        parts.insert(0, f"place win rate {display.shown(one.place_win)}")
    else:
        parts.append(f"strict {percent(one.strict)}%")
    if one.errors:
        parts.append(f"{one.errors:,} of {one.sets:,} sets failed")
    return ", ".join(parts)


def _show_doubts(record: RunRecord) -> None:
    """Requests that interruptions cost, and judges that put little probability on the labels."""
    from carb_cli.report.headline import of_mass

    short = labels(scorer.spec.name for scorer in record.scorers)
    for scorer in record.scorers:
        name = short[scorer.spec.name]
        if scorer.lost:
            asked = display.counted(scorer.lost, "request")
            display.say(f"  {name}: {asked} more, lost by interruptions, are in no cost or usage.")
        if doubt := of_mass(name, scorer.label_mass):
            display.say(f"  {doubt} See read=generate.")


def _legend(found: list[ScorerNumbers], dataset: Dataset) -> str:
    """What the numbers are, and what chance is."""
    main = max(one.sets for one in found)
    which = f" of the {main:,} main sets" if main < len(dataset) else ""
    families = any(one.place_win is not None for one in found)
    places = "Chance is 50% of the place win rate, and " if families else "Chance is "
    return (
        f"{places}{percent(chance(dataset))}% of the right answers{which}, ties shared; "
        "brackets are 95% intervals."
    )
