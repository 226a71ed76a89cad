"""``--fail-below NAME=NUMBER``: a gate for CI."""

from typing import Annotated, NamedTuple

from cyclopts import Parameter

from carb_cli import display
from carb_cli.commands.validity import finite
from carb_cli.report.report_json import Report
from carb_data import CarbError, closest
from carb_metrics import Interval

MEASURES = ("place_win", "row", "accuracy")

FailBelow = Annotated[
    str | None,
    Parameter(
        help="A gate for CI, as NAME=NUMBER, for example place_win=0.52. It ends with 1 where a "
        "model's place_win, row (accuracy over families) or accuracy is lower; failures are lost.",
        show_default=False,
    ),
]


class Gate(NamedTuple):
    """A measure, and its least value."""

    measure: str
    least: float


def read_gate(text: str | None) -> Gate | None:
    """The gate of ``--fail-below``; null where none is given.

    Raises:
        CarbError: it is not NAME=NUMBER from 0 to 1, or there is no such measure.
    """
    if text is None:
        return None
    name, _, number = text.partition("=")
    least = finite(number)
    if name not in MEASURES or not 0 <= least <= 1:
        near = ""
        if name not in MEASURES:
            near = closest(name, MEASURES)
        raise CarbError(
            "--fail-below takes NAME=NUMBER from 0 to 1, for example place_win=0.52; got "
            f"'{text}'.{near} The names are {', '.join(MEASURES)}."
        )
    return Gate(name, least)


def judged(report: Report, scorer: str, gate: Gate) -> tuple[bool, str]:
    """Whether a scorer reaches the least value, and a sentence with the interval."""
    measure = gate.measure
    least = gate.least
    reading: Interval = report.scorers[scorer].overall
    if measure != "accuracy":
        reading = Interval()
        if report.families is not None:
            row = report.families.of(scorer)
            reading = row.row
            if measure == "place_win":
                reading = row.surest
                measure += " with failures lost" if row.failed else ""
    if reading.estimate is None:
        return False, f"{measure} has no value in these data: --fail-below failed."
    limits = "no interval"
    if reading.low is not None:
        limits = f"{display.number(reading.low, 3)}, {display.number(reading.high, 3)}"
    passed = reading.estimate >= least
    verdict = f"is below {least:g}: --fail-below failed"
    if passed:
        verdict = f"is not below {least:g}: --fail-below passed"
        if reading.low is None:
            verdict += ", perhaps by luck: there are too few data for an interval"
        elif reading.low < least:
            verdict += ", perhaps by luck: the interval reaches below"
    value = display.number(reading.estimate, 3)
    return passed, f"{measure} {value} [{limits}] {verdict}."
