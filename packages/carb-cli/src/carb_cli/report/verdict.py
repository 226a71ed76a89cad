"""What a report found, in two sentences."""

from __future__ import annotations

from collections.abc import Sequence

from carb_cli.display import number, percent, safe
from carb_cli.labels import labels
from carb_cli.report.model import Report


def verdict(report: Report) -> str:
    """What was found, in sentences that survive being quoted: first whether the place decides, where families tell."""
    models = [name for name, part in report.scorers.items() if part.spec.kind != "baseline"]
    judged = models or list(report.scorers)
    said = [_of_families(report, judged), _of_sets(report, judged, "model" if models else "scorer")]
    return " ".join(sentence for sentence in said if sentence) or "No set could be judged."


def _of_families(report: Report, models: Sequence[str]) -> str:
    """What the best model does when nothing but the place changes."""
    rows = [] if report.families is None else [report.families.of(name) for name in models]
    rows = [row for row in rows if row.row.estimate is not None]
    if not rows:
        return ""
    best = max(rows, key=lambda row: row.row.estimate or 0.0)
    name, found, effect = safe(labels(report.scorers)[best.scorer]), best.row, best.place_effect
    limits = f"[{percent(found.low)} – {percent(found.high)}]"
    settled = found.p is not None and found.p < 1 - report.confidence
    ones = "one is" if best.incomplete == 1 else "ones are"
    left_out = f" ({best.incomplete:,} incomplete {ones} left out)" if best.incomplete else ""
    clear = "clearly more than" if (found.estimate or 0.0) > (best.chance or 0.0) else "clearly less than"
    return (
        f"When only the place in the question changes, {name} picks the right answer in {percent(found.estimate)}% "
        f"{limits} of {best.sets:,} sets in {best.families:,} families{left_out}, "
        f"{clear if settled else 'which cannot be told from'} the {percent(best.chance)}% of a model that "
        f"does not read the place; its place effect is {number(effect.estimate, 2)} standard deviations."
    )


def _of_sets(report: Report, models: Sequence[str], what: str) -> str:
    """How many models get further than chance and the surface, and how far the best gets."""
    chance = report.dataset.chance
    known = {name: report.scorers[name].overall for name in models if report.scorers[name].overall.low is not None}
    if chance is None or not known:
        return ""
    above = sum(cell.low is not None and cell.low > chance for cell in known.values())
    what += "" if len(known) == 1 else "s"
    said = f"{above} of {len(known)} {what} {'is' if 1 in (above, len(known)) else 'are'} clearly above chance"
    if report.floor is not None:
        tests = [test for name in known if (test := report.floor.test(name)) is not None]
        floor = f"{percent(report.floor.overall.floor.accuracy)}%"
        if what.startswith("model"):
            said += f", {sum(test.above for test in tests)} above the {floor} that the surface alone reaches"
        else:
            said += f"; baselines read nothing but the surface, which reaches {floor} here"
    best = max(known, key=lambda name: known[name].accuracy or 0.0)
    cell, name = known[best], safe(labels(report.scorers)[best])
    limits = f"[{percent(cell.low)} – {percent(cell.high)}]"
    which = "of the main sets" if report.dataset.mirrors else "of the sets"
    return f"{said}. The best is {name} with {percent(cell.accuracy)}% {limits} {which}; chance is {percent(chance)}%."
