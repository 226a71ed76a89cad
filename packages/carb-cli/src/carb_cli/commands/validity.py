"""``carb validity``: do benchmark scores predict downstream results?"""

from __future__ import annotations

from pathlib import Path

from carb_cli import display
from carb_cli.csvs import read_points
from carb_cli.options import Confidence, Json
from carb_cli.output import print_json
from carb_metrics import correlate
from carb_metrics.rows import Correlation, Estimate


class Validity(Correlation):
    """How downstream results of n scorers go with their benchmark scores."""

    confidence: float
    against: str | None
    """The column of ``--against``, which ``rival`` compares the benchmark (a) with."""


def validity(
    file: Path,
    *,
    against: str | None = None,
    confidence: Confidence = 0.95,
    json: Json = False,
) -> None:
    """Say whether benchmark scores of reward models predict their downstream results.

    For example:

        carb validity downstream.csv

    Parameters
    ----------
    file
        CSV with a row for each reward model and the columns scorer, benchmark, downstream, and perhaps covariate,
        benchmark_se and downstream_se (standard errors), and base (the model that it was made from).
    against
        The column with the scores of another benchmark, to say which of both predicts better.
    """
    required = ["benchmark", "downstream", *([] if against is None else [against])]
    points = read_points(file, required, ["covariate", "benchmark_se", "downstream_se"])
    x, y = points.columns["benchmark"], points.columns["downstream"]
    made = correlate(
        x,
        y,
        points.columns.get("covariate"),
        confidence,
        x_error=points.columns.get("benchmark_se"),
        y_error=points.columns.get("downstream_se"),
        bases=points.bases,
        against=None if against is None else points.columns[against],
        labels=points.names,
    )
    found = Validity(**dict(made), confidence=confidence, against=against)
    if json:
        print_json(found.model_dump(mode="json"))
        return
    _show(found)


def _show(found: Validity) -> None:
    rows = [(name, *_cells(getattr(found, name))) for name in ("pearson", "spearman", "kendall")]
    if found.partial is not None:
        kinds = ("pearson", "spearman")
        rows += [(f"{name}, covariate taken out", *_cells(getattr(found.partial, name))) for name in kinds]
    columns = ["correlation", "estimate", f"{100 * found.confidence:.0f}%", "p"]
    display.table(f"{found.n} reward model{'' if found.n == 1 else 's'}", columns, rows, right=columns[1:])
    if found.pearson.estimate is None:
        display.say("No correlation can be computed: that needs several reward models with different numbers.")
    fit = found.fit
    if fit.slope is not None and fit.intercept is not None:
        sign = "+" if fit.slope >= 0 else "−"
        line = f"downstream = {fit.intercept:.4g} {sign} {abs(fit.slope):.4g} × benchmark"
        display.say(f"{line}, r² = {_number(fit.r2)}, {display.p_clause(fit.p)}")
    known = sorted((row.pearson, row.label) for row in found.influence or () if row.pearson is not None)
    if known:
        (low, lowest), (high, highest) = known[0], known[-1]
        display.say(
            f"Leaving one out moves Pearson's r between {_number(low)} (without {lowest}) and {_number(high)} "
            f"(without {highest})."
        )
    if (other := found.rival) is not None:
        difference, limits, p = _cells(other.difference)
        display.say(
            f"Against {found.against}: r {_number(other.r_a)} and {_number(other.r_b)}, difference {difference} "
            f"{limits}, p = {p} (Williams)."
        )
    if found.bases < found.n:
        display.say(f"The interval of Pearson's r is over {found.bases} base models.")
    if found.corrected is not None:
        corrected, limits, _ = _cells(found.corrected)
        known_shares = [_number(share) for share in (found.reliability_x, found.reliability_y) if share is not None]
        display.say(
            f"Without errors of measurement: r {corrected} {limits} (reliability {' and '.join(known_shares)})."
        )


def _cells(estimate: Estimate) -> tuple[str, str, str]:
    """An estimate, its interval and its p, each as text; an absent one is a dash, an absent interval is empty."""
    limits = "" if estimate.low is None else f"[{_number(estimate.low)}, {_number(estimate.high)}]"
    return _number(estimate.estimate), limits, display.p_value(estimate.p)


def _number(value: float | None) -> str:
    return display.number(value, 3)
