"""Prompts as data: every language whole, no text ever read as a template. Forms:
``test_forms.py``."""

from functools import partial

import pytest

from carb_data import cultures
from carb_scorers import ScoreRequest
from carb_scorers.judge import read_form
from carb_scorers.judge.form import Mode
from carb_scorers.judge.order_and_prompt import Asker, read_words, word_languages
from fake_scorer import request as about

LANGUAGES = ["ar", "de", "en", "es", "ja", "ko", "ru", "th", "vi", "zh"]
MODES = ["listwise", "pairwise", "pointwise"]
WAYS = [{"reads": True}, {"reads": False}]


request = partial(about, "FIRST", "SECOND", prompt="QUESTION")


def asker_of(mode: Mode, form: str, language: str = "en") -> Asker:
    return Asker(read_form(form), mode, language, tells=True)


def asked(asker: Asker, item: ScoreRequest, *, reads: bool = True) -> str:
    pointwise = asker.mode == "pointwise"
    texts = [c.text for c in item.candidates][: 1 if pointwise else None]
    prompt = asker.ask(item, texts, reads=reads)
    assert len(prompt.messages) == 1
    assert prompt.messages[0].role == "user"
    return prompt.messages[0].content


def test_ten_languages_have_every_phrase_and_culture() -> None:
    assert word_languages() == LANGUAGES
    english = read_words("en")
    for language in LANGUAGES:
        words = read_words(language)
        assert words.keys() == english.keys()
        if language != "en":  # English takes the registry's own names
            assert set(words["cultures"]) == {culture.id for culture in cultures}
            same = [name for name in english if words[name] == english[name]]
            assert same == [], f"{language}: not translated"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("prompt", ["culture", "plain"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_prompt_in_every_language(mode: Mode, prompt: str, language: str) -> None:
    asker = asker_of(mode, prompt, language)
    english = asker_of(mode, prompt, "en")
    for way in WAYS:
        text = asked(asker, request(), **way)
        assert "QUESTION" in text
        assert "FIRST" in text
        assert ("SECOND" in text) == (mode != "pointwise")
        assert "{" not in text
        assert ("(A) FIRST\n(B) SECOND" in text) == (mode != "pointwise")
        if language != "en":
            assert text != asked(english, request(), **way)
    name = read_words(language)["cultures"].get("thai", "Thai")
    assert (name in asked(asker, request())) == (prompt == "culture")


@pytest.mark.parametrize("mode", MODES)
def test_a_request_without_a_culture_is_not_asked_about_one(mode: Mode) -> None:
    nowhere = request(culture="unspecified", language="und")
    assert asked(asker_of(mode, "culture", "en"), nowhere) == asked(
        asker_of(mode, "plain", "en"), nowhere
    )
    assert "unspecified" not in asked(asker_of(mode, "culture", "en"), nowhere)


def test_texts_are_never_template_code() -> None:
    hostile = "{{ 7 * 7 }} {% for x in y %} {{ words }} {# gone #}"
    assert hostile in asked(asker_of("listwise", "culture", "en"), request(prompt=hostile))
    assert hostile in asked(asker_of("listwise", "culture", "en"), request(culture=hostile))
