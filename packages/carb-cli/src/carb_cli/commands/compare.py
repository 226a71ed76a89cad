"""``carb compare``: which of two scorers is better, and is it noise?"""

from __future__ import annotations

from typing import Any, Literal

import polars as pl
from pydantic import Field

from carb_cli import display
from carb_cli.display import percent
from carb_cli.labels import labels
from carb_cli.options import Confidence, CultureFile, Json, add_cultures
from carb_cli.output import Output, OutputPart
from carb_cli.runs import dataset_of, find_scorer, only, scores_of
from carb_data import CarbError, Dataset, ScoreTable
from carb_metrics import compare as compare_tables
from carb_metrics.rows import ComparedGroup, Comparison, Margin


class Disagreement(OutputPart):
    """A set that one scorer wins and the other loses."""

    item_id: str
    culture: str
    domain: str
    prompt: str
    winner: Literal["a", "b"]
    margin_a: float
    """Score of chosen minus that of the best rejected, in standard deviations of a's scores within sets."""
    margin_b: float


class Compared(Comparison, Output):
    """Output of ``carb compare --json``. Differences are those of accuracies, a minus b."""

    schema_: Literal["carb.compare/1"] = Field(default="carb.compare/1", alias="schema")
    confidence: float
    errors_a: int
    """The number of compared sets on which a failed; they count as wrong."""
    errors_b: int
    by_culture: tuple[ComparedGroup, ...]
    by_domain: tuple[ComparedGroup, ...]
    items: tuple[Disagreement, ...]
    """The sets on which they differ most, by the difference of their margins."""


def compare(
    a: str,
    b: str | None = None,
    *,
    items: int = 10,
    margin: float | None = None,
    confidence: Confidence = 0.95,
    culture_file: CultureFile = (),
    json: Json = False,
) -> None:
    """Say which of two scorers is better, by how much, whether it is noise, and where they differ most.

    For example:

        carb compare runs/first#length runs/first#random

    Parameters
    ----------
    a
        A run folder, with #SCORER where it holds several scorers; any part of the name that only one scorer has is
        enough.
    b
        The other scorer, in the same form; without it, a must be a run of two scorers.
    margin
        Largest difference of accuracies that does not matter, for example 0.02. With it the command says whether a is
        no worse than b by more than this, and whether both are equivalent.
    items
        Number of sets to show, those on which both differ most.
    """
    add_cultures(culture_file)
    (folder_a, name_a), (folder_b, name_b) = _both(a, b)
    data_a, data_b = dataset_of(folder_a), dataset_of(folder_b)
    sets = _shared_sets(data_a, data_b)
    table_a = only(scores_of(folder_a), name_a).with_items(data_a)
    table_b = only(scores_of(folder_b), name_b).with_items(data_b)
    whole = compare_tables(table_a, table_b, confidence=confidence, margin=margin, dataset=sets)
    found = Compared(
        **{**dict(whole), "a": name_a, "b": name_b},
        confidence=confidence,
        errors_a=_failed(table_a, table_b),
        errors_b=_failed(table_b, table_a),
        by_culture=_groups(table_a, table_b, "culture", confidence),
        by_domain=_groups(table_a, table_b, "domain", confidence),
        items=_disagreements(table_a, table_b, sets)[:items],
    )
    if json:
        found.print()
        return
    _show(found)


def _both(a: str, b: str | None) -> tuple[Any, Any]:
    if b is not None:
        return find_scorer(a), find_scorer(b)
    from pathlib import Path

    from carb_scorers.run import RunRecord

    names = [scorer.spec.name for scorer in RunRecord.read(Path(a)).scorers]
    if len(names) != 2:
        raise CarbError(f"Name two scorers, for example: carb compare '{a}#{names[0]}' '{a}#{names[-1]}'")
    return (Path(a), names[0]), (Path(a), names[1])


def _shared_sets(a: Dataset, b: Dataset) -> Dataset:
    """The sets of both.

    Raises:
        CarbError: sets of one id have different content.
    """
    if a.fingerprint == b.fingerprint:
        return a
    shared = [item for item in a if item.id in b]
    other = [item.id for item in shared if Dataset([item]).fingerprint != Dataset([b[item.id]]).fingerprint]
    if other:
        raise CarbError(
            f"These runs scored different data: {len(other)} sets have the same id and another content, the first is "
            f"'{other[0]}'. Score the same data set with both."
        )
    return Dataset(shared)


def _failed(table: ScoreTable, other: ScoreTable) -> int:
    """The number of sets of both on which the table's scorer failed."""
    ids, sets = pl.col("item_id").cast(pl.String), other.frame["item_id"].cast(pl.String).unique()
    failed = pl.col("perturbation").is_null() & pl.col("score").is_null() & ids.is_in(sets.to_list())
    return table.frame.filter(failed)["item_id"].n_unique()


def _groups(a: ScoreTable, b: ScoreTable, key: str, confidence: float) -> tuple[ComparedGroup, ...]:
    found = compare_tables(a, b, by=key, confidence=confidence).groups
    return tuple(sorted(found, key=lambda group: (-abs(group.difference), group.key)))


def _disagreements(a: ScoreTable, b: ScoreTable, sets: Dataset) -> tuple[Disagreement, ...]:
    from carb_metrics import main_sets, margins

    one, two = (dict(margins(main_sets(table)).select("item_id", "margin").iter_rows()) for table in (a, b))
    found = [
        Disagreement(
            item_id=item.id,
            culture=item.culture,
            domain=str(item.domain),
            prompt=item.prompt_text,
            winner="a" if one[item.id] > two[item.id] else "b",
            margin_a=one[item.id],
            margin_b=two[item.id],
        )
        for item in sets
        if item.id in one and item.id in two and (one[item.id] > 0) != (two[item.id] > 0)
    ]
    return tuple(sorted(found, key=lambda d: (-abs(d.margin_a - d.margin_b), d.item_id)))


def _show(found: Compared) -> None:
    if found.a is None or found.b is None or found.difference is None or found.p is None:
        display.say("The two runs have no sets to compare.")
        return
    short = labels([found.a, found.b])
    a, b = short[found.a], short[found.b]
    points = f"{_signed(found.difference)} points [{_signed(found.low)}, {_signed(found.high)}]"
    display.say(f"a  {a}: {percent(found.accuracy_a)}%, {found.ties_a} ties; {percent(found.strict_a)}% if they lose")
    display.say(f"b  {b}: {percent(found.accuracy_b)}%, {found.ties_b} ties; {percent(found.strict_b)}% if they lose")
    which = "main sets" if found.counted == "main" else "sets"
    display.say(f"a − b  {points}, {display.p_clause(found.p)} ({found.test}), {found.n} {which}.")
    if (place := found.place_effect) is not None:
        low, high = display.number(place.difference.low), display.number(place.difference.high)
        display.say(
            f"Place effect over {place.families} families: {display.number(place.a)} and {display.number(place.b)}, "
            f"difference {display.number(place.difference.estimate)} [{low}, {high}], "
            f"{display.p_clause(place.difference.p)}."
        )
    if found.errors_a or found.errors_b:
        display.say(f"Sets on which a scorer failed count as wrong: {found.errors_a} of a, {found.errors_b} of b.")
    if found.better is not None:
        display.say(f"{found.better} is better; a difference like this is unlikely to be noise.")
    else:
        display.say("This may be noise: the data do not settle which is better.")
        if found.more_sets:
            display.say(f"About {found.more_sets:,} further sets would settle a difference of this size (80% power).")
        if found.detectable is not None:
            display.say(f"With {found.n} sets only a difference of {percent(found.detectable)} points or more shows.")
    if found.margin is not None:
        _show_margin(found.margin, found.confidence)
    for title, groups in (("Cultures", found.by_culture), ("Domains", found.by_domain)):
        columns = [title.lower()[:-1], "sets", "a %", "b %", "a − b", "interval", "p, Holm"]
        rows = [
            (
                g.key,
                g.n,
                percent(g.accuracy_a),
                percent(g.accuracy_b),
                _signed(g.difference),
                f"[{_signed(g.low)}, {_signed(g.high)}]",
                display.p_value(g.p_adjusted),
            )
            for g in groups
        ]
        display.table(f"{title}, most different first", columns, rows, right=columns[1:])
    if found.items:
        shown = [(i.item_id, i.winner, f"{i.margin_a:+.2f}", f"{i.margin_b:+.2f}", i.prompt[:60]) for i in found.items]
        display.table("Sets on which they differ most", ["set", "won by", "margin a", "margin b", "prompt"], shown)
        display.say("Margins: chosen minus best rejected, in standard deviations of the scorer's scores within sets.")


def _show_margin(found: Margin, confidence: float) -> None:
    said = "a and b are equivalent" if found.equivalent else "a is no worse than b" if found.not_worse else None
    margin = percent(found.margin)
    level = f"{100 * (2 * confidence - 1):.0f}%"
    display.say(
        f"Margin of {margin} points: {said or 'it is not shown that a is no worse than b'} "
        f"(a − b {level} interval [{_signed(found.low)}, {_signed(found.high)}]; p of worse "
        f"{display.p_value(found.p_not_worse)}, p of better {display.p_value(found.p_not_better)})."
    )


def _signed(value: float | None) -> str:
    return "" if value is None else f"{100 * value:+.1f}".replace("-", "−")
