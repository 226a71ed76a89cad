"""Does a text name a culture?"""

from __future__ import annotations

import pytest

from carb_data import UnknownCultureError, cultures
from carb_data.surface import names_culture


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
        ("arabic", "مرحبًا بقطر وأهلها"),
        ("arabic", "العادات القطريّة والمصرية"),
        ("arabic", "سافر إلى المغرب والأردن"),
        ("arabic", "هدية للمغرب، وللأردن"),
        ("arabic", "المغاربة والعراقيون والسوريين"),
        ("english", "العادات الأمريكية"),
        ("english", "في بريطانيا وأمريكا"),
        ("german", "في ألمانيا"),
        ("english", "يتكلم الإنجليزية"),
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
        assert names_culture(f"people from the {culture.name} world", culture.id) or culture.id == "english"
    assert names_culture("An English habit", "english")


def test_an_unknown_culture_is_refused():
    with pytest.raises(UnknownCultureError):
        names_culture("x", "klingon")
