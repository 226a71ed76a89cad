"""What is a tie, decided in one place."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl

from carb_data import rounded
from carb_metrics.ties import higher

PACKAGES = Path(__file__).parents[2]


def test_scores_of_a_set_that_agree_to_nine_digits_are_a_tie() -> None:
    levels = rounded(pl.Series([0.1 + 0.2, 0.3, 1.0, 1.0000000001, 1.00000001])).to_list()
    assert levels[0] == levels[1]
    assert levels[2] == levels[3]
    assert levels[3] != levels[4]


def test_between_sets_the_smallest_difference_is_an_order() -> None:
    first = np.array([1.0, 1.0, np.nextafter(1.0, 2.0), np.nan, -1e308])
    second = np.array([2.0, 1.0, 1.0, 1.0, 1e308])
    assert higher(first, second).tolist()[:3] == [0.0, 0.5, 1.0]
    assert np.isnan(higher(first, second)[3])
    assert higher(first, second)[4] == 0.0


def test_no_other_file_rounds_scores() -> None:
    found = [
        path.name
        for path in PACKAGES.glob("*/src/**/*.py")
        if re.search(r"round_sig_figs", path.read_text(encoding="utf-8"))
    ]
    assert found == ["table.py"]
    assert rounded(pl.Series([1.23456789012])).to_list() == [1.23456789]
