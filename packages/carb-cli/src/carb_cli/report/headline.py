"""The results of a report, in sentences that can be quoted alone. A line of its own holds the
headline."""

from collections.abc import Sequence

from carb_cli.display import counted, percent, shown
from carb_cli.power import detectable
from carb_cli.report.report_json import Report
from carb_cli.report.tables import marked_labels, settled
from carb_metrics import Interval
from carb_metrics.rows import FamilyRow, FloorTest

LEAST_RATE = 0.52
"""Place win rate below which no scorer is said to read the place, however sure the number is."""


def verdict(report: Report) -> str:
    """First whether the place decides, where families tell; then accuracy against chance and the
    surface; failures."""
    sentences = (_of_families(report), _of_sets(report), _of_people(report), _of_failures(report))
    return "\n".join(sentence for sentence in sentences if sentence) or "No set could be judged."


def _of_families(report: Report) -> str:
    """The highest place win rate of a model, and how often the right answer is on top under the
    place."""
    rows = []
    if report.families is not None:
        rows = [report.families.of(name) for name in report.models]
    rows = [row for row in rows if row.place_win.estimate is not None]
    if not rows:
        return ""
    sure = settled({row.scorer: row.place_win.p for row in rows}, report.confidence)

    def shown_to_read(row: FamilyRow) -> bool:
        return row.scorer in sure and _above(row) and not _by_failing(row)

    best = max(rows, key=lambda row: (shown_to_read(row), row.place_win.estimate))
    if best.scorer not in sure:
        return _not_shown(report, best, len(rows))
    name = marked_labels(report)[best.scorer]
    how, why = _reads(best, report.shared_words or Interval())
    rate = f"its place win rate is {_rate(best)}; chance is 50%."
    return f"{name} {how}: {rate}{why}{_failed(best)} {_on_top(best, name)}"


def _reads(row: FamilyRow, words: Interval) -> tuple[str, str]:
    """How a scorer that differs from chance behaves, and why the report claims no more.

    Args:
        words: the place win rate of shared words, if it is known.
    """
    not_shown = "is not shown to read the place"
    if not _above(row):
        return "reads the place the wrong way round", ""
    if (row.place_win.estimate or 0.0) < LEAST_RATE:
        return not_shown, f" Rates below {percent(LEAST_RATE)}% are too small to count."
    if _by_failing(row):
        return not_shown, " Its failures may hide losses."
    if (row.surest.low or 0.0) < (words.estimate or 0.0):
        reached = f" Words that question and answer share reach {percent(words.estimate)}%."
        return f"{not_shown} beyond shared words", reached
    return "reads the place", ""


def _above(row: FamilyRow) -> bool:
    return (row.place_win.estimate or 0.0) > 0.5


def _by_failing(row: FamilyRow) -> bool:
    """Whether a scorer that does not read the place may have this rate because of its failures."""
    return row.failed > 0 and (row.surest.low or 0.0) <= 0.5


def _not_shown(report: Report, best: FamilyRow, tested: int) -> str:
    """The sentence where no scorer is told from chance."""
    name = marked_labels(report)[best.scorer]
    if tested == 1:
        finding = f"{name} is not shown to read the place. Its place win rate is {_rate(best)}"
    else:
        models = any(part.spec.kind != "baseline" for part in report.scorers.values())
        finding = f"No {'model' if models else 'scorer'} is shown to read the place. "
        finding += f"The highest place win rate is {_rate(best)}, that of {name}"
    power = _power(best, report.confidence)
    power += f" The test corrects for {tested} scorers." if tested > 1 else ""
    return f"{finding}; chance is 50%.{power}{_failed(best)} {_on_top(best, name)}"


def _rate(row: FamilyRow) -> str:
    """The place win rate with its interval."""
    few = " [too few families for an interval]"
    if row.place_win.low is not None:
        few = ""
    return shown(row.place_win) + few


def _failed(row: FamilyRow) -> str:
    if not row.failed:
        return ""
    return (
        f" {row.failed:,} of {row.comparisons:,} comparisons failed and count half; "
        f"if they were lost, the rate would be {shown(row.surest)}."
    )


def _on_top(row: FamilyRow, name: str) -> str:
    """Row accuracy in words."""
    families = counted(row.families, "family", "families")
    if row.row.estimate is None:
        return f"None of the {families} is complete."
    left = ""
    if row.incomplete:
        left = f" {row.incomplete:,} incomplete families are not counted."
    return (
        f"{name} scores the right answer highest in {shown(row.row)} of the sets of "
        f"{families}; chance is {percent(row.chance)}%.{left}"
    )


def _power(row: FamilyRow, confidence: float) -> str:
    """The smallest rate that so many families would show four times in five."""
    least = detectable(row.place_win, confidence)
    if least is None:
        return ""
    if least >= 0.5:
        return " So few families cannot show one."
    return f" With these families, only rates above about {percent(0.5 + least)}% are detectable."


def _of_sets(report: Report) -> str:
    """How far the best model gets, and how many get further than chance and the surface."""
    chance = report.dataset.chance
    known = {
        name: part.overall for name in report.models if not (part := report.scorers[name]).failed
    }
    if chance is None or not known:
        return ""
    best = max(known, key=lambda name: known[name].accuracy or 0.0)
    cell = known[best]
    name = marked_labels(report)[best]
    sets = counted(cell.n, "main set" if report.dataset.mirrors else "set")
    sentence = (
        f"On {sets}, {name} is right in {shown(cell)}{', the most' if len(known) > 1 else ''}."
    )
    sentence += f" Chance is {percent(chance)}%"
    if (home := report.home_line) is not None:
        sentence += f", the home line {percent(home.accuracy)}%"
        if chance < (cell.low or 0.0) <= (home.accuracy or 0.0):
            sentence += ": preferring the home's answer explains it"
    if report.floor is None:
        return f"{sentence}."
    floor = f"{percent(report.floor.overall.floor.accuracy)}%"
    tests = [test for name in known if (test := report.floor.test(name)) is not None]
    if above := above_floor(tests):
        return f"{sentence}. The surface alone reaches {floor}: {above}."
    return f"{sentence}. Baselines read nothing but the surface, which reaches {floor} here."


def above_floor(tests: Sequence[FloorTest]) -> str:
    """How many scorers are clearly above the surface, where that can be shown; empty without a
    test."""
    if not tests:
        return ""
    known = [test.above for test in tests if test.above is not None]
    if not known:
        return "with so few sets it cannot be shown that a scorer is above it"
    sentence = f"{sum(known)} of {len(known)} clearly above it"
    if len(known) < len(tests):
        sentence += f" (for {len(tests) - len(known)} more it cannot be shown)"
    return sentence


def _of_people(report: Report) -> str:
    """How often people pick the key, where enough of them were asked."""
    line = report.people.line
    if line is None or not line.enough:
        return ""
    of_all = ""
    if report.people.whole:
        of_all = " of the whole reviewed data set"
    return (
        f"People of the cultures pick the key{of_all} in {shown(line)} "
        f"of {line.n:,} answers ({line.people:,} people)."
    )


def _of_failures(report: Report) -> str:
    """The share of failed sets, a scorer that failed on every set, and what else is doubtful."""
    parts = []
    short = marked_labels(report)
    for name in report.models:
        cell = report.scorers[name].overall
        if cell.errors and report.scorers[name].failed:
            parts.append(
                f"{short[name]} failed on every set, so it gets no verdict. Why: errors.jsonl."
            )
        elif cell.errors:
            share = percent(cell.errors / cell.n)
            parts.append(
                f"{short[name]} failed on {cell.errors:,} of {cell.n:,} sets "
                f"({share}%), counted wrong."
            )
    parts += [f"{short[name]}: {part.doubt}" for name, part in report.scorers.items() if part.doubt]
    return " ".join(filter(None, parts))
