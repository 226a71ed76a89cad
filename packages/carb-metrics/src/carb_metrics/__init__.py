"""Accuracy, uncertainty, validity and robustness statistics for reward models."""

from carb_metrics.accuracy import bon_accuracy
from carb_metrics.breakdowns import Breakdown, breakdown
from carb_metrics.cells import Cell, Estimate, Gap, Grouped, Totals
from carb_metrics.comparison import Comparison, compare
from carb_metrics.dependent import DependentCorrelations, compare_correlations, dependent_correlations
from carb_metrics.intervals import wilson
from carb_metrics.paired import adjust, minimum_detectable_difference, sets_needed
from carb_metrics.ranking import Ranking, rank
from carb_metrics.validity import Correlation, Fit, Influence, Partial, correlate, fit_line, leave_one_out

__all__ = [
    "Breakdown",
    "Cell",
    "Comparison",
    "Correlation",
    "DependentCorrelations",
    "Estimate",
    "Fit",
    "Gap",
    "Grouped",
    "Influence",
    "Partial",
    "Ranking",
    "Totals",
    "adjust",
    "bon_accuracy",
    "breakdown",
    "compare",
    "compare_correlations",
    "correlate",
    "dependent_correlations",
    "fit_line",
    "leave_one_out",
    "minimum_detectable_difference",
    "rank",
    "sets_needed",
    "wilson",
]
