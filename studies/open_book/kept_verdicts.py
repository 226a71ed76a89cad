"""The rows of verdicts.csv, with what the figures of the study are computed from."""

from pathlib import Path

import polars as pl

right = pl.col("verdict") == pl.col("label")


def log_odds(column: str) -> pl.Expr:
    """The log-odds of the right verdict, from the column of its log-probability."""
    below_one = pl.col(column).clip(upper_bound=-1e-9)
    return pl.col(column) - (1 - below_one.exp()).log()


rows = pl.read_csv(Path(__file__).with_name("verdicts.csv")).with_columns(
    readable_half=right.cast(float).fill_null(0.5),
    accuracy=right.cast(float).fill_null(0.0),
    r_appr=log_odds("with_masked") - log_odds("without_criteria"),
)
of_both_arms = pl.col("arm").is_in(["C", "C+A"])
paid = rows.filter(of_both_arms, pl.col("well_formed") == 1).drop_nulls("r_appr")
