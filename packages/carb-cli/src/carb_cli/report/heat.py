"""The colour of a heat map's cell: a class, u1 to u10 above chance and d1 to d5 below, that ``style.css`` paints."""

from __future__ import annotations

from carb_metrics.rows import Cell


def heat(cell: Cell | None, chance: float | None) -> str:
    """The class of a cell; none where its interval holds chance.

    The shade follows the limit of the interval that is nearer to chance, so that few sets give a pale cell.
    """
    if cell is None or cell.low is None or cell.high is None:
        return ""
    middle = 0.5 if chance is None else chance
    if cell.low > middle:
        return f"u{max(1, round(10 * (cell.low - middle) / (1 - middle)))}"
    if cell.high < middle:
        return f"d{max(1, round(5 * (middle - cell.high) / middle))}"
    return ""


def of_sign(value: float | None, settled: bool) -> str:
    """The class of a difference; none where it is not settled."""
    return "" if not settled or not value else "u3" if value > 0 else "d2"


def of_share(share: float | None) -> str:
    """The class of a share of 0 to 1, where more is only more."""
    return f"u{min(10, max(1, round(10 * share)))}" if share else ""
