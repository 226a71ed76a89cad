"""Accuracy, uncertainty, validity and robustness statistics for reward models."""

from carb_metrics.accuracy import bon_accuracy
from carb_metrics.breakdowns import Breakdown, breakdown
from carb_metrics.cells import Cell, Estimate, Gap, Grouped, Totals
from carb_metrics.comparison import Comparison, compare
from carb_metrics.intervals import wilson
from carb_metrics.paired import adjust, minimum_detectable_difference, sets_needed
from carb_metrics.ranking import Ranking, rank

__all__ = [
    "Breakdown",
    "Cell",
    "Comparison",
    "Estimate",
    "Gap",
    "Grouped",
    "Ranking",
    "Totals",
    "adjust",
    "bon_accuracy",
    "breakdown",
    "compare",
    "minimum_detectable_difference",
    "rank",
    "sets_needed",
    "wilson",
]
