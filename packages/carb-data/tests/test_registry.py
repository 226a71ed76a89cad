"""Cultures are data: shipped, added by a file, rolled up to their parents."""

from __future__ import annotations

import json

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


def test_a_file_adds_cultures(tmp_path):
    registry, path = fresh(), tmp_path / "mine.json"
    path.write_text(json.dumps([HAUSA, EGYPT]))
    registry.add(path)
    assert registry["wolof"] == Culture.model_validate(HAUSA)
    assert registry.root("arabic-eg").id == "arabic"
    assert "wolof" in [c.id for c in registry]
    assert "wolof" not in cultures


def test_an_unknown_culture_is_answered_with_the_nearest_and_what_to_do():
    with pytest.raises(UnknownCultureError, match=r"Did you mean 'japanese'\?.*culture file"):
        _ = cultures["japanse"]
    with pytest.raises(KeyError):
        _ = cultures["klingon"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("nonsense", "is not JSON"),
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
