"""Scores that differ by rounding alone."""

from __future__ import annotations

from collections.abc import Sequence

SAME = 1e-11
"""Values that are no further apart are the same; what rounding does to values around 1 is 1e-16 to 1e-12."""


def equal_made_equal(values: Sequence[float]) -> list[float]:
    """Values that differ by rounding alone made the same, so that no order of the candidates decides between them."""
    out = list(values)
    group: list[int] = []
    for i in sorted(range(len(values)), key=lambda i: values[i]):
        if group and values[i] - values[group[-1]] > SAME:
            group = []
        group.append(i)
        for member in group:
            out[member] = values[group[0]]
    return out
