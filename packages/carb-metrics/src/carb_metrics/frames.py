"""Rows of score tables as metrics need them again and again."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from polars import col


def unperturbed(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of answers as they were written, without the perturbed ones."""
    original = frame["perturbation"].is_null()
    if original.all():  # filtering would copy it
        return frame
    return frame.filter(original)


def beside(rows: pl.DataFrame, more: pl.DataFrame, on: str | Sequence[str]) -> pl.DataFrame:
    """Rows with the columns of another frame, null where it has none for them."""
    return rows.join(more, on=on, how="left", maintain_order="left")


def text(*columns: str) -> pl.Expr:
    """Columns as text, whatever their kind."""
    return col(columns).cast(pl.String)
