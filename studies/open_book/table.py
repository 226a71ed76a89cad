"""Recompute the table of README.md from verdicts.csv: python studies/open_book/table.py"""

# ruff: noqa: T201 - a script, which prints

from pathlib import Path

import polars as pl
from power import Floats, interval, t_interval

right = pl.col("verdict") == pl.col("label")
log_odds = {
    name: pl.col(name) - (1 - pl.col(name).clip(upper_bound=-1e-9).exp()).log()
    for name in ("with_masked", "without_criteria")
}
r_appr = log_odds["with_masked"] - log_odds["without_criteria"]
rows = pl.read_csv(Path(__file__).with_name("verdicts.csv")).with_columns(
    readable_half=right.cast(float).fill_null(0.5),
    accuracy=right.cast(float).fill_null(0.0),
    r_appr=r_appr,
)


def cells(arm: str, column: str) -> Floats:
    """(seeds, topics) means of one arm, both in order."""
    means = rows.filter(arm=arm).group_by("seed", "topic").agg(pl.col(column).cast(float).mean())
    return means.sort("seed", "topic")[column].to_numpy().reshape(-1, means["topic"].n_unique())


for column in ("readable_half", "accuracy", "well_formed", "states_right", "entropy"):
    control, treated = cells("C", column), cells("C+A", column)
    added, low, high, _ = interval((treated - control)[None])
    over_seeds = t_interval((treated - control).mean(1))
    print(
        f"{column}: C {control.mean():.3f}, C+A {treated.mean():.3f}, over seeds {over_seeds}, "
        f"over seeds and topics {added[0]:+.3f} [{low[0]:+.3f}, {high[0]:+.3f}]"
    )
supervised, start = cells("supervised", "readable_half"), cells("start", "readable_half")
gain = supervised - start[[0, 1, 1]]  # seeds 8 and 9 go on from the start of 8
added, low, high, _ = interval(gain[None])
print(
    f"supervised less its start: {gain.mean(1).round(3)}; {added[0]:+.3f} "
    f"[{low[0]:+.3f}, {high[0]:+.3f}] over seeds and topics"
)
paid = rows.filter(pl.col("arm").is_in(["C", "C+A"]), pl.col("well_formed") == 1).drop_nulls(
    "r_appr"
)
at_clip, as_corr = pl.col("r_appr").abs() >= 0.5, (pl.col("r_appr") > 0) == right
print(
    f"{paid.height} well-formed outputs of C and C+A: R_appr at the clip of 0.5 in "
    f"{paid.select(at_clip.mean()).item():.1%}, R_corr / 2 in "
    f"{paid.select((at_clip & as_corr).mean()).item():.1%}"
)
bent = pl.col("r_appr") / (1 + pl.col("r_appr").abs())
sharp = pl.col("r_appr").clip(-0.5, 0.5)
gained = paid.filter(pl.col("r_appr") > 0)
print(
    f"spread of R_appr above 0: clipped {gained.select(sharp.std()).item():.3f}, "
    f"bent {gained.select(bent.std()).item():.3f}"
)
states = pl.col("states_right").cast(int) - pl.col("states_other").cast(int)
earned = paid.group_by(fact=states.sign()).agg(
    pl.len(),
    earned=(right.cast(float) * 2 - 1 + bent).mean(),
    with_right_verdict=bent.filter(right).mean(),
)
for fact, count, reward, given_right in earned.sort("fact", descending=True).iter_rows():
    name = {1: "the right place's fact", 0: "no fact", -1: "the other place's fact"}[fact]
    print(
        f"{count} outputs that state {name} earn {reward:+.2f} (R_corr + R_appr, bent); "
        f"R_appr behind a right verdict {given_right:+.2f}"
    )
