"""The line of a run at each step."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["progress_line"]

SHOWN = {
    "loss": "loss",
    "reward": "reward",
    "rewards/R_corr/mean": "R_corr",
    "rewards/R_appr/mean": "R_appr",
    "rewards/R_format/mean": "form",
    "verdict_accuracy": "verdicts right",
    "eval_reward": "reward on dev pairs",
    "tokens_per_second": "tokens/s",
}
"""Logged values that a line holds, and their names there."""
TOTAL = "total_steps"
"""Logged by each stage: how many steps it takes."""
LEFT = "seconds_left"
"""Logged by each stage: how long the rest takes at the mean speed so far."""


def progress_line(stage: str, step: int, values: Mapping[str, float]) -> str | None:
    """One line for a person; null where nothing of ``SHOWN`` was logged."""
    parts = [f"{name} {values[key]:.3g}" for key, name in SHOWN.items() if key in values]
    if not parts:
        return None
    total = ""
    if TOTAL in values:
        total = f" of {values[TOTAL]:.0f}"
    left = ""
    if LEFT in values:
        left = f", {values[LEFT]:.0f} s left"
    return f"{stage} step {step}{total}: {', '.join(parts)}{left}"
