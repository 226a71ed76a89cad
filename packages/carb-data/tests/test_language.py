"""Which language is a text in?"""

from __future__ import annotations

import pytest

pytest.importorskip("lingua", reason="needs the extra 'checks'")

from carb_data.language import detect, in_language

SENTENCES = {
    "ar": "يشرب الناس الشاي بعد الغداء كل يوم",
    "zh": "大家吃完午饭以后常常喝茶",
    "en": "People often drink tea after lunch",
    "de": "Nach dem Mittagessen trinken viele Leute Tee",
    "ja": "昼ご飯の後によくお茶を飲みます",
    "ko": "점심을 먹은 뒤에 차를 자주 마신다",
    "ru": "После обеда люди часто пьют чай",
    "es": "Después de comer la gente suele tomar té",
    "th": "หลังอาหารกลางวันคนมักดื่มชา",
    "vi": "Sau bữa trưa mọi người thường uống trà",
}


@pytest.mark.parametrize("tag", SENTENCES)
def test_each_language_is_told_from_the_others(tag):
    assert detect(SENTENCES[tag]) == tag
    assert [other for other in SENTENCES if in_language(SENTENCES[tag], other)] == [tag]


@pytest.mark.parametrize("text", ["42", "1,5 %", "🙂", " - "])
def test_texts_without_letters_belong_to_every_language(text):
    assert all(in_language(text, tag) for tag in SENTENCES)


def test_a_language_that_the_detector_does_not_know_is_not_contradicted():
    assert in_language("Wannan abinci ne mai dadi", "xx")
    assert not in_language(SENTENCES["th"], "xx")
