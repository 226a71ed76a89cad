"""How many seeds and families a test of two training arms needs: simulated from the variances of a
pilot.

    python studies/open_book/power.py --pilot runs/open-book/verdicts.csv --arms C C+A --effect 0.08
    python studies/open_book/power.py --variances 0.0003 0 0.033 --seeds 5 8 --families 14 28

The pilot has a row per verdict: ``seed, arm, source_item, label, verdict``. An arm's accuracy in a
source item (a family) is the share of verdicts that equal the label; one that cannot be read is
half right. The difference of two arms in one seed and one family is

    d = effect + seed + family + rest,

whose three variances come from the pilot's two-way table (Searle, Casella and McCulloch 1992,
Variance Components, section 4.3). Each design is then drawn many times and tested as the
registration would: the mean over seeds and families against a variance that counts both, with
Satterthwaite's degrees of freedom. Power at no effect is its size.
"""

# ruff: noqa: T201 - a script, which prints

from __future__ import annotations

import argparse
import sys
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import stats

Floats = npt.NDArray[np.float64]
DRAWS = 4000


class Variances(NamedTuple):
    """The variance components of the difference in accuracy between two arms."""

    seed: float
    family: float
    rest: float


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--pilot", help="CSV with seed, arm, source_item, label, verdict")
    source.add_argument(
        "--variances",
        nargs=3,
        type=float,
        metavar=("SEED", "FAMILY", "REST"),
        help="what one printed",
    )
    parser.add_argument("--arms", nargs=2, default=["C", "C+A"], metavar=("CONTROL", "TREATED"))
    parser.add_argument(
        "--effect", type=float, default=0.08, help="difference in accuracy that should be found"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[3, 5, 8])
    parser.add_argument("--families", nargs="+", type=int, default=[16, 32, 64, 128])
    given = parser.parse_args()
    parts = Variances(*given.variances) if given.variances else of_pilot(given.pilot, *given.arms)
    print(f"Variances: seed {parts.seed:.4f}, family {parts.family:.4f}, rest {parts.rest:.4f}.")
    draw = np.random.default_rng(0)
    for seeds in given.seeds:
        for families in given.families:
            size, power = (
                share_found(parts, effect, seeds, families, draw) for effect in (0.0, given.effect)
            )
            print(
                f"{seeds} seeds, {families:3} families: power {power:.2f} at "
                f"{given.effect:+.2f}, {size:.3f} at 0"
            )
    return 0


def of_pilot(path: str, control: str, treated: str) -> Variances:
    """The variance components of a pilot's two arms, whose difference is printed."""
    found = differences(pl.read_csv(path), control, treated)
    estimate, low, high, _ = interval(found[None])
    print(
        f"Pilot: {found.shape[0]} seeds, {found.shape[1]} families; {estimate[0]:+.3f} "
        f"[{low[0]:+.3f}, {high[0]:+.3f}]."
    )
    return variances(found)


def differences(rows: pl.DataFrame, control: str, treated: str) -> Floats:
    """(seeds, families) accuracy of the treated arm less that of the control, over what both
    have."""
    right = rows.with_columns(
        right=(pl.col("label") == pl.col("verdict")).cast(pl.Float64).fill_null(0.5)
    )
    kept = right.filter(pl.col("arm").is_in([control, treated]) & pl.col("seed").is_not_null())
    means = kept.group_by("seed", "source_item", "arm").agg(pl.col("right").mean())
    wide = means.pivot("arm", index=["seed", "source_item"], values="right")
    if {control, treated} - set(wide.columns):
        sys.exit(f"The pilot has the arms {', '.join(sorted(set(rows['arm'])))}.")
    table = wide.with_columns(d=pl.col(treated) - pl.col(control)).pivot(
        "source_item", index="seed", values="d"
    )
    found = table.drop("seed").cast(pl.Float64).to_numpy()
    return found[:, ~np.isnan(found).any(0)]


def squares(d: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean squares of seeds, families and the rest, over the last two axes."""
    seeds, families = d.shape[-2:]
    by_seed, by_family, mean = d.mean(-1), d.mean(-2), d.mean((-2, -1))
    rest = d - by_seed[..., :, None] - by_family[..., None, :] + mean[..., None, None]
    return (
        families * by_seed.var(-1, ddof=1),
        seeds * by_family.var(-1, ddof=1),
        (rest**2).sum((-2, -1)) / ((seeds - 1) * (families - 1)),
    )


def variances(d: Floats) -> Variances:
    """The components of a (seeds, families) table; a negative estimate is 0."""
    seeds, families = d.shape
    by_seed, by_family, rest = (float(one) for one in squares(d))
    return Variances(max(0.0, by_seed - rest) / families, max(0.0, by_family - rest) / seeds, rest)


def interval(d: Floats) -> tuple[Floats, Floats, Floats, npt.NDArray[np.bool_]]:
    """Mean, 95% limits, and whether 0 lies outside, of (draws, seeds, families) tables."""
    seeds, families = d.shape[-2:]
    by_seed, by_family, rest = squares(d)
    # No less than either factor alone says: the difference of mean squares may come out below both.
    total = np.maximum.reduce([by_seed + by_family - rest, by_seed, by_family])
    parts = by_seed**2 / (seeds - 1) + by_family**2 / (families - 1)
    df = np.divide(total**2, parts, out=np.full_like(total, float(seeds - 1)), where=parts > 0)
    half = stats.t.ppf(0.975, df) * np.sqrt(total / (seeds * families))
    mean = d.mean((-2, -1))
    return mean, mean - half, mean + half, (mean - half > 0) | (mean + half < 0)


def t_interval(d: Floats) -> str:
    """The mean of a difference over seeds, or over topics, with a 95% t interval."""
    half = stats.t.ppf(0.975, len(d) - 1) * d.std(ddof=1) / np.sqrt(len(d))
    return f"{d.mean():+.3f} [{d.mean() - half:+.3f}, {d.mean() + half:+.3f}]"


def share_found(
    parts: Variances, effect: float, seeds: int, families: int, draw: np.random.Generator
) -> float:
    """The share of simulated tests that find something."""
    shapes = {
        "seed": (DRAWS, seeds, 1),
        "family": (DRAWS, 1, families),
        "rest": (DRAWS, seeds, families),
    }
    d = effect + sum(
        draw.normal(0, np.sqrt(getattr(parts, name)), shape) for name, shape in shapes.items()
    )
    return float(interval(d)[3].mean())


if __name__ == "__main__":
    sys.exit(main())
