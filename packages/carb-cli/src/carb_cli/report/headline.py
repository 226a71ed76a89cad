"""What a report found, in sentences that survive being quoted. A line of its own holds the
headline."""

from __future__ import annotations

from collections.abc import Sequence

from carb_cli.display import counted, interval, number, percent, safe
from carb_cli.labels import labels
from carb_cli.report.report_json import Report
from carb_cli.report.tables import settled
from carb_metrics.rows import FamilyRow, FloorTest

POWER = (1.959964 + 0.841621) / 1.959964
"""Half a 95% interval times this is what is found four times in five."""
LEAST_MASS = 0.5
"""Median probability of the allowed answers below which the verdict warns."""


def verdict(report: Report) -> str:
    """First whether the place decides, where families tell; then accuracy against chance and the
    surface; failures."""
    said = (_of_families(report), _of_sets(report), _of_people(report), _of_failures(report))
    return "\n".join(sentence for sentence in said if sentence) or "No set could be judged."


def _of_families(report: Report) -> str:
    """The largest place effect of a model, and how often the right answer is on top under the
    place."""
    rows = [] if report.families is None else [report.families.of(name) for name in report.models]
    rows = [row for row in rows if row.place_effect.estimate is not None]
    if not rows:
        return ""
    sure = settled({row.scorer: row.place_effect.p for row in rows}, report.confidence)
    effects = {row.scorer: row.place_effect.estimate or 0.0 for row in rows}
    best = max(
        rows, key=lambda row: (row.scorer in sure and effects[row.scorer] > 0, effects[row.scorer])
    )
    name, found = safe(labels(report.scorers)[best.scorer]), best.place_effect
    size = f"{number(found.estimate)} [{number(found.low)}, {number(found.high)}]"
    if best.judged < best.families:
        failed = f"{best.families - best.judged:,} of {best.families:,}"
        size += f" ({failed} families have a failure and count 0)"
    families = counted(best.families, "family", "families")
    if best.incomplete:
        families += f" ({best.incomplete:,} incomplete left out)"
    row = (
        f"the right answer is on top in {percent(best.row.estimate)}% "
        f"[{interval(best.row.low, best.row.high)}] of the "
        f"sets of {families}, by chance in {percent(best.chance)}%."
    )
    if best.scorer in sure:
        how = (
            "reads the place"
            if (found.estimate or 0.0) > 0
            else "reads the place the wrong way round"
        )
        return f"{name} {how}: its place effect is {size}, and {row}"
    if len(rows) == 1:
        shown, whose = f"{name} is not shown to read the place", "its place effect is"
    else:
        models = any(part.spec.kind != "baseline" for part in report.scorers.values())
        shown = f"No {'model' if models else 'scorer'} is shown to read the place"
        shown += f" after correction over {len(rows)} scorers"
        whose = f"the largest place effect, of {name}, is"
    return f"{shown}: {whose} {size}{_power(best)}, and {row}"


def _power(row: FamilyRow) -> str:
    """The smallest effect that so many families would show; an effect is at most ``sqrt(N -
    1)``."""
    found = row.place_effect
    if found.low is None or found.high is None or found.high <= found.low or not row.chance:
        return ""
    least = POWER * (found.high - found.low) / 2
    possible = least**2 < 1 / row.chance - 1
    return (
        f" where {number(least)} would show" if possible else " (so few families cannot show one)"
    )


def _of_sets(report: Report) -> str:
    """How far the best model gets, and how many get further than chance and the surface."""
    chance = report.dataset.chance
    known = {
        name: part.overall for name in report.models if not (part := report.scorers[name]).failed
    }
    if chance is None or not known:
        return ""
    best = max(known, key=lambda name: known[name].accuracy or 0.0)
    cell, name = known[best], safe(labels(report.scorers)[best])
    sets = counted(cell.n, "main set" if report.dataset.mirrors else "set")
    said = (
        f"On {sets} {name} is right in {percent(cell.accuracy)}% [{interval(cell.low, cell.high)}]"
    )
    said += f"{', the most' if len(known) > 1 else ''}; chance is {percent(chance)}%"
    if report.floor is None:
        return f"{said}."
    floor = f"{percent(report.floor.overall.floor.accuracy)}%"
    if above := above_floor(
        [test for name in known if (test := report.floor.test(name)) is not None]
    ):
        return f"{said}, and the surface alone reaches {floor}: {above}."
    return f"{said}. Baselines read nothing but the surface, which reaches {floor} here."


def above_floor(tests: Sequence[FloorTest]) -> str:
    """How many scorers are clearly above the surface, where that can be shown; empty without a
    test."""
    if not tests:
        return ""
    shown = [test.above for test in tests if test.above is not None]
    if not shown:
        return "with so few sets it cannot be shown that a scorer is above it"
    said = f"{sum(shown)} of {len(shown)} clearly above it"
    if len(shown) < len(tests):
        said += f" (for {len(tests) - len(shown)} more it cannot be shown)"
    return said


def _of_people(report: Report) -> str:
    """How often people pick the key, where enough of them were asked."""
    line = report.people.line
    if line is None or not line.enough:
        return ""
    of_all = " of the whole reviewed data set" if report.people.whole else ""
    return (
        f"People of the cultures pick the key{of_all} in {percent(line.share)}% "
        f"[{interval(line.low, line.high)}] of "
        f"{line.answers:,} answers ({line.people:,} people)."
    )


def _of_failures(report: Report) -> str:
    """The share of failed sets; a scorer that failed on every set is named for it."""
    said = []
    short = labels(report.scorers)
    for name in report.models:
        cell = report.scorers[name].overall
        if cell.errors and report.scorers[name].failed:
            said.append(
                f"{safe(short[name])} failed on every set, so it gets no verdict. Why: "
                "errors.jsonl."
            )
        elif cell.errors:
            share = percent(cell.errors / cell.n)
            said.append(
                f"{safe(short[name])} failed on {cell.errors:,} of {cell.n:,} sets "
                f"({share}%), counted wrong."
            )
        said.append(of_mass(safe(short[name]), report.scorers[name].label_mass))
    return " ".join(filter(None, said))


def of_mass(scorer: str, mass: float | None) -> str:
    """What a small median probability of the allowed answers means; empty where it is large enough
    or not known."""
    if mass is None or mass >= LEAST_MASS:
        return ""
    return (
        f"{scorer} puts only {percent(mass)}% of its probability on the allowed answers, so "
        "it may not have understood "
        "how to answer."
    )
