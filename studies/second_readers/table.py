"""Prints the marks that second readers gave carb-seed@3 on 28 November 2026: the table of its card.

Usage: python studies/second_readers/table.py

``marks.csv`` has a row for each set that was drawn by lot: what the reader picked before seeing the
key, the right answer, and marks from 1 to 5, given before any correction. The readers were language
models that had written none of the texts.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean

from scipy.stats import binomtest

Row = dict[str, str]


def lines(rows: list[Row]) -> list[str]:
    """A line for each language in the order of the file, and one for all of them."""
    by_language: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_language[row["language"]].append(row)
    printed = []
    for language, drawn in by_language.items():
        natural, asked = (fmean(int(row[name]) for row in drawn) for name in ("natural", "asked"))
        counts = f"{language}: {len(drawn)} sets, {right(drawn)} right"
        printed.append(f"{counts}, {natural:.2f}, {asked:.2f}")
    found = binomtest(right(rows), len(rows)).proportion_ci(0.95, "exact")
    limits = f"{100 * found.low:.1f} to {100 * found.high:.1f}"
    printed.append(f"together {right(rows)} of {len(rows)} right, exact 95% interval {limits}")
    return printed


def right(rows: list[Row]) -> int:
    return sum(row["picked"] == row["right"] for row in rows)


def main() -> None:
    with Path(__file__).with_name("marks.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    sys.stdout.writelines(f"{line}\n" for line in lines(rows))


if __name__ == "__main__":
    main()
