"""carb-open, built whole from the published files, is as large as was asked for: 6,000 sets, 30 full cells."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from carb_data import BonSet, Dataset, cultures
from carb_data.dataset import SEED
from carb_data.sources import carb_open, rows

pytestmark = pytest.mark.coverage


def built(public_data: Path, seed: str) -> Dataset:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CARB_DATA_DIR", str(public_data.resolve()))
        patch.setattr(carb_open, "SEED", seed)
        return Dataset(row for row in rows("carb-open") if isinstance(row, BonSet))


def test_it_has_6000_sets_in_english_and_ten_languages(public_data: Path) -> None:
    dataset = built(public_data, SEED)
    assert len(dataset) >= 6000
    assert {"en", "es", "zh", "ja", "ru", "th", "vi", "ar", "ko", "de"} <= {item.language for item in dataset}
    assert all(item.provenance.tier for item in dataset)
    sources = Counter(item.provenance.source for item in dataset)
    assert "carb-sample" not in sources, "a ruler from outside is in no other data set"
    assert {"blend", "worldcuisines-kb", "xsafety", "carb-seed"} <= set(sources)


def test_with_a_seed_of_2456_sets_30_of_40_cells_have_100(public_data: Path) -> None:
    """The open sources fill most cells; a cell that is just full needs the seed."""
    sets = built(public_data, f"{SEED}@2")
    counts = Counter((cultures.root(item.culture).id, item.domain) for item in sets if item.culture in cultures)
    listed = {culture.id for culture in cultures}
    assert sum(n >= 100 for (culture, _), n in counts.items() if culture in listed) >= 30
