"""The sections of a report below its first screen: each a finding and tables, which page and
terminal show alike."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist

from carb_cli.display import counted, p_value, percent, signed
from carb_cli.labels import labels
from carb_cli.report.cells_section import cells
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
    marked_labels,
    scorer_cell,
    settled,
    share,
)
from carb_data import Perturbation
from carb_metrics import Cell, FamilyReport, Interval, JudgeBias, SurfaceFloor
from carb_metrics.means import FEWEST
from carb_metrics.rows import FamilyRow, FloorTest, KindRow, PairRow, PositionRow


def sections(report: Report, only: str | None = None) -> list[Section]:
    """The sections that say something of these runs, or the one that is asked for."""
    names = SECTIONS if only is None else (only,)
    made = (SECTIONS[name](report) for name in names)
    return [*filter(None, made)]


def leaderboard(report: Report) -> Table:
    """The table of the first screen: place win rate and accuracy of every scorer, and their numbers
    of sets."""
    columns = ["rank", "<scorer"]
    if report.families is not None:
        columns += ["place win %", "row accuracy %"]
    columns += ["accuracy %", "strict %", "main sets", "ties", "errors"]
    empty = Shown("")
    border = (empty, Shown("controls: shown facts, no rank"), *[empty] * (len(columns) - 2))
    ranked: list[Sequence[Shown]] = []
    controls: list[Sequence[Shown]] = []
    for name, part in report.scorers.items():
        rows, standing = ranked, part.rank.text
        if part.control:
            rows, standing = controls, "control"
        row = [Shown(standing), scorer_cell(report, name)]
        if report.families is not None:
            row += _place_cells(report.families.of(name))
        cell = part.overall
        row += [share(cell), Shown(percent(cell.strict))]
        row += map(count, (cell.n, cell.ties, cell.errors))
        rows.append(row)
    if controls:
        controls.insert(0, border)
    every = [*ranked, *_lines(report, columns), *controls]
    return Table("Leaderboard", tuple(columns), every, _leaderboard_note(report))


def _lines(report: Report, columns: Sequence[str]) -> list[list[Shown]]:
    """Rows for what an accuracy is read against, where "always the home's answer" is one."""
    home = report.home_line
    if home is None:
        return []
    chance = percent(report.dataset.chance)
    lines = [("chance", {"place win %": "50.0", "row accuracy %": chance, "accuracy %": chance})]
    if report.floor is not None:
        cell = report.floor.overall.floor
        known = {"accuracy %": percent(cell.accuracy), "main sets": f"{cell.n:,}"}
        lines.append(("surface floor", known))
    known = {"accuracy %": percent(home.accuracy), "main sets": f"{home.n:,}"}
    lines.append(("home line", known))
    return [
        [Shown({"<scorer": name, **known}.get(column, "")) for column in columns]
        for name, known in lines
    ]


def _place_cells(row: FamilyRow) -> list[Shown]:
    """Place win rate, with the reason for a missing interval or one of no width and with what it
    is if failures lost, and row accuracy."""
    lost = []
    if row.place_win_if_lost is not None:
        lost = [f"if lost {percent(row.place_win_if_lost.estimate)}"]
    return [share(row.place_win, *_why(row), *lost), share(row.row)]


def _why(row: FamilyRow) -> tuple[str, ...]:
    if row.note is None or row.place_win.estimate is None:
        return ()
    if row.place_win.low is None:
        return ("too few",)
    return ("blind by construction",)


def _leaderboard_note(report: Report) -> str:
    main = report.dataset.sets - report.dataset.mirrors
    parts = [f"Accuracy counts {counted(main, 'main set')}"]
    home = report.home_line
    if home is not None:
        sets = counted(home.n, "main set")
        line = percent(home.accuracy)
        parts.append(f"the home line, always the home's answer, is {line}% of {sets}")
    why = ""
    if report.families is not None:
        most = max(row.families for row in report.families.rows)
        parts.append(f"place win rate and row accuracy count {counted(most, 'family', 'families')}")
        why = ", since there are too few families"
    note = "; ".join(parts)
    if report.ranked_by == "place_win":
        return f"{note}. Ranks are by place win rate, with failed comparisons lost."
    return f"{note}. Ranks are by accuracy{why}."


def families(report: Report) -> Section | None:
    """Scores of the same answers when only the place changes."""
    if report.families is None:
        return None
    tables = [_all_families(report, report.families)]
    by_group = _family_groups(report, report.families)
    if by_group is not None:
        tables.append(by_group)
    if report.place_gap:
        tables.append(_named_and_implied(report))
    finding = (
        "A family asks one question about several places with the same answers; each place makes "
        "another answer right. Place win rate: how often an answer scores higher under its own "
        "place than under another one; chance is 50%. Row accuracy: how often the right answer is "
        f"on top under its place; chance is {percent(report.families.rows[0].chance)}%."
    )
    return Section("families", "Does the score follow the place?", finding, tuple(tables))


def _all_families(report: Report, family_report: FamilyReport) -> Table:
    """A row for each scorer over all families."""
    columns = (
        "scorer",
        "place win %",
        "p",
        "row accuracy %",
        "p",
        "families",
        "comparisons",
        "errors",
    )
    of_scorers = [family_report.of(name) for name in report.scorers]
    rows = [_family_cells(report, row) for row in of_scorers]
    left = max(row.incomplete for row in of_scorers)
    note = ""
    if left:
        note = (
            f"{counted(left, 'family', 'families')} without the set of one of the answers, or with "
            "sets that show different answers, do not count in rows: chance is not known there. "
            "`carb data check` names them."
        )
    return Table("All families", columns, rows, note)


def _family_cells(report: Report, row: FamilyRow) -> tuple[Shown, ...]:
    win, accuracy = _place_cells(row)
    failed = []
    if row.failed:
        failed = [f"{row.failed:,} failed"]
    incomplete = []
    if row.incomplete:
        incomplete = [f"{row.incomplete:,} incomplete"]
    return (
        scorer_cell(report, row.scorer),
        win,
        Shown(p_value(row.place_win.p)),
        accuracy,
        Shown(p_value(row.row.p)),
        count(row.families, *incomplete),
        count(row.comparisons, *failed),
        count(row.errors),
    )


def _family_groups(report: Report, family_report: FamilyReport) -> Table | None:
    """The place win rate by domain and kind, of groups with clusters enough for an interval."""
    rows = {}
    for row in family_report.rows:
        known = row.clusters >= FEWEST and row.place_win.low is not None
        if row.group is not None and known:
            rows[row.scorer, row.group] = row
    groups = list(dict.fromkeys(group for _, group in rows))
    if len(groups) < 2:
        return None
    sure = settled({key: row.place_win.p for key, row in rows.items()}, report.confidence)
    shown = {}
    for key, row in rows.items():
        above = (row.place_win.estimate or 0.5) - 0.5
        heat = colour(above, key in sure)
        shown[key] = share(row.place_win, f"{row.families:,} families", heat=heat)
    table = _grid(report, "Place win rate by domain and kind of fact, %", shown, groups)
    note = (
        "Coloured: settled after correction over this table. Groups of fewer than six clusters of "
        "families are not shown."
    )
    return replace(table, note=note)


def _named_and_implied(report: Report) -> Table:
    rows = [_gap_cells(report, name) for name in report.scorers if name in report.place_gap]
    note = (
        "Place win rates of the same families: the place is named, or cues such as a quarter or "
        "a dish tell it."
    )
    columns = ("scorer", "named %", "implied %", "gap %", "p", "families")
    return Table("Named and implied places", columns, rows, note)


def _gap_cells(report: Report, name: str) -> tuple[Shown, ...]:
    """The gap of a scorer, or why it has none: a scorer that gets the culture does not need the
    cues."""
    gap = report.place_gap[name]
    if gap is None:
        dash = Shown("–")
        reason = Shown("not measured: told the culture")
        return (scorer_cell(report, name), dash, dash, reason, dash, dash)
    return (
        scorer_cell(report, name),
        Shown(percent(gap.a)),
        Shown(percent(gap.b)),
        share(gap.difference),
        Shown(p_value(gap.difference.p)),
        count(gap.families),
    )


def pairs(report: Report) -> Section | None:
    """Every two scorers."""
    if not report.pairs:
        return None
    tables = []
    measures = ["accuracy"] if report.ranked_by == "accuracy" else ["place win rate", "accuracy"]
    for measure in measures:
        shown = _pair_cells(report, measure)
        table = _grid(report, f"Differences of {measure}", shown, list(report.scorers))
        tables.append(replace(table, columns=("scorer", *marked_labels(report).values())))
    finding = (
        f"{_settled_pairs(report, measures[0]):,} of {len(report.pairs):,} differences of "
        f"{measures[0]} are settled after correction over all pairs (coloured). A number is the "
        "row's rate minus the column's, in points (t test over clusters of families or sets). A "
        "difference of accuracy links to the sets that only the row's scorer gets right."
    )
    return Section("pairs", "Which differences are settled?", finding, tuple(tables))


def _pair_test(row: PairRow, measure: str) -> tuple[float | None, float | None, float | None]:
    """The difference of a pair, its p, and p after correction."""
    if measure == "accuracy":
        return row.estimate, row.p, row.p_adjusted
    if row.place_win is None:
        return None, None, None
    return row.place_win.a - row.place_win.b, row.place_win.difference.p, row.place_p_adjusted


def _settled_pairs(report: Report, measure: str) -> int:
    corrected = (_pair_test(row, measure)[2] for row in report.pairs)
    return sum(p is not None and p < 1 - report.confidence for p in corrected)


def _pair_cells(report: Report, measure: str) -> dict[tuple[str, str], Shown]:
    """A cell for each two scorers, either way round."""
    shown = {(a, b): Shown("") for a in report.scorers for b in report.scorers}
    for row in report.pairs:
        difference, p, corrected = _pair_test(row, measure)
        if difference is None:
            continue
        sure = corrected is not None and corrected < 1 - report.confidence
        small = (f"p {p_value(p)}",)
        for one, other, value in ((row.a, row.b, difference), (row.b, row.a, -difference)):
            address = ""
            if measure == "accuracy":
                address = link(report, whose=other, rival=one)
            shown[one, other] = Shown(signed(value), small, colour(value, sure), address)
    return shown


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
    above = above_floor(tests) or "there is no model to test"
    finding = (
        "The best predictor that reads nothing but the surface "
        f"({_predictor(report, whole.predictor)}) "
        f"reaches {percent(whole.floor.accuracy)}% with ties shared; {above}."
    )
    if report.home_line is not None:
        finding += (
            f" The home line is {percent(report.home_line.accuracy)}%. Only a scorer whose whole "
            "interval lies above the home line is called above the surface."
        )
    made = (_against_floor(report, tests), _floor_groups(report, report.floor))
    tables = tuple(table for table in made if table.rows)
    return Section("floor", "Is it more than the surface?", finding, tables)


def _predictor(report: Report, name: str) -> str:
    return labels(report.scorers).get(name, name)


def _against_floor(report: Report, tests: Sequence[FloorTest]) -> Table:
    """A row for each scorer that is tested against the floor."""
    columns = ("scorer", "accuracy %", "difference %", "p, corrected", "<above")
    rows = []
    for test in tests:
        cells = (
            scorer_cell(report, test.scorer),
            Shown(percent(test.accuracy)),
            share(test.difference),
            Shown(p_value(test.p_adjusted)),
            Shown(ABOVE[test.above]),
        )
        rows.append(cells)
    return Table("Scorers against the floor, on the same sets", columns, rows)


def _floor_groups(report: Report, known: SurfaceFloor) -> Table:
    """The floor of each culture and domain."""
    rows = []
    for row in known.rows:
        if not row.group:
            continue
        ((column, value),) = row.group.items()
        cells = (
            Shown(group_name(column, value)),
            share(row.floor),
            Shown(_predictor(report, row.predictor)),
            _home_cell(report, column, value),
            count(row.floor.n),
        )
        rows.append(cells)
    note = (
        "The best of several predictors on a few sets is partly luck, so the floor of few "
        "sets is too high."
    )
    columns = ("sets of", "floor %", "<best predictor", "home line %", "sets")
    return Table("The floor by culture and domain", columns, rows, note)


def groups(report: Report) -> Section | None:
    """Accuracy by culture, domain, kind of fact, and kind of language."""
    chance = report.dataset.chance or 0.5
    tables = []
    for column, title in (
        ("culture", "Cultures"),
        ("domain", "Domains"),
        ("kind", "Kinds of fact"),
        ("resource_class", "Resource class of the language (Joshi et al. 2020)"),
        ("family", "Family of the language"),
        ("script", "Script"),
    ):
        by_key = {}
        tests = {}
        for name, part in report.scorers.items():
            for group, cell in getattr(part, f"by_{column}").items():
                by_key[name, group] = cell
                tests[name, group] = _p(cell, chance, report.confidence)
        sure = settled(tests, report.confidence)
        shown = {}
        for key, cell in by_key.items():
            counts = {f"n {cell.n:,}": cell.n, f"{cell.errors or 0:,} errors": cell.errors}
            more = [text for text, many in counts.items() if many]
            heat = colour((cell.accuracy or 0.0) - chance, key in sure)
            shown[key] = share(cell, *more, heat=heat)
        table = _grid(report, title, shown, column=column)
        if table.rows:
            tables.append(_with_home(report, table, column, shown))
    finding = (
        "Accuracy in percent with its interval and the number of sets; chance is "
        f"{percent(report.dataset.chance)}%. A cell has a colour where it differs from chance "
        "after correction over its table: blue above, orange below."
    )
    return Section("groups", "Where is it right?", finding, tuple(tables))


def _with_home(
    report: Report, table: Table, column: str, shown: Mapping[tuple[str, str], Shown]
) -> Table:
    """The table with the home line of each group as its last row, where there is one."""
    if column not in report.home_by:
        return table
    groups = sorted({group for _, group in shown})
    lines = [_home_cell(report, column, group) for group in groups]
    return replace(table, rows=[*table.rows, (Shown("home line"), *lines)])


def _home_cell(report: Report, column: str, group: str) -> Shown:
    line = report.home_by.get(column, {}).get(group)
    if line is None:
        return Shown("–")
    return Shown(percent(line.accuracy), (f"n {line.n:,}",))


def _grid(
    report: Report,
    title: str,
    shown: Mapping[tuple[str, str], Shown],
    groups: Sequence[str] | None = None,
    column: str = "",
) -> Table:
    """A row for each scorer that has something to show, and a column for each group: a value of
    ``column``."""
    if groups is None:
        groups = sorted({group for _, group in shown})
    rows = []
    for name in report.scorers:
        cells = [shown.get((name, group)) for group in groups]
        if any(cells):
            known = [cell or Shown("–") for cell in cells]
            rows.append((scorer_cell(report, name), *known))
    titles = [group_name(column, group) for group in groups]
    return Table(title, ("scorer", *titles), rows)


def _p(cell: Cell, chance: float, confidence: float) -> float | None:
    """p of chance, by the score test that a cell's interval inverts at its effective sample size
    (Wilson 1927, JASA 22:209-212)."""
    if cell.accuracy is None or cell.low is None or cell.high is None:
        return None
    limit = cell.low if cell.accuracy > chance else cell.high
    away = (cell.accuracy - chance) / math.sqrt(chance * (1 - chance))
    unit = (cell.accuracy - limit) / math.sqrt(limit * (1 - limit))
    normal = NormalDist()
    critical = normal.inv_cdf(0.5 + confidence / 2)
    return 2 * normal.cdf(-abs(away / unit) * critical)


def perturbations(report: Report) -> Section | None:
    """Which changes move the score, and which should."""
    kinds = [
        str(kind)
        for kind in Perturbation
        if any(kind in part.perturbation for part in report.scorers.values())
    ]
    if not kinds:
        return None
    table = _changes(report, kinds)
    finding = (
        "CC changes the cultural concept and should move the score. RC removes the culture's name, "
        "CL changes the language, RP paraphrases: these change the surface alone and should not. "
        "Change is the mean of |after − before| in standard deviations of the scorer's own scores "
        "within sets. Relative is the paper's measure, |after − before| / |before|; a scale "
        "without a zero has none. Consistency compares the same content in two languages: "
        "it is 1 where language does not matter. It is 0.5 where language moves the score as "
        "much as another answer does."
    )
    return Section("perturbations", "Does the right thing move the score?", finding, (table,))


MEASURES = ("change", "relative %", "flips %")
"""Of a kind of perturbation."""


def _changes(report: Report, kinds: Sequence[str]) -> Table:
    """A row for each scorer: change, relative change and flips of each kind of perturbation."""
    rows = []
    for name, part in report.scorers.items():
        cells = [scorer_cell(report, name), estimate(part.causal_to_surface)]
        for kind in kinds:
            cells += _change_cells(part.perturbation.get(kind))
        rows.append((*cells, estimate(part.consistency.consistency)))
    of_kinds = [f"{kind} {measure}" for kind in kinds for measure in MEASURES]
    columns = ("scorer", "CC over others", *of_kinds, "consistency")
    title = "Change of the score, and share of sets with another answer on top"
    return Table(title, columns, rows)


def _change_cells(row: KindRow | None) -> list[Shown]:
    if row is None:
        return [Shown("–")] * len(MEASURES)
    return [estimate(row.spread), share(row.relative), share(row.flips)]


def judges(report: Report) -> Section | None:
    """Biases and calibration in one place."""
    made = (_bias(report), *_judges_by_culture(report), _calibration(report))
    tables = tuple(table for table in made if table.rows and len(table.columns) > 2)
    if not tables:
        return None
    finding = (
        "Length r: correlation of score and length between the answers of one set, being "
        "right taken out. Position: how often the first answer shown is picked. Calibration: "
        "does a clear margin of the first answer mean that it is right?"
    )
    return Section("judges", "What else moves the pick, and is it calibrated?", finding, tables)


def _bias(report: Report) -> Table:
    """Length, position and consistency of each model of which one of the first two is known."""
    bias = report.judges.bias
    first = _first_positions(bias)
    rows = []
    for row in bias.scorers:
        position = first.get(row.scorer)
        known = row.length.estimate is not None or position is not None
        if row.scorer not in report.models or not known:
            continue
        picked = expected = None
        if position is not None:
            picked = position.share
            expected = position.expected
        cells = (
            scorer_cell(report, row.scorer),
            estimate(row.length),
            share(picked or Interval()),
            Shown(percent(expected)),
            Shown(p_value(row.position_p)),
            share(row.swap_consistency),
            share(row.self_agreement),
        )
        rows.append(cells)
    columns = (
        "scorer",
        "length r",
        "first picked %",
        "even picking %",
        "position p",
        "same after a swap %",
        "same when asked again %",
    )
    return Table("Position and length", columns, rows)


def _first_positions(bias: JudgeBias) -> dict[str, PositionRow]:
    """By scorer, how often the first answer is picked."""
    return {row.scorer: row for row in bias.positions if row.position == 0}


def _judges_by_culture(report: Report) -> list[Table]:
    """Length and position of each model by culture."""
    length: dict[tuple[str, str], Shown] = {}
    first_picked: dict[tuple[str, str], Shown] = {}
    for culture, bias in report.judges.bias_by_culture.items():
        for row in bias.scorers:
            if row.length.estimate:
                length[row.scorer, culture] = estimate(row.length)
        for scorer, position in _first_positions(bias).items():
            first_picked[scorer, culture] = share(position.share)
    tables = {
        "Length r by root culture": length,
        "First picked by root culture, %": first_picked,
    }
    made = []
    for title, rows in tables.items():
        shown = {key: cell for key, cell in rows.items() if key[0] in report.models}
        made.append(_grid(report, title, shown, column="culture"))
    return made


def _calibration(report: Report) -> Table:
    known = {row.scorer: row for row in report.judges.calibration}
    rows = []
    for name in report.models:
        if name not in known or (calibration := known[name].calibration) is None:
            continue
        tenths = known[name].coverage
        rows.append(
            (
                scorer_cell(report, name),
                *(share(tenths[n].accuracy) for n in (0, 4, 9)),
                Shown(percent(calibration.ece)),
                Shown(p_value(calibration.p)),
                count(calibration.n),
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
    "families": families,
    "pairs": pairs,
    "floor": floor,
    "groups": groups,
    "cells": cells,
    "perturbations": perturbations,
    "judges": judges,
    "people": people,
    "items": items,
    "failures": failures,
}
"""Every section by its name, in the order of the page."""
