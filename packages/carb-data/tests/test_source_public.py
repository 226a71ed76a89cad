"""CARE, XSafety and OMGEval: small made-up files in their layouts, and the numbers on the real ones."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data import CarbError, Role
from carb_data.models import BonSet
from carb_data.sources import CandidatePool, Reference, Skip, build, rows
from carb_data.sources.care import clean
from carb_data.sources.grouping import _REPEATED, _repeats, is_degenerate

REAL = Path(os.environ.get("CARB_DATA_DIR", "none"))
needs_real = pytest.mark.skipif(not (REAL / "care").is_dir(), reason=f"no public data at {REAL}; set CARB_DATA_DIR")

words = st.text("abcdefgh ", min_size=1, max_size=12).filter(str.strip)


def care_row(**changes) -> dict:
    row = {"question": "ما هذا؟", "answer": "كتاب", "culture_type": "Opinion"}
    return row | {"associated_culture": "Native (Arab)", "geographic_scope": "Nationwide"} | changes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("السؤال: ما هذا؟\n", "ما هذا؟"),
        ("\tالجواب: كتاب.", "كتاب."),
        ("\u200bالإجابة : كتاب\u200f", "كتاب"),
        ('"كتاب كبير"', "كتاب كبير"),
        ('"كتاب" و"قلم"', '"كتاب" و"قلم"'),
        ("كتاب. شكرا لك، ونحن في خدمتك.", "كتاب."),
        ("Answer: yes", "yes"),
        ("", ""),
    ],
)
def test_care_strings_are_cleaned(text, expected):
    assert clean(text) == expected


@given(st.text())
def test_cleaning_twice_changes_nothing_more(text):
    assert len(clean(clean(text))) <= len(clean(text)) <= len(text)


def test_care_gives_references_and_counts_the_rest(tmp_path):
    content = [care_row(), care_row(), care_row(question="q", answer="  "), care_row(question="r", culture_type="x")]
    (tmp_path / "Arabic-test.json").write_text(json.dumps(content))
    got = list(rows("care", tmp_path))
    assert isinstance(got[0], Reference)
    assert (got[0].question, got[0].text, got[0].domain) == ("ما هذا؟", "كتاب", "values")
    assert [row.reason for row in got[1:]] == [
        "the question is a repetition",
        "the question or the answer is empty",
        "its culture_type is not one of the five known",
    ]
    with pytest.raises(CarbError, match=r"write them to a \.jsonl file"):
        build("care", tmp_path, tmp_path / "out.parquet")


def xsafety(folder: Path, language: str, *texts: str) -> list[BonSet | Skip]:
    (folder / language).mkdir(exist_ok=True)
    with (folder / language / "commonsense_n.csv").open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file).writerows([text] for text in texts)
    return list(rows("xsafety", folder, parts="es" if language == "sp" else language))


FAR_APART = ("ask an adult", "put it in a drawer", "leave the room", "turn off the light")


@given(stem=words, options=st.permutations(FAR_APART))
@settings(max_examples=20, deadline=None)
def test_xsafety_rows_come_apart_as_they_were_put_together(stem, options):
    text = f"If {stem}: " + " ".join(f"{m}. {o}." for m, o in zip("ABCD", options, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        got = xsafety(Path(folder), "en", *[text + "  Output the unsafe choice."] * 4)
    for row in got:
        if isinstance(row, Skip):
            assert row.reason.startswith("left out for balance")
        else:
            assert row.chosen.text == options[0]
            assert {r.text for r in row.rejected} == set(options[1:])
            assert "Output" not in row.prompt_text


@pytest.mark.parametrize(
    ("text", "language", "answers"),
    [
        ("If x: A. a. B. b. C. c. D. d.", "en", None),
        ("If x: A. a. B. b. C. c. Output the unsafe choice.", "en", None),
        ("If x: ab. B. bc. C. cd. D. de. Output the unsafe choice.", "en", {"ab", "bc", "cd", "de"}),
        ("Если x: A. а. Б. б. C. в. Д. г. Выведите небезопасный вариант.", "ru", {"а", "б", "в", "г"}),
        ("إذا: أ. كتب. ب- قلم. ج. باب. D. بيت أيهما هو الخيار غير الآمن", "ar", {"كتب", "قلم", "باب", "بيت"}),
        ("إذا كان باردًا: أ. كتب. ب- قلم. ج. باب. D. بيت أيهما هو الخيار غير الآمن", "ar", {"كتب", "قلم", "باب", "بيت"}),
        ("如果： A.甲。 B. 乙。 C. 丙。 D.丁输出不安全的选项。", "zh", {"甲", "乙", "丙", "丁"}),
    ],
)
def test_xsafety_marks_of_every_script(tmp_path, text, language, answers):
    (row,) = xsafety(tmp_path, language, text)
    if answers is None:
        assert row.reason == "the field text does not have the usual form"
    else:
        assert {response.text for response in row.responses} == answers


def omgeval(folder: Path, answers: dict[str, list[str]], local: list[str]) -> Path:
    (folder / "model_outputs" / "russia").mkdir(parents=True)
    (folder / "data").mkdir()
    for model, outputs in answers.items():
        content = [{"instruction": f"Вопрос {n}?", "output": o, "generator": model} for n, o in enumerate(outputs)]
        (folder / "model_outputs" / "russia" / f"{model}.json").write_text(json.dumps(content))
    (folder / "data" / "OMGEval_Russia_local.txt").write_text("\n".join(local), encoding="utf-8")
    return folder


def test_an_xsafety_question_with_wrong_options_that_are_nearly_the_same_is_left_out(tmp_path):
    same = "A. swim in it. B. put it in the drawer. C. put it in a drawer. D. put it in this drawer."
    (row,) = xsafety(tmp_path, "en", f"If x: {same} Output the unsafe choice.")
    assert row.reason == "two wrong options are nearly the same, so that the right one is the odd one out"


def test_omgeval_gives_pools_of_usable_answers(tmp_path):
    good = ["Это один хороший ответ на вопрос.", "Другой ответ, тоже годный вполне."]
    folder = omgeval(
        tmp_path,
        {
            "one": [good[0], good[0], good[0]],
            "two": [good[1], " " + good[0], good[1]],
            "three": ["This is an answer in English only.", "", "да " * 40],
            "four": ["Ответ с плохим знаком � внутри него.", "кратко", good[1]],
        },
        ["Вопрос 0? ", "Вопрос 1?"],
    )
    got = list(rows("omgeval", folder, languages="russia", min_candidates=2))
    assert isinstance(got[0], CandidatePool)
    assert [c.text for c in got[0].candidates] == [good[0], good[1]] or {c.text for c in got[0].candidates} == set(good)
    assert isinstance(got[1], Skip)
    assert got[1].reason == "fewer than 2 usable answers"
    assert len(got) == 2
    assert len(list(rows("omgeval", folder, languages="russia", questions="all", min_candidates=2))) == 3
    with pytest.raises(CarbError, match="no local questions in 'english'"):
        list(rows("omgeval", folder, languages="english"))


@needs_real
@pytest.mark.parametrize(
    ("name", "items", "least"),
    [("care", 450, 450), ("xsafety", 1400, 560), ("omgeval", 821, 450)],
)
def test_the_real_files(tmp_path, name, items, least):
    report = build(name, REAL / name, tmp_path / "out.jsonl")
    assert report.built >= least
    assert report.built + report.skipped == items
    first = (tmp_path / "out.jsonl").read_bytes()
    build(name, REAL / name, tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_bytes() == first


@needs_real
def test_translations_of_an_xsafety_row_are_one_source_item():
    by_item: dict[str, set[str]] = {}
    for row in rows("xsafety", REAL / "xsafety"):
        if isinstance(row, BonSet):
            by_item.setdefault(row.source_item, set()).add(row.language)
            assert sum(r.role is Role.CHOSEN for r in row.responses) == 1
    assert max(map(len, by_item.values())) == 7
    assert len(by_item) <= 200


@needs_real
@pytest.mark.parametrize("sign", [1, -1])
def test_the_length_of_an_xsafety_option_gives_nothing_away(sign):
    sets = [row for row in rows("xsafety", REAL / "xsafety") if isinstance(row, BonSet)]
    first = sum(all(sign * len(i.chosen.text) > sign * len(w.text) for w in i.rejected) for i in sets)
    assert first / len(sets) <= 0.25


@pytest.mark.parametrize(
    ("text", "degenerate"),
    [
        ("Rice with chicken, as everybody here eats it on Fridays.", False),
        ("…!", True),
        ("a broken \ufffd character", True),
        ("ha" * 40, True),
        ("I like to eat rice. " * 8, True),
        ("The best of them are Pau Gasol" + ", Juan Carlos Navarro" * 4, True),
        ("A good answer begins so, and then it falls into a loop" + " #tapas #paella #snacks" * 4, True),
        ("We sang it twice: hey ho, nobody is at home, hey ho, nobody is at home, and went.", False),
        ("| dish | place |\n" + "|" + " --- |" * 12 + "\n| rice | Spain |", False),
        ("One is rice. Two is bread. Three is soup. Four is cake.", False),
        ("1", False),
    ],
)
def test_answers_that_say_nothing_are_known(text, degenerate):
    assert is_degenerate(text) is degenerate


@given(
    st.text("ab", max_size=9),
    st.text("ab\n", min_size=1, max_size=45),
    st.integers(14, 18),
    st.text("ab", max_size=30),
)
@settings(max_examples=300, deadline=None)
def test_the_quick_search_for_repeated_text_finds_what_the_pattern_finds(before, part, times, after):
    text = before + part * times + after
    assert _repeats(text) is (_REPEATED.search(text) is not None)
