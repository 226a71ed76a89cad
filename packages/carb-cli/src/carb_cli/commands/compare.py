"""``carb compare``: which of two scorers is better, and is it noise?"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, Literal

import polars as pl

from carb_cli import display
from carb_cli.display import percent
from carb_cli.labels import labels
from carb_cli.main import FAILED, OK
from carb_cli.options import Confidence, Flag, Json
from carb_cli.output import print_json
from carb_cli.runs import dataset_of, find_scorer, only, scores_of
from carb_data import CarbError, Dataset, ScoreTable
from carb_data.models import Frozen
from carb_metrics import compare as compare_tables
from carb_metrics import main_sets, margins, sets_needed
from carb_metrics.rows import ComparedGroup, Comparison
from carb_scorers.run import RunRecord

PLANNED = (0.01, 0.02, 0.03, 0.05, 0.1)
"""Differences of accuracies for which ``--plan`` says how many sets find them."""


class Disagreement(Frozen):
    """A set that one scorer wins and the other loses."""

    item_id: str
    culture: str
    domain: str
    prompt: str
    winner: Literal["a", "b"]
    margin_a: float
    """Score of chosen minus that of the best rejected, in standard deviations of a's scores within sets."""
    margin_b: float


def compare(
    a: str,
    b: str | None = None,
    *,
    items: int = 10,
    margin: float | None = None,
    plan: Flag = False,
    confidence: Confidence = 0.95,
    json: Json = False,
) -> int:
    """Say which of two scorers is better, by how much, whether it is noise, and where they differ most.

    Main sets count, with ties shared; the place effects are compared over the mirrored families that both scored.

    For example:

        carb compare runs/first#length runs/first#random

    Parameters
    ----------
    a
        A run folder, with #SCORER where it holds several scorers; any part of the name that only one scorer has is
        enough.
    b
        The other scorer, in the same form; without it, a must be a run of two scorers.
    items
        Number of sets to show, those on which both differ most.
    margin
        Largest difference of accuracies that does not matter, for example 0.02. With it the command says whether a is
        no worse than b by more than this, and whether both are equivalent.
    plan
        Say how many sets would show differences of several sizes between such scorers, with a power of 80%.
    """
    (folder_a, name_a), (folder_b, name_b) = _both(a, b)
    data_a, data_b = dataset_of(folder_a), dataset_of(folder_b)
    sets = _shared_sets(data_a, data_b)
    one = only(scores_of(folder_a), name_a).with_items(data_a)
    two = only(scores_of(folder_b), name_b).with_items(data_b)
    found = compare_tables(one, two, confidence=confidence, margin=margin, dataset=sets)
    groups = {
        key: sorted(
            compare_tables(one, two, key, confidence=confidence).groups, key=lambda g: (-abs(g.difference), g.key)
        )
        for key in ("culture", "domain")
    }
    differing = _disagreements(one, two, sets)[:items]
    planned = _plan(found, confidence) if plan else []
    if json:
        print_json(
            {
                **found.model_dump(mode="json"),
                "place_effect": _place_effect(found),
                "errors_a": _failed(one, two),
                "errors_b": _failed(two, one),
                **{f"by_{key}": [group.model_dump() for group in rows] for key, rows in groups.items()},
                "items": [item.model_dump() for item in differing],
                "plan": [{"difference": difference, "sets": needed} for difference, needed in planned],
            }
        )
        return FAILED if found.difference is None else OK
    if found.difference is None:
        display.say("A scorer failed on every set that both scored, or there is none: nothing can be compared.")
        return FAILED
    _show(found, _failed(one, two), _failed(two, one))
    _show_groups(groups)
    _show_items(differing)
    if planned:
        rows = [(percent(difference), "–" if needed is None else f"{needed:,}") for difference, needed in planned]
        columns = ["difference, points", "sets"]
        display.table("Sets that show a true difference with 80% power", columns, rows, right=columns)
    return OK


def _both(a: str, b: str | None) -> tuple[tuple[Path, str], tuple[Path, str]]:
    if b is not None:
        return find_scorer(a), find_scorer(b)
    names = [scorer.spec.name for scorer in RunRecord.read(Path(a)).scorers]
    if len(names) != 2:
        example = shlex.join(["carb", "compare", f"{a}#{names[0]}", f"{a}#{names[-1]}"])
        raise CarbError(f"Name two scorers, for example: {example}")
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
    """The number of sets of both, mirrors included, on which the table's scorer failed."""
    ids, sets = pl.col("item_id").cast(pl.String), other.frame["item_id"].cast(pl.String).unique()
    failed = pl.col("perturbation").is_null() & pl.col("score").is_null() & ids.is_in(sets.to_list())
    return table.frame.filter(failed)["item_id"].n_unique()


def _place_effect(found: Comparison) -> dict[str, Any] | None:
    """The comparison over families, in the form of that over sets: ``n`` counts families."""
    if (place := found.place_effect) is None:
        return None
    estimate = place.difference
    limits = {"difference": estimate.estimate, "low": estimate.low, "high": estimate.high, "p": estimate.p}
    return {"n": place.families, "a": place.a, "b": place.b, **limits, "better": place.better}


def _plan(found: Comparison, confidence: float) -> list[tuple[float, int | None]]:
    """For each difference the number of sets that show it, where scorers differ as these do."""
    discordance, effect = found.discordance, found.design_effect or 1.0
    if discordance is None:
        return []
    return [
        (size, sets_needed(size, max(size, discordance), alpha=1 - confidence, design_effect=effect))
        for size in PLANNED
    ]


def _disagreements(a: ScoreTable, b: ScoreTable, sets: Dataset) -> list[Disagreement]:
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
    return sorted(found, key=lambda d: (-abs(d.margin_a - d.margin_b), d.item_id))


def _show(found: Comparison, errors_a: int, errors_b: int) -> None:
    short = labels([found.a or "a", found.b or "b"])
    for side, name, accuracy, strict, ties in (
        ("a", found.a, found.accuracy_a, found.strict_a, found.ties_a),
        ("b", found.b, found.accuracy_b, found.strict_b, found.ties_b),
    ):
        display.say(
            f"{side}  {short[name or side]}: {percent(accuracy)}% right with ties shared, {percent(strict)}% where a "
            f"tie is a loss ({ties:,} ties)"
        )
    which = "main sets" if found.counted == "main" else "sets"
    points = f"{_signed(found.difference)} points [{_signed(found.low)}, {_signed(found.high)}]"
    display.say(f"a − b  {points}, {display.p_clause(found.p)} ({found.test}), {found.n:,} {which},")
    display.say(f"       {found.only_a:,} won by a, {found.only_b:,} by b.")
    if errors_a or errors_b:
        display.say(f"Sets on which a scorer failed count as wrong: {errors_a:,} of a, {errors_b:,} of b.")
    if (place := found.place_effect) is not None:
        limits = f"[{display.number(place.difference.low)}, {display.number(place.difference.high)}]"
        display.say(
            f"Place effect: a {display.number(place.a)}, b {display.number(place.b)}, a − b "
            f"{display.number(place.difference.estimate)} {limits}, {display.p_clause(place.difference.p)}, "
            f"{place.families:,} families."
        )
    if found.better is not None:
        display.say(f"{found.better} is better; a difference like this is unlikely to be noise.")
    else:
        display.say("This may be noise: the data do not settle which is better.")
        if found.more_sets:
            display.say(f"About {found.more_sets:,} further sets would settle a difference of this size (80% power).")
        if found.detectable is not None:
            display.say(f"With {found.n:,} sets only a difference of {percent(found.detectable)} points or more shows.")
    if (margin := found.margin) is not None:
        said = "a and b are equivalent" if margin.equivalent else "a is no worse than b" if margin.not_worse else None
        display.say(
            f"Margin of {percent(margin.margin)} points: {said or 'it is not shown that a is no worse than b'} "
            f"(a − b within [{_signed(margin.low)}, {_signed(margin.high)}]; p of worse "
            f"{display.p_value(margin.p_not_worse)}, p of better {display.p_value(margin.p_not_better)})."
        )


def _show_groups(groups: dict[str, list[ComparedGroup]]) -> None:
    for key, found in groups.items():
        columns = [key, "sets", "a %", "b %", "a − b", "interval", "p, Holm"]
        rows = [
            (g.key, g.n, percent(g.accuracy_a), percent(g.accuracy_b), _signed(g.difference),
             f"[{_signed(g.low)}, {_signed(g.high)}]", display.p_value(g.p_adjusted))
            for g in found
        ]  # fmt: skip
        display.table(f"{key.capitalize()}s, most different first", columns, rows, right=columns[1:])


def _show_items(items: list[Disagreement]) -> None:
    if not items:
        return
    shown = [(i.item_id, i.winner, f"{i.margin_a:+.2f}", f"{i.margin_b:+.2f}", i.prompt[:60]) for i in items]
    display.table("Sets on which they differ most", ["set", "won by", "margin a", "margin b", "prompt"], shown)
    display.say("Margins: chosen minus best rejected, in standard deviations of the scorer's scores within sets.")


def _signed(value: float | None) -> str:
    return "" if value is None else f"{100 * value:+.1f}".replace("-", "−")
