"""The sections about the key: people's answers, sets that look wrong, and sets that all scorers
miss."""

from collections.abc import Mapping, Sequence

from carb_cli.display import counted, number, p_value, percent
from carb_cli.report.report_json import Report
from carb_cli.report.tables import (
    Section,
    Shown,
    Table,
    count,
    estimate,
    group_name,
    link,
    scorer_cell,
    share,
)
from carb_cli.review.findings import WHOLE
from carb_metrics import HumanLine, Interval
from carb_metrics.rows import Failures

SHOWN = 12
"""Clusters and confusions that the section on failures shows."""


def people(report: Report) -> Section:
    """Whether anybody has checked the key."""
    votes = report.people
    title = "What do people of the culture say?"
    line = votes.line
    if line is None or not line.n:
        return Section(
            "people", title, "Nobody has checked the key of these sets in a review yet.", ()
        )
    who = (
        f"{counted(line.people, 'person', 'people')} of {counted(votes.cultures, 'culture')} gave "
        f"{line.n:,} answers on {line.sets:,} sets"
    )
    if votes.whole:
        who += ", on the whole reviewed data set"
    sentence = f"{who}: too few for a human line."
    if line.enough:
        sentence = f"{who}; they pick the key in {percent(line.estimate)}%."
    tables = [human_lines({WHOLE: line, **votes.groups})]
    if votes.scorers and (among := votes.scorers[0]).human_percent.estimate is not None:
        alike = (
            Shown("people with each other"),
            share(among.human_percent),
            estimate(among.human_alpha),
            Shown(""),
        )
        compared = [
            (scorer_cell(report, row.scorer), share(row.percent), estimate(row.ac1), count(row.n))
            for row in votes.scorers
        ]
        columns = ("who", "same pick %", "beyond chance", "sets")
        note = (
            "Beyond chance: Krippendorff's α for people, Gwet's AC1 for a scorer and the "
            "majority of people. Sets that the review retired are not among them."
        )
        tables.append(Table("Agreement with people", columns, [alike, *compared], note))
    return Section("people", title, sentence, tuple(tables))


def human_lines(lines: Mapping[str, HumanLine]) -> Table:
    """How often people pick the key of all sets, and of those of a culture or a domain."""
    rows = [
        (
            Shown(_group(key)),
            share(one if one.enough else Interval()),
            *map(count, (one.people, one.n, one.sets)),
        )
        for key, one in lines.items()
    ]
    needs = f"A line needs {HumanLine.FEWEST_PEOPLE} people and {HumanLine.FEWEST_ANSWERS} answers."
    return Table("Human line", ("sets of", "the key %", "people", "answers", "sets"), rows, needs)


def _group(key: str) -> str:
    culture, _, domain = key.partition("/")
    if culture:
        return group_name("culture", culture)
    return domain or "all"


def items(report: Report) -> Section | None:
    """Sets to read before the numbers are believed."""
    if report.items is None:
        return None
    rows = [
        (
            Shown(row.item_id, link=link(report, set=row.item_id)),
            Shown(row.culture),
            Shown(row.domain),
            Shown(percent(row.difficulty)),
            Shown(number(row.discrimination)),
        )
        for row in report.items.items
    ]
    sorted_by = Table(
        "Items sorted by discrimination, the lowest first",
        ("set", "<culture", "<domain", "won %", "discrimination"),
        rows,
        "Weak scorers win an item of low discrimination more often than strong ones: its key may "
        "be wrong, or two answers right. Few scorers make many such items by chance: read them in "
        "this order, and conclude nothing from one alone.",
    )
    finding = f"{report.items.scorers} scorers judged them."
    return Section("items", "Which sets look wrong?", finding, (sorted_by,) if rows else ())


def failures(report: Report) -> Section | None:
    """The sets that all good scorers miss, and whose answer they take."""
    missed = report.failures
    title = "What do all good scorers miss?"
    if missed is None:
        none = "No scorer is clearly better than chance, so no set counts as missed."
        return Section("failures", title, none, ())
    tables = (_where_missed(report, missed), _taken_instead(missed))
    kept = tuple(table for table in tables if table.rows)
    return Section("failures", title, _how_many_missed(missed), kept)


def _how_many_missed(missed: Failures) -> str:
    good = len(missed.good)
    share = f"{missed.missed:,} of {missed.sets:,} main sets"
    if good == 1:
        return f"1 scorer is clearly better than chance. It misses {share}."
    return (
        f"{good} scorers are clearly better than chance. All of them miss {share}; "
        f"were their misses independent, it would be {number(missed.expected, 1)}. "
        f"In {percent(missed.same_answer)}% of these all take the same wrong answer."
    )


def _where_missed(report: Report, missed: Failures) -> Table:
    rows = [
        (
            Shown(group_name("culture", cluster.culture)),
            Shown(cluster.topic or ""),
            count(cluster.missed),
            count(cluster.sets),
            Shown(number(cluster.expected, 1)),
            Shown(p_value(cluster.p_adjusted)),
            _example(report, [(one.item_id, one.prompt) for one in cluster.examples]),
        )
        for cluster in missed.clusters[:SHOWN]
    ]
    columns = ("culture", "<topic", "missed", "of", "expected", "p, corrected", "<for example")
    return Table("Where", columns, rows)


def _taken_instead(missed: Failures) -> Table:
    rows = [
        (
            Shown(group_name("culture", pair.culture)),
            Shown(group_name("culture", pair.taken)),
            count(pair.offered),
            Shown(number(pair.picked, 1)),
            Shown(percent(pair.rate)),
            Shown(number(pair.expected, 1)),
        )
        for pair in missed.confusion
        if pair.expected and pair.picked > pair.expected
    ]
    heads = ("right in", "<taken from", "offered", "taken", "rate %", "expected")
    return Table(
        "Another culture's answer is picked more often than by chance", heads, rows[:SHOWN]
    )


def _example(report: Report, examples: Sequence[tuple[str, str]]) -> Shown:
    if not examples:
        return Shown("")
    item_id, prompt = examples[0]
    text = " ".join(prompt.split())
    return Shown(text if len(text) <= 90 else f"{text[:89]}…", link=link(report, set=item_id))
