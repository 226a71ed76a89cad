"""Rows of score tables as metrics need them again and again."""

from collections.abc import Sequence

import polars as pl
from polars import col

from carb_data import CarbError


def unperturbed(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of answers as they were written, without the perturbed ones."""
    original = frame["perturbation"].is_null()
    if original.all():  # filtering would copy it
        return frame
    return frame.filter(original)


def beside(
    rows: pl.DataFrame,
    more: pl.DataFrame,
    on: str | Sequence[str],
) -> pl.DataFrame:
    """Rows with the columns of another frame, null where it has none for them."""
    return rows.join(more, on=on, how="left", maintain_order="left")


def refuse_lost(
    rows: pl.DataFrame,
    column: str,
    message: str,
) -> None:
    """Refuse rows that a join left without a value.

    Args:
        rows: the joined rows, in the order in which one of them is named.
        column: the column that is null in such a row.
        message: a format of the first row's columns, and of ``count``.

    Raises:
        CarbError: there is such a row.
    """
    lost = rows.filter(col(column).is_null())
    if lost.height:
        first = lost.row(0, named=True)
        raise CarbError(message.format(count=lost.height, **first))


def text(*columns: str) -> pl.Expr:
    """Columns as text, whatever their kind."""
    return col(columns).cast(pl.String)
