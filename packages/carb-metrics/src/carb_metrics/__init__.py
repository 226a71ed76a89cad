"""Accuracy, uncertainty, validity and robustness statistics for reward models.

Names are loaded when first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from carb_metrics.accuracy import bon_accuracy
    from carb_metrics.attenuation import UncertainCorrelation, correlate_uncertain
    from carb_metrics.breakdowns import Breakdown, breakdown
    from carb_metrics.cells import Cell, Estimate, Gap, Grouped, Totals
    from carb_metrics.comparison import Comparison, compare
    from carb_metrics.consistency import Consistency, calibrate_k, cross_lingual_consistency
    from carb_metrics.dependent import DependentCorrelations, compare_correlations, dependent_correlations
    from carb_metrics.equivalent import Equivalence, equivalence
    from carb_metrics.families import FamilyReport, FamilyRow, family_accuracy
    from carb_metrics.floor import FloorRow, FloorTest, SurfaceFloor, surface_floor
    from carb_metrics.intervals import wilson
    from carb_metrics.items import ItemAnalysis, ItemRow, item_analysis
    from carb_metrics.judges import JudgeBias, judge_bias
    from carb_metrics.leads import MarginRow, margin_calibration, margins
    from carb_metrics.metaevaluation import MetaEvaluation, judge_vs_human
    from carb_metrics.missed import Failures, failures
    from carb_metrics.outcomes import main_sets
    from carb_metrics.paired import (
        Paired,
        adjust,
        mean_interval,
        minimum_detectable_difference,
        paired_difference,
        sets_needed,
    )
    from carb_metrics.panels import HumanLine, human_line
    from carb_metrics.ranking import Ranking, rank
    from carb_metrics.raters import Agreement, agreement
    from carb_metrics.reliability import Calibration, calibration, pick_confidence
    from carb_metrics.robustness import Sensitivity, perturbation_sensitivity
    from carb_metrics.validity import (
        Correlation,
        Fit,
        Influence,
        InfluenceRow,
        Partial,
        correlate,
        fit_line,
        leave_one_out,
    )

__all__ = [
    "Agreement",
    "Breakdown",
    "Calibration",
    "Cell",
    "Comparison",
    "Consistency",
    "Correlation",
    "DependentCorrelations",
    "Equivalence",
    "Estimate",
    "Failures",
    "FamilyReport",
    "FamilyRow",
    "Fit",
    "FloorRow",
    "FloorTest",
    "Gap",
    "Grouped",
    "HumanLine",
    "Influence",
    "InfluenceRow",
    "ItemAnalysis",
    "ItemRow",
    "JudgeBias",
    "MarginRow",
    "MetaEvaluation",
    "Paired",
    "Partial",
    "Ranking",
    "Sensitivity",
    "SurfaceFloor",
    "Totals",
    "UncertainCorrelation",
    "adjust",
    "agreement",
    "bon_accuracy",
    "breakdown",
    "calibrate_k",
    "calibration",
    "compare",
    "compare_correlations",
    "correlate",
    "correlate_uncertain",
    "cross_lingual_consistency",
    "dependent_correlations",
    "equivalence",
    "failures",
    "family_accuracy",
    "fit_line",
    "human_line",
    "item_analysis",
    "judge_bias",
    "judge_vs_human",
    "leave_one_out",
    "main_sets",
    "margin_calibration",
    "margins",
    "mean_interval",
    "minimum_detectable_difference",
    "paired_difference",
    "perturbation_sensitivity",
    "pick_confidence",
    "rank",
    "sets_needed",
    "surface_floor",
    "wilson",
]

_HOME = {
    "attenuation": ("UncertainCorrelation", "correlate_uncertain"),
    "accuracy": ("bon_accuracy",),
    "breakdowns": ("Breakdown", "breakdown"),
    "cells": ("Cell", "Estimate", "Gap", "Grouped", "Totals"),
    "comparison": ("Comparison", "compare"),
    "consistency": ("Consistency", "calibrate_k", "cross_lingual_consistency"),
    "dependent": ("DependentCorrelations", "compare_correlations", "dependent_correlations"),
    "equivalent": ("Equivalence", "equivalence"),
    "missed": ("Failures", "failures"),
    "families": ("FamilyReport", "FamilyRow", "family_accuracy"),
    "floor": ("FloorRow", "FloorTest", "SurfaceFloor", "surface_floor"),
    "intervals": ("wilson",),
    "items": ("ItemAnalysis", "ItemRow", "item_analysis"),
    "judges": ("JudgeBias", "judge_bias"),
    "leads": ("MarginRow", "margin_calibration", "margins"),
    "metaevaluation": ("MetaEvaluation", "judge_vs_human"),
    "outcomes": ("main_sets",),
    "paired": (
        "Paired",
        "adjust",
        "mean_interval",
        "minimum_detectable_difference",
        "paired_difference",
        "sets_needed",
    ),
    "panels": ("HumanLine", "human_line"),
    "ranking": ("Ranking", "rank"),
    "raters": ("Agreement", "agreement"),
    "reliability": ("Calibration", "calibration", "pick_confidence"),
    "robustness": ("Sensitivity", "perturbation_sensitivity"),
    "validity": (
        "Correlation",
        "Fit",
        "Influence",
        "InfluenceRow",
        "Partial",
        "correlate",
        "fit_line",
        "leave_one_out",
    ),
}
"""Module to the public names that it holds."""


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"carb_metrics.{module}"), name)
            return value
    raise AttributeError(f"module 'carb_metrics' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
