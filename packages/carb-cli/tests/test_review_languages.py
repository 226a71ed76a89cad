"""The words of the page: each language says everything, with the same places to fill in."""

from __future__ import annotations

import re

import pytest

from carb_cli.review.asking import ReviewItem
from carb_cli.review.page_parts import (
    LANGUAGES,
    language_of,
    organisers_kit,
    single_file,
    texts,
)
from carb_data import cultures
from cli_helpers import small_set

SCRIPTS = {
    "ar": r"[\u0600-\u06ff]",
    "ja": r"[\u3040-\u30ff\u4e00-\u9fff]",
    "ko": r"[\uac00-\ud7af]",
    "ru": r"[\u0400-\u04ff]",
    "th": r"[\u0e00-\u0e7f]",
    "zh": r"[\u4e00-\u9fff]",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_says_everything(language: str) -> None:
    english, words = texts("en"), texts(language)
    assert list(words) == list(english)
    for key, text in words.items():
        assert text.strip() == text != ""
        assert sorted(re.findall(r"\{\w+\}", text)) == sorted(
            re.findall(r"\{\w+\}", english[key])
        ), key
        if language in SCRIPTS:
            assert re.search(SCRIPTS[language], text), key
        elif language != "en" and len(text) > 12:
            assert text != english[key]


def test_every_culture_of_the_benchmark_has_its_language() -> None:
    assert {language_of(culture.id) for culture in cultures} >= set(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_organiser_s_kit_is_a_page_in_each_language(language: str) -> None:
    page = organisers_kit(language, 40)
    assert page.count("<li>") == 7
    assert "40" in page
    assert "30" in page
    assert not re.search(r"\{\w+\}", page.partition("</style>")[2])
    assert (' dir="rtl"' in page) == (language == "ar")


@pytest.mark.parametrize(("culture", "language"), [("thai", "th"), ("arabic", "ar")])
def test_the_page_as_a_file_has_everything_inside(culture: str, language: str) -> None:
    """A change of the page's form left its scripts and styles outside of the file."""
    page = single_file([ReviewItem(small_set(3, culture=culture))], "0" * 64)
    assert re.findall(r'(?:src|href)="[^"]*"', page) == []
    assert "Content-Security-Policy" in page
    assert "new Device" in page
    assert "--" in page.partition("<style>")[2].partition("</style>")[0]
    assert f'<html lang="{language}" dir="{"rtl" if language == "ar" else "ltr"}">' in page
    assert f"<noscript>{texts(language)['noscript']}</noscript>" in page
    assert f">{texts(language)['title']}</title>" in page
