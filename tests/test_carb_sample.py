"""The published sample of the paper's sets: read from where a user has it, skipped where it is not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from carb_data import BonSet, Dataset
from carb_data.sources import build, rows


@pytest.fixture(scope="module")
def folder(public_data: Path) -> Path:
    found = public_data / "more" / "carb-sample"
    if not found.is_dir():
        pytest.skip("the published sample is not in CARB_DATA_DIR; nobody licensed it, so that it is not shipped")
    return found


def test_1809_sets_load_with_what_the_files_say(folder: Path, tmp_path: Path) -> None:
    report = build("carb-sample", folder, tmp_path / "sample.jsonl")
    assert report.built == 1809
    assert report.reasons == {"it stands in both folders": 190, "two of its answers are the same": 1}
    assert report.licenses == ("LicenseRef-none-stated",)
    sets = Dataset.load(tmp_path / "sample.jsonl")
    assert Counter(str(item.domain) for item in sets) == {
        "commonsense": 460,
        "values": 470,
        "safety": 439,
        "linguistics": 440,
    }
    assert set(Counter(item.language for item in sets).values()) == {180, 181}
    assert all(response.generator for item in sets for response in item.responses)
    places = Counter(next(n for n, r in enumerate(item.responses) if r is item.chosen) for item in sets)
    assert max(places.values()) < 0.3 * len(sets), "the order of the responses must not tell the right one"
    assert {"arabic-sa", "arabic-iq", "spanish-ar", "english-us"} <= {item.culture for item in sets}


def test_a_source_item_stands_in_several_languages_and_a_split_keeps_it_together(folder: Path) -> None:
    sets = Dataset(row for row in rows("carb-sample", folder) if isinstance(row, BonSet))
    assert max(Counter(item.source_item for item in sets).values()) == 2
    parts = sets.split({"train": 0.5, "test": 0.5})
    assert not {item.source_item for item in parts["train"]} & {item.source_item for item in parts["test"]}
    survey = [item for item in sets if item.topic == "WVS"]
    assert len(survey) == 470
    assert all("mean" in (item.provenance.notes or "") for item in survey)
