"""``carb compare``: which of two scorers is better, and is it noise?"""

import math
import shlex
from pathlib import Path
from typing import Any

from carb_cli import display
from carb_cli.display import p_clause, p_value, percent, say, signed, whole
from carb_cli.json_output import print_json
from carb_cli.labels import labels
from carb_cli.main import FAILED, OK
from carb_cli.options import Confidence, Flag, Json, Margin
from carb_cli.power import detectable
from carb_cli.report.report_json import mark_of
from carb_cli.runs import dataset_of, find_scorer, only, scorers_of, scores_of
from carb_data import CarbError, Dataset, ScoreTable, home_line
from carb_metrics import compare as compare_tables
from carb_metrics import sets_needed
from carb_metrics.rows import ComparedGroup, Comparison, PlaceComparison
from carb_scorers import RunRecord

PLANNED = (0.01, 0.02, 0.03, 0.05, 0.1)
"""Differences for which ``--plan`` gives the number of families and of sets that show them."""


def compare(
    a: str,
    b: str | None = None,
    *,
    margin: Margin = None,
    plan: Flag = False,
    confidence: Confidence = 0.95,
    json: Json = False,
) -> int:
    """Compare two scorers: the difference, its interval and test, also by culture, domain and kind.

    The place win rates are compared over the mirrored families that both scored, and decide where
    there are families. Accuracies count main sets, with ties shared.

    For example:

        carb compare runs/first#length runs/first#random

    Parameters
    ----------
    a
        A run folder, with #SCORER where it holds several scorers; any part of the name that only
        one scorer has is enough.
    b
        The other scorer, in the same form; without it, a must be a run of two scorers.
    margin
        Largest difference of accuracies that does not matter, for example 0.02. Adds two tests:
        whether a is no worse than b by more than this, and whether both are equivalent.
    plan
        Print the numbers of families (place win rate) and sets (accuracy) that show differences of
        several sizes with a power of 80%.
    """
    (folder_a, name_a), (folder_b, name_b) = _both(a, b)
    data_a = dataset_of(folder_a)
    data_b = dataset_of(folder_b)
    sets = _shared_sets(data_a, data_b)
    marks = [_mark(folder_a, name_a), _mark(folder_b, name_b)]
    one = only(scores_of(folder_a), name_a).with_items(data_a)
    two = only(scores_of(folder_b), name_b).with_items(data_b)
    result = compare_tables(one, two, confidence=confidence, margin=margin, dataset=sets)
    keys = ["culture", "domain"]
    if any(item.kind for item in sets):
        keys.append("kind")
    groups = {key: _groups(one, two, key, confidence) for key in keys}
    planned = _plan(result, confidence) if plan else []
    if json:
        home = home_line(sets).accuracy
        more = {"mark_a": marks[0], "mark_b": marks[1], "home_line": home}
        print_json(_as_json(result, more, groups, planned))
    else:
        _show(result, confidence, marks)
        _show_home(sets)
        _show_groups(groups)
        _show_plan(planned)
    nothing = result.estimate is None and result.place_win is None
    return FAILED if nothing else OK


def _show_home(sets: Dataset) -> None:
    home = home_line(sets)
    if home.n:
        count = display.counted(home.n, "main set")
        share = percent(home.accuracy)
        say(f"The home line, always the home's answer, is {share}% of {count}.")


def _groups(a: ScoreTable, b: ScoreTable, key: str, confidence: float) -> list[ComparedGroup]:
    """The groups of one column, most different first."""

    def most_different(row: ComparedGroup) -> tuple[float, str]:
        return -abs(row.estimate or 0.0), row.key

    compared = compare_tables(a, b, key, confidence=confidence)
    return sorted(compared.groups, key=most_different)


def _as_json(
    result: Comparison,
    more: dict[str, Any],
    groups: dict[str, list[ComparedGroup]],
    planned: list[dict[str, Any]],
) -> dict[str, Any]:
    by_key = {f"by_{key}": rows for key, rows in groups.items()}
    return {
        "a": result.a,
        "b": result.b,
        "place_win": _place_win(result),
        **result.model_dump(mode="json", exclude={"place_win"}),
        **more,
        **by_key,
        "plan": planned,
    }


def _both(a: str, b: str | None) -> list[tuple[Path, str]]:
    folder, _, part = a.partition("#")
    pair = held = scorers_of(Path(folder))
    if b or part:
        pair = [find_scorer(a), find_scorer(b or a)]
    different = {(run.resolve(), name) for run, name in pair}
    if len(different) != 2:
        names = [name for _, name in held]
        first, second, *_ = [*names, "OTHER"]
        example = shlex.join(["carb", "compare", f"{folder}#{first}", f"{folder}#{second}"])
        raise CarbError(f"Name two different scorers, for example: {example}")
    return pair


def _shared_sets(a: Dataset, b: Dataset) -> Dataset:
    """The sets of both.

    Raises:
        CarbError: sets of one id have different content.
    """
    shared = Dataset(item for item in a if item.id in b)
    if shared.fingerprint != Dataset(b[item.id] for item in shared).fingerprint:
        raise CarbError(
            "These runs scored different data: sets have the same id and another content. Score "
            "the same data set with both."
        )
    return shared


def _place_win(comparison: Comparison) -> dict[str, Any] | None:
    """The comparison over families, in the form of that over sets: ``n`` counts families."""
    if (win := comparison.place_win) is None:
        return None
    sides = win.model_dump(exclude={"difference", "families"})
    difference = win.difference
    return {
        **sides,
        **difference.model_dump(include={"low", "high", "p"}),
        "difference": difference.estimate,
        "n": win.families,
    }


def _plan(comparison: Comparison, confidence: float) -> list[dict[str, Any]]:
    """For each difference the families and the sets that show it, where scorers differ as these do;
    null where that is not known."""
    plan = []
    for size in PLANNED:
        families = _families_needed(comparison, size, confidence)
        sets = _sets_needed(comparison, size, confidence)
        plan.append({"difference": size, "families": families, "sets": sets})
    return plan


def _families_needed(comparison: Comparison, size: float, confidence: float) -> int | None:
    """The width of an interval falls with the square root of the number of families."""
    if (win := comparison.place_win) is None:
        return None
    least = detectable(win.difference, confidence)
    if least is None:
        return None
    return math.ceil(win.families * (least / size) ** 2)


def _sets_needed(comparison: Comparison, size: float, confidence: float) -> int | None:
    if comparison.discordance is None:
        return None
    return sets_needed(
        size,
        max(size, comparison.discordance),
        alpha=1 - confidence,
        design_effect=comparison.design_effect or 1.0,
    )


def _mark(folder: Path, name: str) -> str:
    """The mark of a scorer that learned more than the set's own text."""
    scorers = RunRecord.read(folder).scorers
    return next(mark_of(one.spec) for one in scorers if one.spec.name == name)


def _show(comparison: Comparison, confidence: float, marks: list[str]) -> None:
    names = [comparison.a or "a", comparison.b or "b"]
    short = labels(names)
    for name, mark in zip(names, marks, strict=True):
        if mark:
            short[name] += f" ({mark})"
    a, b = (short[name] for name in names)
    if comparison.place_win is not None:
        _show_place_win(comparison.place_win, a, b)
    if comparison.estimate is None:
        say(
            "A scorer failed on every main set that both scored, or there is none: their accuracy "
            "cannot be compared."
        )
        return
    one = comparison.accuracy_a, comparison.strict_a, comparison.ties_a
    other = comparison.accuracy_b, comparison.strict_b, comparison.ties_b
    for side, name, (accuracy, strict, ties) in (("a", a, one), ("b", b, other)):
        say(
            f"{side}  {name}: {percent(accuracy)}% right with ties shared, "
            f"{percent(strict)}% where a tie is a loss ({ties:,} ties)"
        )
    which = "sets"
    if comparison.counted == "main":
        which = "main sets"
    limits = f"[{signed(comparison.low)}, {signed(comparison.high)}]"
    tested = f"{p_clause(comparison.p)} ({comparison.test})"
    say(
        f"a − b  {signed(comparison.estimate)} points {limits}, {tested}, {comparison.n:,} {which},"
    )
    say(f"       {comparison.only_a:,} won by a, {comparison.only_b:,} by b.")
    if comparison.unpaired:
        say(f"Left out: {comparison.unpaired:,} {which} that only one of both scored.")
    if comparison.errors_a or comparison.errors_b:
        failed = f"{whole(comparison.errors_a)} of a, {whole(comparison.errors_b)} of b"
        say(f"{which.capitalize()} that failed count as wrong: {failed}.")
    _show_accuracy_verdict(comparison, confidence)
    _show_margin(comparison)


def _show_accuracy_verdict(comparison: Comparison, confidence: float) -> None:
    if side := comparison.favours(confidence):
        say(f"{side} is right more often; a difference like this is unlikely to be noise.")
        return
    say("This may be noise: the data do not settle which is right more often.")
    if comparison.detectable is not None:
        say(
            f"With {comparison.n:,} sets only a difference of {percent(comparison.detectable)} "
            "points or more shows."
        )


def _show_margin(comparison: Comparison) -> None:
    if (margin := comparison.margin) is None:
        return
    verdict = "it is not shown that a is no worse than b"
    if margin.not_worse:
        verdict = "a and b are equivalent" if margin.equivalent else "a is no worse than b"
    say(
        f"Margin of {percent(margin.margin)} points: {verdict} (a − b within "
        f"[{signed(margin.low)}, {signed(margin.high)}]; p of worse {p_value(margin.p_not_worse)}, "
        f"p of better {p_value(margin.p_not_better)})."
    )


def _show_place_win(win: PlaceComparison, a: str, b: str) -> None:
    difference = win.difference
    limits = ""
    if difference.p is not None:
        limits = f" [{signed(difference.low)}, {signed(difference.high)}]"
        limits += f", {p_clause(difference.p)}"
    say(
        f"Place win rate: a ({a}) {percent(win.a)}%, b ({b}) {percent(win.b)}%, a − b "
        f"{signed(difference.estimate)} points{limits}, {win.families:,} families."
    )
    if win.failed_a or win.failed_b:
        say(
            f"Of the comparisons, {percent(win.failed_a)}% of a and {percent(win.failed_b)}% of b "
            "failed. They count half, and the interval holds whichever way they end."
        )
    if difference.p is None:
        say("There are too few families for an interval, which needs six clusters.")
    elif win.better is None:
        say("This may be noise: the families do not settle which reads the place better.")
    else:
        say(f"{win.better} reads the place better; a difference like this is unlikely to be noise.")


def _show_groups(groups: dict[str, list[ComparedGroup]]) -> None:
    for key, group in groups.items():
        columns = [key, "sets", "a %", "b %", "a − b", "interval", "p, Holm"]
        rows = [
            (
                g.key,
                g.n,
                percent(g.accuracy_a),
                percent(g.accuracy_b),
                signed(g.estimate),
                f"[{signed(g.low)}, {signed(g.high)}]",
                p_value(g.p_adjusted),
            )
            for g in group
        ]
        display.table(
            f"{key.capitalize()}s, most different first", columns, rows, right=columns[1:]
        )


def _show_plan(planned: list[dict[str, Any]]) -> None:
    if not planned:
        return
    columns = ["difference, points", "families, by place win rate", "sets, by accuracy"]
    rows = []
    for row in planned:
        families = whole(row["families"])
        rows.append((percent(row["difference"]), families, whole(row["sets"])))
    title = "Families and sets that show a true difference with 80% power"
    display.table(title, columns, rows, right=columns)
