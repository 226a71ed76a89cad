"""Accuracy, uncertainty, validity and robustness statistics for reward models.

Functions are loaded when first used, so that importing the package costs next to nothing. The classes of their results
are in ``carb_metrics.rows``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from carb_metrics.accuracy import bon_accuracy, breakdown
    from carb_metrics.calibrated import calibration
    from carb_metrics.comparison import compare
    from carb_metrics.correlation import correlate
    from carb_metrics.families import family_accuracy
    from carb_metrics.floor import surface_floor
    from carb_metrics.intervals import wilson
    from carb_metrics.items import item_analysis
    from carb_metrics.judges import judge_bias
    from carb_metrics.languages import cross_lingual_consistency
    from carb_metrics.missed import failures
    from carb_metrics.outcome import main_sets, margins
    from carb_metrics.paired import (
        adjust,
        mean_interval,
        minimum_detectable_difference,
        paired_difference,
        sets_needed,
    )
    from carb_metrics.people import human_line, judge_vs_human
    from carb_metrics.perturbed import perturbation_sensitivity
    from carb_metrics.ranking import rank
    from carb_metrics.raters import agreement

__all__ = [
    "adjust",
    "agreement",
    "bon_accuracy",
    "breakdown",
    "calibration",
    "compare",
    "correlate",
    "cross_lingual_consistency",
    "failures",
    "family_accuracy",
    "human_line",
    "item_analysis",
    "judge_bias",
    "judge_vs_human",
    "main_sets",
    "margins",
    "mean_interval",
    "minimum_detectable_difference",
    "paired_difference",
    "perturbation_sensitivity",
    "rank",
    "sets_needed",
    "surface_floor",
    "wilson",
]

_HOME = {
    "accuracy": ("bon_accuracy", "breakdown"),
    "calibrated": ("calibration",),
    "comparison": ("compare",),
    "correlation": ("correlate",),
    "families": ("family_accuracy",),
    "floor": ("surface_floor",),
    "intervals": ("wilson",),
    "items": ("item_analysis",),
    "judges": ("judge_bias",),
    "languages": ("cross_lingual_consistency",),
    "missed": ("failures",),
    "outcome": ("main_sets", "margins"),
    "paired": ("adjust", "mean_interval", "minimum_detectable_difference", "paired_difference", "sets_needed"),
    "people": ("human_line", "judge_vs_human"),
    "perturbed": ("perturbation_sensitivity",),
    "ranking": ("rank",),
    "raters": ("agreement",),
}
"""Module to the public names that it holds. No module has the name of a function: it would hide it."""


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"carb_metrics.{module}"), name)
            return value
    hint = "; the classes of results are in carb_metrics.rows" if name[:1].isupper() else ""
    raise AttributeError(f"module 'carb_metrics' has no attribute '{name}'{hint}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
