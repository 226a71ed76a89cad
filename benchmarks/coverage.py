"""How often 95% intervals hold the truth, where that is hard. Prints a table; every number is simulated.

Usage: python benchmarks/coverage.py [--rounds N]

Designs: small groups beside large ones, extreme shares, few and unequal clusters, paired differences. A round draws new
data from a known truth; the number is the share of rounds whose interval holds it. With 2,000 rounds its standard error
is 0.005 at 0.95.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import polars as pl

from carb_metrics import mean_interval
from carb_metrics.clusters import share_interval
from carb_metrics.paired import paired
from carb_metrics.tally import Tally

Case = tuple[str, str, float]


def macro(rounds: int) -> Iterator[Case]:
    designs = {
        "10 groups of 30, p = .7": ([30] * 10, [0.7] * 10),
        "5 beside four of 200, p = .9": ([5, 200, 200, 200, 200], [0.9] * 5),
        "5 beside nine of 500, p = .95": ([5, *[500] * 9], [0.95] * 10),
        "5 at .05 beside 200s at .9": ([5, 200, 200, 200, 200], [0.05, 0.9, 0.9, 0.9, 0.9]),
        "40 groups of 5, p = .9": ([5] * 40, [0.9] * 40),
        "20 groups of 5, p = .97": ([5] * 20, [0.97] * 20),
        "1 beside two of 50, p = .9": ([1, 50, 50], [0.9] * 3),
        "two groups of 5, p = .9": ([5, 5], [0.9, 0.9]),
        "5 to 160, p from .1 to .95": ([5, 10, 20, 40, 80, 160], [0.1, 0.9, 0.5, 0.7, 0.3, 0.95]),
    }
    rng = np.random.default_rng(0)
    for name, (sizes, shares) in designs.items():
        group = np.repeat(np.arange(len(sizes)), sizes)
        frame = pl.DataFrame({"scorer": "s", "culture": [f"c{g:02}" for g in group], "item_id": np.arange(len(group))})
        frame = frame.with_columns(tied=pl.lit(0), error=pl.lit(value=False))
        hits = 0
        for _ in range(rounds):
            credit = pl.Series((rng.random(len(group)) < np.array(shares)[group]).astype(float))
            tally = Tally(frame.with_columns(credit=credit), ("culture",), "wrong", 0.95)
            cell = tally.average(np.arange(len(sizes)), np.ones(len(sizes)), None)
            hits += cell.low <= np.mean(shares) <= cell.high
        yield "macro average", name, hits / rounds


def shares(rounds: int) -> Iterator[Case]:
    rng = np.random.default_rng(1)
    for sizes in ([5] * 6, [5] * 8, [1, 1, 2, 3, 10, 20], [5] * 30, [1, 1, 2, 3, 10, 20] * 5):
        for p, alike in ((0.5, 0.5), (0.9, 0.5), (0.7, 1.0), (0.9, 1.0)):
            cluster, hits = np.repeat(np.arange(len(sizes)), sizes), 0
            for _ in range(rounds):
                if alike == 1:
                    easy = (rng.random(len(sizes)) < p).astype(float)
                else:
                    easy = rng.beta(p * (1 - alike) / alike, (1 - p) * (1 - alike) / alike, len(sizes))
                _, low, high = share_interval((rng.random(len(cluster)) < easy[cluster]).astype(float), cluster, 0.95)
                hits += low <= p <= high
            kind = "equal" if len(set(sizes)) == 1 else "unequal"
            yield "share", f"{len(sizes)} {kind} clusters, p = {p}, intracluster {alike}", hits / rounds


def differences(rounds: int) -> Iterator[Case]:
    rng = np.random.default_rng(2)
    mass, truth = [0.05, 0.75, 0.2], 0.15
    for n, clusters in ((20, 0), (50, 0), (200, 0), (36, 6), (48, 8), (240, 40)):
        hits = agree = 0
        for _ in range(rounds):
            if clusters:
                own = rng.choice([-1.0, 0.0, 1.0], clusters, p=mass)
                cluster = np.arange(n) % clusters
                d = np.where(rng.random(n) < 0.5, own[cluster], rng.choice([-1.0, 0.0, 1.0], n, p=mass))
                found = paired(d, cluster)
            else:
                found = paired(rng.choice([-1.0, 0.0, 1.0], n, p=mass))
            hits += found.low <= truth <= found.high
            agree += (found.low <= 0 <= found.high) == (found.p >= 0.05)
        name = f"{n} pairs" + (f" in {clusters} clusters" if clusters else "")
        yield "paired difference", name, hits / rounds
        yield "interval and p agree", name, agree / rounds


def families(rounds: int) -> Iterator[Case]:
    rng = np.random.default_rng(3)
    for count, reads in ((12, 0.1), (40, 0.1), (100, 0.02)):
        hits = 0
        for _ in range(rounds):
            values = np.where(rng.random(count) < reads, 1.0, 0.25)
            found = mean_interval(values)
            hits += found.low <= reads + (1 - reads) / 4 <= found.high
        yield "family accuracy", f"{count} families, place read in {reads:.0%}", hits / rounds


def main() -> None:
    rounds = int(sys.argv[sys.argv.index("--rounds") + 1]) if "--rounds" in sys.argv else 2_000
    print("| interval | design | coverage |\n|---|---|---|")
    for part in (macro, shares, differences, families):
        for name, design, share in part(rounds):
            print(f"| {name} | {design} | {share:.3f} |", flush=True)


if __name__ == "__main__":
    main()
