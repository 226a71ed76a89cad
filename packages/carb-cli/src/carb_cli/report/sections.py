"""The sections of a report below its first screen: each a finding and tables, which page and terminal show alike."""

from __future__ import annotations

from collections.abc import Callable

from carb_cli.display import p_value, percent, safe, signed
from carb_cli.labels import labels
from carb_cli.report.headline import above_floor
from carb_cli.report.heat_map import colour_of_difference, groups
from carb_cli.report.key_sections import failures, items, people
from carb_cli.report.report_json import Report
from carb_cli.report.tables import (
    Section,
    Shown,
    Table,
    accuracy,
    count,
    estimate,
    group_name,
    link,
    scorer_cell,
    share,
)
from carb_metrics.rows import Cell, Estimate

KINDS = ("CC", "RC", "CL", "RP")


def sections(report: Report, only: str | None = None) -> list[Section]:
    """The sections that say something of these runs, or the one that is asked for."""
    made = (make(report) for name, make in SECTIONS.items() if only in (None, name))
    return [section for section in made if section is not None]


def leaderboard(report: Report) -> Table:
    """The table of the first screen: place effect and accuracy of every scorer, and what they rest on."""
    families, kinds = report.families is not None, bool(report.dataset.kinds)
    columns = ["rank", "<scorer", *["place effect", "row %"] * families, "accuracy %", "strict %"]
    columns += [*["culture %", "knowledge %"] * kinds, "main sets", "ties", "errors"]
    rows = []
    for name, part in report.scorers.items():
        cell, group = part.overall, part.by_kind_group
        row = [Shown(part.rank.text), scorer_cell(report, name)]
        if report.families is not None:
            found = report.families.of(name)
            row += [estimate(found.place_effect), share(accuracy(found))]
        row += [share(cell), Shown("–" if part.failed else percent(cell.strict))]
        if kinds:
            row += [share(group.get("culture", Cell())), share(group.get("knowledge", Cell()))]
        rows.append((*row, count(cell.n), count(cell.ties), count(cell.errors)))
    note = f"Accuracy counts {report.dataset.sets - report.dataset.mirrors:,} main sets"
    if report.families is not None:
        note += f"; row and place effect count {max(row.families for row in report.families.rows):,} families"
    return Table("Leaderboard", tuple(columns), rows, f"{note}.")


def families(report: Report) -> Section | None:
    """What happens when only the place changes."""
    if report.families is None:
        return None
    columns = ("scorer", "place effect", "p", "row %", "p", "column %", "matching %", "families", "errors")
    rows, left = [], 0
    for name in report.scorers:
        row = report.families.of(name)
        left = max(left, row.incomplete)
        rows.append((
            scorer_cell(report, name), estimate(row.place_effect), Shown(p_value(row.place_effect.p)),
            share(accuracy(row)), Shown(p_value(accuracy(row).p)), share(row.column), share(row.matching),
            count(row.families, *[f"{row.incomplete:,} left out"] * bool(row.incomplete),
                  *[f"{row.families - row.judged:,} with a failure"] * (row.judged < row.families)), count(row.errors),
        ))  # fmt: skip
    note = ""
    if left:
        note = (
            f"Left out: {left:,} {'family' if left == 1 else 'families'} without the set of one of the answers, or "
            "with sets that show different answers: chance is not known there. `carb data check` names them."
        )
    tables = [Table("All families", columns, rows, note)]
    groups = list(dict.fromkeys(row.group for row in report.families.rows if row.group is not None))
    if len(groups) > 1:
        cells = [(scorer_cell(report, one), *(_effect(report, one, key) for key in groups)) for one in report.scorers]
        tables.append(Table("Place effect by domain and kind of fact", ("scorer", *groups), cells))
    finding = (
        "A family asks one question about N places with the same N answers; each place makes another answer right. "
        "Row: under this place, is the right answer on top? Column: does this answer score highest under its "
        "own place? Place effect: how far the right cells stand out once the mean of every row and column is taken "
        "out, in units of what is left. "
        f"A scorer that does not read the place earns {percent(report.families.rows[0].chance)}% and 0, exactly."
    )
    return Section("families", "Does the score follow the place?", finding, tuple(tables))


def _effect(report: Report, name: str, group: str) -> Shown:
    rows = () if report.families is None else report.families.rows
    row = next((row for row in rows if (row.scorer, row.group) == (name, group)), None)
    if row is None:
        return Shown("–")
    found = row.place_effect
    sure = found.p is not None and found.p < 1 - report.confidence
    made = estimate(found, heat=colour_of_difference(found.estimate, sure))
    return Shown(made.text, (*made.small, f"{row.families:,} families"), made.heat)


def pairs(report: Report) -> Section | None:
    """Every two scorers."""
    if not report.pairs:
        return None
    found = {(row.a, row.b): row for row in report.pairs}
    rows = []
    for a in report.scorers:
        cells = [scorer_cell(report, a)]
        for b in report.scorers:
            row, sign = (found[a, b], 1) if (a, b) in found else (found.get((b, a)), -1)
            if row is None or row.difference is None:
                cells.append(Shown(""))
                continue
            value = sign * row.difference
            sure = row.p_adjusted is not None and row.p_adjusted < 1 - report.confidence
            small = (f"p {p_value(row.p)}",)
            cells.append(Shown(signed(value), small, colour_of_difference(value, sure), link(report, whose=b, rival=a)))
        rows.append(tuple(cells))
    certain = sum(row.p_adjusted is not None and row.p_adjusted < 1 - report.confidence for row in report.pairs)
    finding = (
        f"{certain:,} of {len(report.pairs):,} differences are settled after correction over all pairs (coloured). A "
        "number is the row's accuracy minus the column's, in points (t test of paired differences over source items); "
        "it leads to the sets that the row's wins alone."
    )
    short = labels(report.scorers)
    table = Table("Differences of accuracy", ("scorer", *(safe(short[name]) for name in report.scorers)), rows)
    return Section("pairs", "Which differences are settled?", finding, (table,))


ABOVE = {True: "yes", False: "no", None: "cannot be shown here"}


def floor(report: Report) -> Section | None:
    """How far the surface alone gets."""
    if report.floor is None:
        return None
    whole = report.floor.overall
    tests = [test for test in report.floor.tests if not test.group and not report.scorers[test.scorer].failed]
    short = labels(report.scorers)
    above = above_floor(tests)
    finding = (
        f"The best predictor that reads nothing but the surface ({safe(short.get(whole.predictor, whole.predictor))}) "
        f"reaches {percent(whole.floor.accuracy)}% with ties shared"
        + (f"; {above}." if above else "; there is no model to test.")
    )
    tested = Table(
        "Scorers against the floor, on the same sets",
        ("scorer", "accuracy %", "difference %", "p, corrected", "<above"),
        [
            (
                scorer_cell(report, test.scorer), Shown(percent(test.accuracy)),
                share(test.difference),
                Shown(p_value(test.p_adjusted)), Shown(ABOVE[test.above]),
            )
            for test in tests
        ],
    )  # fmt: skip
    by_group = Table(
        "The floor by culture and domain",
        ("sets of", "floor %", "<best predictor", "sets"),
        [
            (Shown(group_name(*next(iter(row.group.items())))), share(row.floor),
             Shown(safe(short.get(row.predictor, row.predictor))), count(row.floor.n))
            for row in report.floor.rows
            if row.group
        ],
        "The best of several predictors on a few sets is partly luck, so the floor of few sets is too high.",
    )  # fmt: skip
    tables = tuple(table for table in (tested, by_group) if table.rows)
    return Section("floor", "Is it more than the surface?", finding, tables)


def perturbations(report: Report) -> Section | None:
    """What moves the score, and what should."""
    kinds = [kind for kind in KINDS if any(kind in part.perturbation for part in report.scorers.values())]
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
            spread = Estimate(estimate=one.spread, low=one.spread_low, high=one.spread_high)
            cells += [estimate(spread), share(Estimate(estimate=one.flips, low=one.flips_low, high=one.flips_high))]
        same = part.consistency
        alike = Estimate(estimate=same.consistency, low=same.low, high=same.high)
        rows.append((*cells, estimate(alike)))
    columns = ("scorer", "CC over others", *(f"{kind} {what}" for kind in kinds for what in ("change", "flips %")))
    title = "Change of the score, and share of sets with another answer on top"
    changes = Table(title, (*columns, "consistency"), rows)
    finding = (
        "CC changes the cultural concept and should move the score. RC removes the culture's name, CL changes the "
        "language, RP paraphrases: these change the surface alone and should not. Change is the mean of |after − "
        "before| in standard deviations of the scorer's own scores within sets. Consistency is of the same content in "
        "two languages: 1 where language does not matter, 0.5 where it moves the score as much as another answer."
    )
    return Section("perturbations", "Does the right thing move the score?", finding, (changes,))


def judges(report: Report) -> Section | None:
    """Biases and calibration in one place."""
    bias, known = [], report.judges.bias
    first = {row.scorer: row for row in known.positions if row.position == 0}
    for row in known.scorers:
        if row.scorer not in report.models or (row.length.estimate is None and row.scorer not in first):
            continue
        one = first.get(row.scorer)
        at_first = Estimate() if one is None else Estimate(estimate=one.share, low=one.low, high=one.high)
        even = None if one is None else one.expected
        bias.append((
            scorer_cell(report, row.scorer), estimate(row.length), share(at_first), Shown(percent(even)),
            Shown(p_value(row.position_p)), share(row.swap_consistency), share(row.self_agreement),
        ))  # fmt: skip
    columns = ("scorer", "length r", "first picked %", "even picking %", "position p", "same after a swap %")
    positions = Table("Position and length", (*columns, "same when asked again %"), bias)
    made = (positions, _calibration(report), _calibration_by_culture(report))
    tables = tuple(table for table in made if table.rows)
    if not tables:
        return None
    finding = (
        "Length r: correlation of score and length between the answers of one set, being right taken out. "
        "Position: how often the first answer shown is picked. Calibration: does a clear margin of the first answer "
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
        rows.append((
            scorer_cell(report, name), *(share(tenths[n].accuracy) for n in (0, 4, 9)),
            Shown(percent(found.ece)), Shown(p_value(found.p)), count(found.n),
        ))  # fmt: skip
    heads = ("scorer", "clearest 10%, accuracy %", "clearest 50%, accuracy %", "all, accuracy %", "calibration error %")
    return Table("Calibration", (*heads, "p", "sets"), rows)


def _calibration_by_culture(report: Report) -> Table:
    errors = {(row.scorer, row.group): row for row in report.judges.calibration if row.group and row.calibration}
    names = sorted({group for _, group in errors if group is not None})

    def cell(scorer: str, culture: str) -> Shown:
        row = errors.get((scorer, culture))
        found = None if row is None or row.calibration is None else row.calibration.ece
        return Shown(percent(found), () if row is None else (f"n {row.n:,}",))

    scorers = [name for name in report.models if any((name, culture) in errors for culture in names)]
    rows = [(scorer_cell(report, name), *(cell(name, culture) for culture in names)) for name in scorers]
    columns = ("scorer", *(group_name("culture", culture) for culture in names))
    return Table("Calibration error by root culture, %", columns, rows if len(names) > 1 else [])


SECTIONS: dict[str, Callable[[Report], Section | None]] = {
    make.__name__: make for make in (families, pairs, floor, groups, perturbations, judges, people, items, failures)
}
"""Every section by its name, in the order of the page."""
