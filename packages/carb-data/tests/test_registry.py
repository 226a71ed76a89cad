"""Cultures are data: shipped, added by a file, rolled up to their parents."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from carb_data import CarbError, Culture, Registry, UnknownCultureError, cultures

HAUSA = {
    "id": "wolof",
    "name": "Hausa",
    "language": "ha",
    "script": "Latn",
    "family": "Afro-Asiatic",
    "resource_class": 2,
    "regions": ["NG-KN", "NE"],
}
EGYPT = {**HAUSA, "id": "arabic-eg", "name": "Egypt", "parent": "arabic", "language": "ar", "script": "Arab"}


def fresh() -> Registry:
    return Registry(cultures, (v for c in cultures for v in cultures.varieties(c.id)))


def test_the_ten_of_the_paper_are_there_with_their_resource_classes():
    # Joshi et al. 2020, as the paper lists them.
    assert {c.id: c.resource_class for c in cultures} == {
        "arabic": 5, "chinese": 5, "english": 5, "german": 5, "japanese": 5, "spanish": 5,
        "korean": 4, "russian": 4, "vietnamese": 4, "thai": 3,
    }  # fmt: skip
    assert len(cultures) == 10
    assert all(c.parent is None for c in cultures)


def test_varieties_are_found_and_roll_up():
    assert {"spanish-es", "spanish-mx", "spanish-ar"} <= {c.id for c in cultures.varieties("spanish")}
    assert cultures.root("spanish-mx").id == "spanish"
    assert cultures.root("thai").id == "thai"
    assert "spanish-mx" in cultures
    assert "spanish-mx" not in [c.id for c in cultures]


def test_every_country_of_the_ten_has_a_culture_of_its_own_that_rolls_up():
    for culture in cultures:
        alone = [c for c in cultures.varieties(culture.id) if len(c.regions) == 1]
        if len(culture.regions) > 1:
            assert {region for c in alone for region in c.regions} >= set(culture.regions), culture.id


def test_lenders_are_found_by_id_and_stay_out_of_reports():
    assert cultures["turkish"].parent is None
    assert cultures.root("turkish").id == "turkish"
    assert "turkish" not in [c.id for c in cultures]


def test_a_file_adds_cultures(tmp_path):
    registry, path = fresh(), tmp_path / "mine.json"
    path.write_text(json.dumps([HAUSA, EGYPT]))
    registry.add(path)
    assert registry["wolof"] == Culture.model_validate(HAUSA)
    assert registry.root("arabic-eg").id == "arabic"
    assert "wolof" in [c.id for c in registry]
    assert "wolof" not in cultures


def test_the_environment_names_culture_files(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([HAUSA]))
    script = "import carb_data; print(carb_data.cultures['wolof'].name)"
    run = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "CARB_CULTURES": str(path)}, capture_output=True, text=True
    )
    assert run.stdout.strip() == "Hausa", run.stderr


def test_a_bad_file_in_the_environment_is_an_error_of_the_first_use(tmp_path):
    use = "try:\n    carb_data.cultures['thai']\nexcept carb_data.CarbError as error:\n    print(error)"
    script = f"import carb_data\nprint('imported')\n{use}"
    where = {**os.environ, "CARB_CULTURES": str(tmp_path / "nowhere.json")}
    run = subprocess.run([sys.executable, "-c", script], env=where, capture_output=True, text=True)
    assert run.stderr == ""
    assert run.stdout.startswith("imported\nCannot read the culture file")


def test_an_unknown_culture_is_answered_with_the_nearest_and_what_to_do():
    with pytest.raises(UnknownCultureError, match=r"Did you mean 'japanese'\?.*culture file"):
        _ = cultures["japanse"]
    with pytest.raises(KeyError):
        _ = cultures["klingon"]


@pytest.mark.parametrize("asked", ["austria", "Austrian", "AT"])
def test_a_country_is_found_by_its_name_and_code(asked):
    with pytest.raises(UnknownCultureError, match="Did you mean 'german-at'"):
        _ = cultures[asked]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("nonsense", "not a valid culture file"),
        ('[{"id": "x"}]', "0.name is missing"),
        (json.dumps([{**HAUSA, "resource_class": 6}]), "resource_class"),
        (json.dumps([{**HAUSA, "parent": "nowhere"}]), "names the parent 'nowhere'"),
        (json.dumps([{**HAUSA, "parent": "wolof"}]), "its own ancestor"),
        (json.dumps([{**HAUSA, "parent": "arabic-eg"}, {**EGYPT, "parent": "wolof"}]), "its own ancestor"),
    ],
)
def test_a_bad_culture_file_is_a_plain_error(tmp_path, content, reason):
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(CarbError, match=reason):
        fresh().add(path)


def test_a_file_that_is_refused_changes_nothing(tmp_path):
    registry, path = fresh(), tmp_path / "bad.json"
    path.write_text(json.dumps([HAUSA, {**EGYPT, "parent": "nowhere"}]))
    before = [c.id for c in registry]
    with pytest.raises(CarbError):
        registry.add(path)
    assert [c.id for c in registry] == before
    assert "wolof" not in registry


def test_a_missing_culture_file_is_a_plain_error(tmp_path):
    with pytest.raises(CarbError, match="Cannot read the culture file"):
        fresh().add(tmp_path / "absent.json")


def test_a_culture_file_with_a_byte_order_mark_is_read(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([HAUSA]), encoding="utf-8-sig")
    registry = fresh()
    registry.add(path)
    assert "wolof" in registry


def test_an_id_that_occurs_twice_in_a_culture_file_is_refused(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([HAUSA, {**HAUSA, "name": "Wolof"}]), encoding="utf-8")
    with pytest.raises(CarbError, match=r"mine\.json: two cultures have the id 'wolof'"):
        fresh().add(path)
