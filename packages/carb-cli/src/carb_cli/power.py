"""How large a difference a comparison can show, read off the interval that it gave."""

from statistics import NormalDist

from carb_metrics import Interval

POWER = 0.8
"""Chance to find a true difference of the size that is reported."""


def detectable(interval: Interval, confidence: float) -> float | None:
    """The smallest true difference that as many units show four times in five. It is half the width
    of the interval times ``(z_{1−α/2} + z_{power}) / z_{1−α/2}``; null without a width."""
    if interval.low is None or interval.high is None or interval.high <= interval.low:
        return None
    quantile = NormalDist().inv_cdf
    critical = quantile(0.5 + confidence / 2)
    half = (interval.high - interval.low) / 2
    return half * (critical + quantile(POWER)) / critical
