"""Accuracy, uncertainty, validity and robustness statistics for reward models.

The other classes of their results are in ``carb_metrics.rows``.
"""

from carb_metrics.accuracy import bon_accuracy, breakdown
from carb_metrics.calibrated import calibration
from carb_metrics.centred import centred
from carb_metrics.comparison import compare
from carb_metrics.correlation import correlate
from carb_metrics.families import family_accuracy, place_gap
from carb_metrics.floor import surface_floor
from carb_metrics.interval import Interval
from carb_metrics.items import item_analysis
from carb_metrics.judges import judge_bias
from carb_metrics.languages import cross_lingual_consistency
from carb_metrics.missed import failures
from carb_metrics.paired import adjust, mean_interval, paired_difference, sets_needed
from carb_metrics.people import human_line, judge_vs_human
from carb_metrics.perturbed import perturbation_sensitivity
from carb_metrics.ranking import rank
from carb_metrics.raters import agreement
from carb_metrics.rows import Cell, FamilyReport, HumanLine, JudgeBias, RankRow, SurfaceFloor
from carb_metrics.scored import Scored

__all__ = [
    "Cell",
    "FamilyReport",
    "HumanLine",
    "Interval",
    "JudgeBias",
    "RankRow",
    "Scored",
    "SurfaceFloor",
    "adjust",
    "agreement",
    "bon_accuracy",
    "breakdown",
    "calibration",
    "centred",
    "compare",
    "correlate",
    "cross_lingual_consistency",
    "failures",
    "family_accuracy",
    "human_line",
    "item_analysis",
    "judge_bias",
    "judge_vs_human",
    "mean_interval",
    "paired_difference",
    "perturbation_sensitivity",
    "place_gap",
    "rank",
    "sets_needed",
    "surface_floor",
]
