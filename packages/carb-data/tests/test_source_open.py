"""carb-open: cells filled to a cap from several sources, and the card of what came out."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from carb_data import CarbError
from carb_data.models import BonSet
from carb_data.registry import is_main
from carb_data.sources import rows
from carb_data.sources.carb_open import cell

REAL = Path(os.environ.get("CARB_DATA_DIR", "none"))
needs_real = pytest.mark.skipif(not (REAL / "more").is_dir(), reason="no public data; set CARB_DATA_DIR")
SOURCES = "tydip,einbuergerungstest-de,kobbq,idioviet"


@pytest.fixture(scope="module")
def got():
    return list(rows("carb-open", sources=SOURCES, cap=60))


@needs_real
def test_a_cell_is_filled_to_its_cap_and_families_stay_whole(got):
    sets = [row for row in got if isinstance(row, BonSet)]
    assert len({item.id for item in sets}) == len(sets)
    added = [item for item in sets if item.provenance.source != "carb-seed"]
    main = Counter(cell(item) for item in added if item.family is None or is_main(item.culture, item.language))
    assert max(main.values()) <= 60
    assert {item.provenance.source for item in added} == set(SOURCES.split(","))
    assert all(item.provenance.tier for item in added)
    for size in Counter(item.family for item in added if item.family).values():
        assert size == 4
    assert got == list(rows("carb-open", sources=SOURCES, cap=60))


def test_a_source_that_was_not_fetched_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("CARB_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("CARB_CACHE", str(tmp_path))
    with pytest.raises(CarbError, match="Run: carb data fetch"):
        list(rows("carb-open"))
