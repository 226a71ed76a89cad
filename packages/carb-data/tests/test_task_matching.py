"""When an answer says a word, in each language."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_data.tasks.matching import form, is_list, says


@pytest.mark.parametrize(
    ("language", "response", "answer"),
    [
        ("en", "The Boxes of cherries", "cherry"),
        ("en", "around two", "2"),
        ("en", "1,000 dollars", "1000 dollars"),
        ("es", "Los plátanos fritos", "platano"),
        ("es", "¡Feliz Navidad!", "la navidad"),
        ("ar", "يأكلون التَّمْر والحليب", "تمر"),
        ("fa", "كباب می\u200cخورند", "کباب"),
        ("zh", "我觉得是红包。", "红包"),
        ("ko", "저는 김치를 먹습니다", "김치"),
        ("az", "Plovu yeyirlər", "plov"),
        ("el", "Το ΨΩΜΊ", "ψωμι"),
        ("am", "ዳቦ፣ ሻይ", "ሻይ"),
        ("as", "ভাত আৰু মাছ।", "মাছ"),
    ],
)
def test_each_language_in_its_form(language, response, answer):
    assert says(form(response, language), form(answer, language), language)


@pytest.mark.parametrize(
    ("language", "response", "answer"),
    [
        ("en", "the price is high", "rice"),
        ("en", "10", "1"),
        ("en", "8:30", "30:8"),
        ("zh", "100", "10"),
        ("ko", "김치찌개", "김치"),  # another dish, not a particle
        ("az", "su", "s"),
        ("en", "", "x"),
        ("en", "x", ""),
    ],
)
def test_what_is_not_said(language, response, answer):
    assert not says(form(response, language), form(answer, language), language)


LANGUAGES = ["en", "es", "ar", "zh", "ko", "fa", "el", "am", "as", "az", "id", "su", "ha"]


@given(st.text(max_size=30), st.sampled_from(LANGUAGES))
def test_a_text_says_itself_if_it_says_anything(text, language):
    found = form(text, language)
    assert says(found, found, language) == bool(found)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("rice, bread, football, water, pizza", "en"),
        ("rice; bread; football; water", "en"),
        ("pan / arroz / agua / leche", "es"),
        ("米饭、面包、足球、水、比萨", "zh"),
        (" ".join(["rice bread football water"] * 5), "en"),
        ("rice\nbread\nfootball\nwater", "en"),
    ],
)
def test_a_list_is_no_answer(text, language):
    assert is_list(text, language)
