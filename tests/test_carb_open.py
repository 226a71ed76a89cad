"""carb-open, built whole from the published files, is as large as was asked for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from carb_data import BonSet, Dataset
from carb_data.card import cells
from carb_data.sources import rows


@pytest.fixture(scope="module")
def carb_open(public_data: Path) -> Dataset:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CARB_DATA_DIR", str(public_data.resolve()))
        return Dataset(row for row in rows("carb-open") if isinstance(row, BonSet))


def test_it_is_as_large_as_was_asked_for_and_no_cell_is_over_its_cap(carb_open: Dataset) -> None:
    """The goal: 6,000 sets, 30 cells of 100 or more, English and local."""
    counts = cells(carb_open)
    assert len(carb_open) >= 6000
    assert sum(sum(cell) >= 100 for cell in counts.values()) >= 30
    languages = {item.language for item in carb_open}
    assert {"en", "es", "zh", "ja", "ru", "th", "vi", "ar", "ko", "de"} <= languages
    assert all(item.provenance.tier for item in carb_open)


def test_no_set_of_a_source_that_is_a_ruler_is_in_it(carb_open: Dataset) -> None:
    sources = Counter(item.provenance.source for item in carb_open)
    assert "carb-sample" not in sources
    assert {"blend", "worldcuisines-kb", "xsafety", "carb-seed"} <= set(sources)
