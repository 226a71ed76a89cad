"""Recompute the table of README.md from verdicts.csv: python studies/open_book/table.py"""

# ruff: noqa: T201 - a script, which prints

import polars as pl
from kept_verdicts import paid, right, rows
from power import Floats, interval, t_interval


def cells(arm: str, column: str) -> Floats:
    """(seeds, topics) means of one arm, both in order."""
    means = rows.filter(arm=arm).group_by("seed", "topic").agg(pl.col(column).cast(float).mean())
    return means.sort("seed", "topic")[column].to_numpy().reshape(-1, means["topic"].n_unique())


def show(name: str, change: Floats) -> None:
    added, low, high, _ = interval(change[None])
    over_both = f"{added[0]:+.3f} [{low[0]:+.3f}, {high[0]:+.3f}]"
    print(f"{name}; over seeds and topics {over_both}, over seeds {t_interval(change.mean(1))}")


for column in ("readable_half", "accuracy", "well_formed", "states_right", "entropy"):
    control, treated = cells("C", column), cells("C+A", column)
    show(f"{column}: C {control.mean():.3f}, C+A {treated.mean():.3f}", treated - control)
starts = cells("start", "readable_half")[[0, 1, 1]]  # seeds 8 and 9 go on from the start of 8
gain = cells("supervised", "readable_half") - starts
show(f"supervised less its start: {gain.mean(1).round(3)}", gain)
at_clip = pl.col("r_appr").abs() >= 0.5
as_corr = (pl.col("r_appr") > 0) == right
shares = paid.select(at_clip.mean().alias("clip"), (at_clip & as_corr).mean().alias("half"))
clip, half = shares.row(0)
print(
    f"{paid.height} well-formed outputs: R_appr at the clip in {clip:.1%}, R_corr / 2 in {half:.1%}"
)
