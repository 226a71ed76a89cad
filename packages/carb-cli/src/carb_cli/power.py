"""How large a difference a comparison can show, read off the interval that it gave."""

from __future__ import annotations

from statistics import NormalDist

from carb_metrics import Interval

POWER = 0.8
"""Chance to find a true difference of the size that is reported."""


def detectable(found: Interval, confidence: float) -> float | None:
    """The smallest true difference that as many units show four times in five: half the width of
    the interval times ``(z_{1−α/2} + z_{power}) / z_{1−α/2}``; null without a width."""
    if found.low is None or found.high is None or found.high <= found.low:
        return None
    quantile = NormalDist().inv_cdf
    critical = quantile(0.5 + confidence / 2)
    return (found.high - found.low) / 2 * (critical + quantile(POWER)) / critical
