"""What a review says, as tables in a terminal."""

from __future__ import annotations

from carb_cli import display
from carb_cli.display import interval, percent
from carb_cli.review.report import ReviewReport

__all__ = ["show"]


def show(found: ReviewReport) -> None:
    """Print what a review says."""
    lines = [("all", found.lines.overall), *found.lines.by_culture_and_domain.items()]
    columns = ["sets of", "key picked %", "95% interval", "answers", "people", "sets"]
    rows = [(n, percent(v.share), interval(v.low, v.high), v.answers, v.people, v.sets) for n, v in lines]
    display.table("Human line", columns, rows, right=columns[1:])
    parts = found.agreement
    columns = ["picks agree", "value", "95% interval"]
    coefficients = [
        (name, percent(e.estimate), interval(e.low, e.high))
        for name, e in (
            ("percent", parts.percent),
            ("Krippendorff's α × 100", parts.krippendorff),
            ("Gwet's AC1 × 100", parts.gwet),
        )
    ]
    display.table(f"Agreement on {parts.sets} sets", columns, coefficients, right=columns[1:])
    columns = [
        "reviewer",
        "region",
        "answered",
        "key %",
        "gold %",
        "reliability %",
        "95% interval",
        "seconds",
        "first %",
    ]
    people = [
        (r.name, r.region, r.answered, percent(r.key), percent(r.gold), percent(r.reliability), interval(r.low, r.high),
         "–" if r.seconds is None else f"{r.seconds:.0f}", percent(r.first))
        for r in found.reviewers
    ]  # fmt: skip
    display.table("Reviewers", columns, people, right=columns[2:])
    if found.powered is not None:
        columns = ["sets of", "with a judge %", "95% interval", "people alone %", "95% interval ", "reviewed", "judged"]
        powered = [
            (row.group or "all", percent(row.estimate.estimate), interval(row.estimate.low, row.estimate.high),
             percent(row.people_alone.estimate), interval(row.people_alone.low, row.people_alone.high), row.labelled,
             row.judged)
            for row in (*found.powered.by_culture, *found.powered.by_domain[1:])
        ]  # fmt: skip
        display.table("People and a judge together", columns, powered, right=columns[1:])
    gap = found.regions
    if gap.p is not None:
        display.say(
            f"Picks of the same region agree in {percent(gap.within)}% of pairs, of different regions in "
            f"{percent(gap.between)}% (p = {gap.p:.3f})."
        )
    verdicts = ", ".join(f"{name}: {count}" for name, count in found.verdicts.items())
    display.say(f"Sets by the rules {found.rules}: {verdicts}. Reviews still needed: {found.needed}.")
    shown = [(d.set_id, d.verdict, "; ".join(d.reasons)) for d in found.decisions if d.verdict in ("fix", "retire")]
    if shown:
        display.table("To fix or retire", ["set", "verdict", "reasons"], shown)
