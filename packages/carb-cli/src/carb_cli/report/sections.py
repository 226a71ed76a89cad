"""The sections of a report below its first screen: each a finding and tables, which page and
terminal show alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist

from carb_cli.display import counted, number, p_value, percent, safe, signed
from carb_cli.labels import labels
from carb_cli.report.headline import above_floor
from carb_cli.report.key_sections import failures, items, people
from carb_cli.report.report_json import Report
from carb_cli.report.tables import (
    Section,
    Shown,
    Table,
    colour,
    count,
    estimate,
    group_name,
    link,
    scorer_cell,
    settled,
    share,
)
from carb_data import Perturbation
from carb_metrics.rows import Cell, Interval


def sections(report: Report, only: str | None = None) -> list[Section]:
    """The sections that say something of these runs, or the one that is asked for."""
    made = (make(report) for name, make in SECTIONS.items() if only in (None, name))
    return [section for section in made if section is not None]


def leaderboard(report: Report) -> Table:
    """The table of the first screen: place effect and accuracy of every scorer, and what they rest
    on."""
    families = report.families is not None
    columns = ["rank", "<scorer", *["place effect", "row %"] * families, "accuracy %", "strict %"]
    columns += ["main sets", "ties", "errors"]
    rows = []
    for name, part in report.scorers.items():
        cell = part.overall
        row = [Shown(part.rank.text), scorer_cell(report, name)]
        if report.families is not None:
            found = report.families.of(name)
            row += [estimate(found.place_effect), share(found.row)]
        row += [share(cell), Shown(percent(cell.strict))]
        rows.append((*row, count(cell.n), count(cell.ties), count(cell.errors)))
    note = f"Accuracy counts {counted(report.dataset.sets - report.dataset.mirrors, 'main set')}"
    if report.families is not None:
        most = max(row.families for row in report.families.rows)
        note += f"; row and place effect count {most:,} families"
    return Table("Leaderboard", tuple(columns), rows, f"{note}.")


def families(report: Report) -> Section | None:
    """What happens when only the place changes."""
    if report.families is None:
        return None
    columns = (
        "scorer",
        "place effect",
        "p",
        "row %",
        "p",
        "column %",
        "matching %",
        "families",
        "errors",
    )
    rows, left = [], 0
    for name in report.scorers:
        row = report.families.of(name)
        left = max(left, row.incomplete)
        small = []
        if row.incomplete:
            small.append(f"{row.incomplete:,} left out")
        if row.judged < row.families:
            small.append(f"{row.families - row.judged:,} with a failure")
        rows.append(
            (
                scorer_cell(report, name),
                estimate(row.place_effect),
                Shown(p_value(row.place_effect.p)),
                share(row.row),
                Shown(p_value(row.row.p)),
                share(row.column),
                share(row.matching),
                count(row.families, *small),
                count(row.errors),
            )
        )
    note = ""
    if left:
        note = (
            f"Left out: {counted(left, 'family', 'families')} without the set of one of the "
            "answers, or "
            "with sets that show different answers: chance is not known there. `carb data "
            "check` names them."
        )
    tables = [Table("All families", columns, rows, note)]
    groups = list(dict.fromkeys(row.group for row in report.families.rows if row.group is not None))
    if len(groups) > 1:
        found = {
            (row.scorer, row.group): row for row in report.families.rows if row.group is not None
        }
        sure = settled({key: row.place_effect.p for key, row in found.items()}, report.confidence)
        shown = {
            key: estimate(
                row.place_effect,
                f"{row.families:,} families",
                heat=colour(row.place_effect.estimate, key in sure),
            )
            for key, row in found.items()
        }
        by_group = _grid(report, "Place effect by domain and kind of fact", shown, groups)
        tables.append(replace(by_group, note="Coloured: settled after correction over this table."))
    if report.place_gap:
        tables.append(_named_and_implied(report))
    finding = (
        "A family asks one question about N places with the same N answers; each place "
        "makes another answer right. "
        "Row: under this place, is the right answer on top? Column: does this answer score "
        "highest under its "
        "own place? Place effect: how far the right cells stand out once the mean of every "
        "row and column is taken "
        "out, in units of what is left. "
        "A scorer that does not read the place earns "
        f"{percent(report.families.rows[0].chance)}% and 0, exactly."
    )
    return Section("families", "Does the score follow the place?", finding, tuple(tables))


def _named_and_implied(report: Report) -> Table:
    rows = [
        (
            scorer_cell(report, name),
            Shown(number(gap.a)),
            Shown(number(gap.b)),
            estimate(gap.difference),
            Shown(p_value(gap.difference.p)),
            count(gap.families),
        )
        for name in report.scorers
        if (gap := report.place_gap.get(name)) is not None
    ]
    note = (
        "Place effects of the same families: the place is named, or cues such as a quarter or "
        "a dish tell it."
    )
    return Table(
        "Named and implied places",
        ("scorer", "named", "implied", "gap", "p", "families"),
        rows,
        note,
    )


def pairs(report: Report) -> Section | None:
    """Every two scorers."""
    if not report.pairs:
        return None
    shown, certain = {(a, b): Shown("") for a in report.scorers for b in report.scorers}, 0
    for row in report.pairs:
        sure = row.p_adjusted is not None and row.p_adjusted < 1 - report.confidence
        certain += sure
        for one, other, sign in ((row.a, row.b, 1), (row.b, row.a, -1)):
            if row.difference is not None:
                value, address = sign * row.difference, link(report, whose=other, rival=one)
                shown[one, other] = Shown(
                    signed(value), (f"p {p_value(row.p)}",), colour(value, sure), address
                )
    finding = (
        f"{certain:,} of {len(report.pairs):,} differences are settled after correction "
        "over all pairs (coloured). A "
        "number is the row's accuracy minus the column's, in points (t test of paired "
        "differences over source items); "
        "it leads to the sets that the row's wins alone."
    )
    table = _grid(report, "Differences of accuracy", shown, list(report.scorers))
    short = labels(report.scorers)
    table = replace(table, columns=("scorer", *(safe(short[name]) for name in report.scorers)))
    return Section("pairs", "Which differences are settled?", finding, (table,))


ABOVE = {True: "yes", False: "no", None: "cannot be shown here"}


def floor(report: Report) -> Section | None:
    """How far the surface alone gets."""
    if report.floor is None:
        return None
    whole = report.floor.overall
    tests = [
        test
        for test in report.floor.tests
        if not test.group and not report.scorers[test.scorer].failed
    ]
    short = labels(report.scorers)
    above = above_floor(tests)
    finding = (
        "The best predictor that reads nothing but the surface "
        f"({safe(short.get(whole.predictor, whole.predictor))}) "
        f"reaches {percent(whole.floor.accuracy)}% with ties shared"
        + (f"; {above}." if above else "; there is no model to test.")
    )
    tested = Table(
        "Scorers against the floor, on the same sets",
        ("scorer", "accuracy %", "difference %", "p, corrected", "<above"),
        [
            (
                scorer_cell(report, test.scorer),
                Shown(percent(test.accuracy)),
                share(test.difference),
                Shown(p_value(test.p_adjusted)),
                Shown(ABOVE[test.above]),
            )
            for test in tests
        ],
    )
    by_group = Table(
        "The floor by culture and domain",
        ("sets of", "floor %", "<best predictor", "sets"),
        [
            (
                Shown(group_name(*next(iter(row.group.items())))),
                share(row.floor),
                Shown(safe(short.get(row.predictor, row.predictor))),
                count(row.floor.n),
            )
            for row in report.floor.rows
            if row.group
        ],
        "The best of several predictors on a few sets is partly luck, so the floor of few "
        "sets is too high.",
    )
    tables = tuple(table for table in (tested, by_group) if table.rows)
    return Section("floor", "Is it more than the surface?", finding, tables)


def groups(report: Report) -> Section | None:
    """Accuracy by culture, domain, and kind of fact."""
    chance, tables = report.dataset.chance or 0.5, []
    for column, title in (
        ("culture", "Cultures"),
        ("domain", "Domains"),
        ("kind", "Kinds of fact"),
    ):
        cells = {name: getattr(part, f"by_{column}") for name, part in report.scorers.items()}
        found = {(name, group): cell for name, own in cells.items() for group, cell in own.items()}
        sure = settled(
            {place: _p(cell, chance, report.confidence) for place, cell in found.items()},
            report.confidence,
        )
        shown = {}
        for place, cell in found.items():
            counts = {f"n {cell.n:,}": cell.n, f"{cell.errors or 0:,} errors": cell.errors}
            more = [text for text, many in counts.items() if many]
            shown[place] = share(
                cell, *more, heat=colour((cell.accuracy or 0.0) - chance, place in sure)
            )
        tables += [_grid(report, title, shown, column=column)] if shown else []
    finding = (
        "Accuracy in percent with its interval and the number of sets; chance is "
        f"{percent(report.dataset.chance)}%. A "
        "cell has a colour where it differs from chance after correction over its table: "
        "blue above, orange below."
    )
    return Section("groups", "Where is it right?", finding, tuple(tables))


def _grid(
    report: Report,
    title: str,
    shown: Mapping[tuple[str, str], Shown],
    groups: Sequence[str] | None = None,
    column: str = "",
) -> Table:
    """A row for each scorer that has something to show, and a column for each group: a value of
    ``column``."""
    names = sorted({group for _, group in shown}) if groups is None else groups
    scorers = [name for name in report.scorers if any((name, group) in shown for group in names)]
    rows = [
        (scorer_cell(report, a), *(shown.get((a, b), Shown("–")) for b in names)) for a in scorers
    ]
    return Table(title, ("scorer", *(group_name(column, group) for group in names)), rows)


def _p(cell: Cell, chance: float, confidence: float) -> float | None:
    """p of chance, by the score test that a cell's interval inverts (Wilson 1927, Journal of the
    American Statistical Association 22:209-212) at its effective sample size."""
    if cell.accuracy is None or cell.low is None or cell.high is None:
        return None
    limit = cell.low if cell.accuracy > chance else cell.high
    away, unit = ((cell.accuracy - p) / math.sqrt(p * (1 - p)) for p in (chance, limit))
    return 2 * NormalDist().cdf(-abs(away / unit) * NormalDist().inv_cdf(0.5 + confidence / 2))


def perturbations(report: Report) -> Section | None:
    """What moves the score, and what should."""
    kinds = [
        str(kind)
        for kind in Perturbation
        if any(kind in part.perturbation for part in report.scorers.values())
    ]
    if not kinds:
        return None
    rows = []
    for name, part in report.scorers.items():
        cells = [scorer_cell(report, name), estimate(part.causal_to_surface)]
        for kind in kinds:
            one = part.perturbation.get(kind)
            if one is None:
                cells += [Shown("–"), Shown("–")]
                continue
            spread = Interval(estimate=one.spread, low=one.spread_low, high=one.spread_high)
            cells += [
                estimate(spread),
                share(Interval(estimate=one.flips, low=one.flips_low, high=one.flips_high)),
            ]
        same = part.consistency
        alike = Interval(estimate=same.consistency, low=same.low, high=same.high)
        rows.append((*cells, estimate(alike)))
    columns = (
        "scorer",
        "CC over others",
        *(f"{kind} {what}" for kind in kinds for what in ("change", "flips %")),
    )
    title = "Change of the score, and share of sets with another answer on top"
    changes = Table(title, (*columns, "consistency"), rows)
    finding = (
        "CC changes the cultural concept and should move the score. RC removes the "
        "culture's name, CL changes the "
        "language, RP paraphrases: these change the surface alone and should not. Change "
        "is the mean of |after − "
        "before| in standard deviations of the scorer's own scores within sets. "
        "Consistency is of the same content in "
        "two languages: 1 where language does not matter, 0.5 where it moves the score as "
        "much as another answer."
    )
    return Section("perturbations", "Does the right thing move the score?", finding, (changes,))


def judges(report: Report) -> Section | None:
    """Biases and calibration in one place."""
    bias, known = [], report.judges.bias
    first = {row.scorer: row for row in known.positions if row.position == 0}
    for row in known.scorers:
        if row.scorer not in report.models or (
            row.length.estimate is None and row.scorer not in first
        ):
            continue
        one = first.get(row.scorer)
        at_first = (
            Interval() if one is None else Interval(estimate=one.share, low=one.low, high=one.high)
        )
        even = None if one is None else one.expected
        bias.append(
            (
                scorer_cell(report, row.scorer),
                estimate(row.length),
                share(at_first),
                Shown(percent(even)),
                Shown(p_value(row.position_p)),
                share(row.swap_consistency),
                share(row.self_agreement),
            )
        )
    columns = (
        "scorer",
        "length r",
        "first picked %",
        "even picking %",
        "position p",
        "same after a swap %",
    )
    length: dict[tuple[str, str], Shown] = {}
    first_picked: dict[tuple[str, str], Shown] = {}
    for culture, part in report.judges.bias_by_culture.items():
        length |= {
            (one.scorer, culture): estimate(one.length)
            for one in part.scorers
            if one.length.estimate
        }
        first_picked |= {
            (one.scorer, culture): share(Interval(estimate=one.share, low=one.low, high=one.high))
            for one in part.positions
            if one.position == 0
        }
    calibrated = {
        (row.scorer, row.group): Shown(percent(row.calibration.ece), (f"n {row.n:,}",))
        for row in report.judges.calibration
        if row.group and row.calibration
    }
    *of_bias, of_calibration = [
        _grid(
            report,
            title,
            {key: cell for key, cell in shown.items() if key[0] in report.models},
            column="culture",
        )
        for title, shown in (
            ("Length r by root culture", length),
            ("First picked by root culture, %", first_picked),
            ("Calibration error by root culture, %", calibrated),
        )
    ]
    whole = Table("Position and length", (*columns, "same when asked again %"), bias)
    made = (whole, *of_bias, _calibration(report), of_calibration)
    tables = tuple(table for table in made if table.rows and len(table.columns) > 2)
    if not tables:
        return None
    finding = (
        "Length r: correlation of score and length between the answers of one set, being "
        "right taken out. "
        "Position: how often the first answer shown is picked. Calibration: does a clear "
        "margin of the first answer "
        "mean that it is right?"
    )
    return Section("judges", "What else moves the pick, and is it calibrated?", finding, tables)


def _calibration(report: Report) -> Table:
    known = {row.scorer: row for row in report.judges.calibration if row.group is None}
    rows = []
    for name in report.models:
        if name not in known or (found := known[name].calibration) is None:
            continue
        tenths = known[name].coverage
        rows.append(
            (
                scorer_cell(report, name),
                *(share(tenths[n].accuracy) for n in (0, 4, 9)),
                Shown(percent(found.ece)),
                Shown(p_value(found.p)),
                count(found.n),
            )
        )
    heads = (
        "scorer",
        "clearest 10%, accuracy %",
        "clearest 50%, accuracy %",
        "all, accuracy %",
        "calibration error %",
    )
    return Table("Calibration", (*heads, "p", "sets"), rows)


SECTIONS: dict[str, Callable[[Report], Section | None]] = {
    make.__name__: make
    for make in (families, pairs, floor, groups, perturbations, judges, people, items, failures)
}
"""Every section by its name, in the order of the page."""
