"""The classes of all results, each where the function that returns it is."""

from carb_metrics.accuracy import Breakdown
from carb_metrics.calibrated import Calibration, Coverage, MarginRow
from carb_metrics.cells import Cell, Grouped, Result, Totals
from carb_metrics.comparison import ComparedGroup, Comparison, Margin
from carb_metrics.correlation import Correlation, Fit, LeftOut, Partial, Rival
from carb_metrics.families import FamilyReport, FamilyRow, PlaceComparison
from carb_metrics.floor import FloorRow, FloorTest, SurfaceFloor
from carb_metrics.interval import Interval
from carb_metrics.items import ItemAnalysis, ItemRow
from carb_metrics.judges import BiasRow, JudgeBias, PositionRow
from carb_metrics.languages import Consistency, ConsistencyRow
from carb_metrics.missed import Cluster, Confusion, Example, Failures
from carb_metrics.paired import Paired
from carb_metrics.people import HumanLine, JudgedRow
from carb_metrics.perturbed import KindRow, Sensitivity, SpreadRow
from carb_metrics.ranking import PairRow, RankedRow, Ranking, RankRow
from carb_metrics.raters import Agreement

__all__ = [
    "Agreement",
    "BiasRow",
    "Breakdown",
    "Calibration",
    "Cell",
    "Cluster",
    "ComparedGroup",
    "Comparison",
    "Confusion",
    "Consistency",
    "ConsistencyRow",
    "Correlation",
    "Coverage",
    "Example",
    "Failures",
    "FamilyReport",
    "FamilyRow",
    "Fit",
    "FloorRow",
    "FloorTest",
    "Grouped",
    "HumanLine",
    "Interval",
    "ItemAnalysis",
    "ItemRow",
    "JudgeBias",
    "JudgedRow",
    "KindRow",
    "LeftOut",
    "Margin",
    "MarginRow",
    "PairRow",
    "Paired",
    "Partial",
    "PlaceComparison",
    "PositionRow",
    "RankRow",
    "RankedRow",
    "Ranking",
    "Result",
    "Rival",
    "Sensitivity",
    "SpreadRow",
    "SurfaceFloor",
    "Totals",
]
