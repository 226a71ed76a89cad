"""Today's form of R_appr on the outputs of verdicts.csv: python studies/open_book/bent.py"""

# ruff: noqa: T201 - a script, which prints

import polars as pl
from kept_verdicts import paid, right

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
names = {1: "the right place's fact", 0: "no fact", -1: "the other place's fact"}
for fact, count, reward, given_right in earned.sort("fact", descending=True).iter_rows():
    print(
        f"{count} outputs that state {names[fact]} earn {reward:+.2f} (R_corr + R_appr, bent); "
        f"R_appr behind a right verdict {given_right:+.2f}"
    )
