"""Correlations on the terminal: an estimate with its interval, its influences and its rivals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from carb_cli import display
from carb_metrics import DependentCorrelations, Estimate, InfluenceRow, UncertainCorrelation


def estimate_cells(estimate: Estimate) -> tuple[str, str, str]:
    """An estimate, its interval and its p, each as text; an absent one is a dash, an absent interval is empty."""
    limits = "" if estimate.low is None else f"[{figure(estimate.low)}, {figure(estimate.high)}]"
    return figure(estimate.estimate), limits, display.p_value(estimate.p)


def figure(value: float | None) -> str:
    """A number with three digits behind the point, or a dash where there is none."""
    return display.number(value, 3)


def show_influence(without: Sequence[InfluenceRow], against: Mapping[str, DependentCorrelations]) -> None:
    """Say how far single points move the correlation, and whether another predictor does better."""
    known = sorted((row.pearson, row.label) for row in without if row.pearson is not None)
    if known:
        (low, lowest), (high, highest) = known[0], known[-1]
        display.say(
            f"Leaving one out moves Pearson's r between {figure(low)} (without {lowest}) and {figure(high)} "
            f"(without {highest})."
        )
    for name, other in against.items():
        difference, limits, p = estimate_cells(other.difference)
        display.say(
            f"Against {name}: r {figure(other.r_a)} and {figure(other.r_b)}, difference {difference} {limits}, "
            f"p = {p} (Williams)."
        )


def show_uncertain(found: UncertainCorrelation) -> None:
    """Say what the correlation would be without errors of measurement."""
    observed, wide, _ = estimate_cells(found.observed)
    corrected, limits, _ = estimate_cells(found.corrected)
    display.say(
        f"With errors of measurement, over {found.clusters} base models: r {observed} {wide} as measured, {corrected} "
        f"{limits} without these errors (reliability {figure(found.reliability_x)} and {figure(found.reliability_y)})."
    )
    if found.shared_source:
        display.say("Benchmark and downstream results share a source: this correlation is probably too high.")
