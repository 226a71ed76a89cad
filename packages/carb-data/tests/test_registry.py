"""Cultures are data: shipped, added by a file, rolled up to their parents; and does a text name
one?"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from carb_data import CarbError, Culture, Registry, UnknownCultureError, cultures
from carb_data.surface import names_culture

HAUSA = {
    "id": "wolof",
    "name": "Hausa",
    "language": "ha",
    "script": "Latn",
    "family": "Afro-Asiatic",
    "resource_class": 2,
    "regions": ["NG-KN", "NE"],
}
EGYPT = {
    **HAUSA,
    "id": "arabic-eg",
    "name": "Egypt",
    "parent": "arabic",
    "language": "ar",
    "script": "Arab",
}


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("日本", "Did you mean 'japanese'"),
        ("España", "Did you mean 'spanish'"),
        ("مصر", "Did you mean 'arabic'"),
        ("Việt Nam", "Did you mean 'vietnamese'"),
        ("Tailand", "Did you mean 'thailand'"),
        ("spanich", "Did you mean 'spanish'"),
        ("-", "Leave it empty"),
        ("?", "Leave it empty"),
    ],
)
def test_an_unknown_culture_is_told_what_is_near(text, near):
    assert near in str(cultures.unknown(text))


def fresh() -> Registry:
    return Registry(cultures, (v for c in cultures for v in cultures.varieties(c.id)))


def test_the_ten_of_the_paper_are_there_with_their_resource_classes():
    # Joshi et al. 2020, as the paper lists them.
    assert {n: {c.id for c in cultures if c.resource_class == n} for n in (3, 4, 5)} == {
        5: {"arabic", "chinese", "english", "german", "japanese", "spanish"},
        4: {"korean", "russian", "vietnamese"},
        3: {"thai"},
    }
    assert len(cultures) == 10
    assert all(c.parent is None for c in cultures)


def test_varieties_are_found_and_roll_up():
    assert {"spanish-es", "spanish-mx", "spanish-ar"} <= {
        c.id for c in cultures.varieties("spanish")
    }
    assert cultures.root("spanish-mx").id == "spanish"
    assert cultures.root("thai").id == "thai"
    assert "spanish-mx" in cultures
    assert "spanish-mx" not in [c.id for c in cultures]


def test_every_country_of_the_ten_has_a_culture_of_its_own_that_rolls_up():
    for culture in cultures:
        alone = [c for c in cultures.varieties(culture.id) if len(c.regions) == 1]
        if len(culture.regions) > 1:
            assert {region for c in alone for region in c.regions} >= set(culture.regions), (
                culture.id
            )


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
        (
            json.dumps([{**HAUSA, "parent": "arabic-eg"}, {**EGYPT, "parent": "wolof"}]),
            "its own ancestor",
        ),
    ],
)
def test_a_bad_culture_file_is_a_plain_error(tmp_path, content, reason):
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(CarbError, match=reason):
        fresh().add(path)


@pytest.mark.parametrize(
    ("culture", "text"),
    [
        ("arabic", "في مصر يحتفل الناس بشم النسيم"),
        ("chinese", "在中国，筷子不能插在饭里"),
        ("english", "In the U.S. you tip"),
        ("english", "Most British people queue"),
        ("german", "In Deutschland ist sonntags Ruhe"),
        ("german", "die deutsche Küche"),
        ("japanese", "日本では靴を脱ぐ"),
        ("korean", "한국에서는 두 손으로 받는다"),
        ("russian", "В России дарят нечётное число цветов"),
        ("spanish", "En España se cena tarde"),
        ("thai", "คนไทยไหว้ทักทายกัน"),
        ("vietnamese", "Ở Việt Nam, Tết là dịp lớn nhất"),
        ("spanish-mx", "En México el Día de Muertos es en noviembre"),
        ("thai", "In Thailand, the head is sacred"),
        ("thai", "タイでは頭に触れない"),
        ("arabic", "In Ägypten isst man Salzfisch"),
        ("english", "В Британии пьют чай"),
        ("japanese", "ในญี่ปุ่นถอดรองเท้า"),
        ("korean", "ในเกาหลีใช้สองมือ"),
        ("korean", "In Südkorea nimmt man beide Hände"),
        ("arabic", "يعيش في قطر منذ عام"),
        ("arabic", "العادات القطريّة والمصرية"),
        ("arabic", "سافر إلى المغرب والأردن"),
        ("arabic", "المغاربة والعراقيون والسوريين"),
        ("english", "في بريطانيا وأمريكا"),
        ("german", "في ألمانيا"),
        ("english", "يتكلم الإنجليزية"),
        ("chinese-hk", "在香港，丧家给来宾"),
        ("chinese-hk", "Ở Hồng Kông người ta"),
        ("chinese-hk", "В Гонконге гостям"),
        ("chinese-hk", "홍콩에서는"),
        ("chinese-tw", "在臺灣"),
    ],
)
def test_the_label_is_found_in_every_language(culture, text):
    assert names_culture(text, culture)


@pytest.mark.parametrize(
    ("culture", "text"),
    [
        ("english", "Please call us tomorrow"),
        ("thai", "ส้มตำเป็นอาหารที่มีรสเผ็ด"),
        ("japanese", "中国の料理"),
        ("chinese-hk", "在臺灣"),
        ("chinese", "على صينية أمام المدعوّين"),
        ("german", "Sie sagt es deutlich"),
        ("arabic", "قطرة ماء تقطر من الصنبور"),
        ("arabic", "ذهب إلى المصرف وفتح مصراع الباب"),
        ("arabic", "ركبنا القطار إلى الضاحية"),
    ],
)
def test_other_words_are_no_label(culture, text):
    assert not names_culture(text, culture)


def test_every_listed_culture_has_a_pattern_that_finds_its_name():
    for culture in cultures:
        assert (
            names_culture(f"people from the {culture.name} world", culture.id)
            or culture.id == "english"
        )
    assert names_culture("An English habit", "english")


def test_the_users_cultures_are_read_when_the_registry_is_first_used(tmp_path):
    welsh = {"id": "welsh", "name": "Welsh", "language": "cy", "script": "Latn"}
    more = {"family": "Indo-European", "resource_class": 1, "regions": ["GB-WLS"]}
    path = tmp_path / "more.json"
    path.write_text(json.dumps([welsh | more]))
    program = (
        "import os, sys; from carb_data import cultures; "
        "os.environ['CARB_CULTURES'] = sys.argv[1]; print(cultures.name('welsh'))"
    )
    given = [sys.executable, "-c", program, str(path)]
    ended = subprocess.run(given, capture_output=True, text=True, check=True)
    assert ended.stdout == "Welsh\n"
