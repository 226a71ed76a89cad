"""Accuracy, uncertainty, validity and robustness statistics for reward models."""

from carb_metrics.accuracy import bon_accuracy
from carb_metrics.breakdowns import Breakdown, breakdown
from carb_metrics.cells import Cell, Grouped, Totals
from carb_metrics.intervals import wilson

__all__ = ["Breakdown", "Cell", "Grouped", "Totals", "bon_accuracy", "breakdown", "wilson"]
