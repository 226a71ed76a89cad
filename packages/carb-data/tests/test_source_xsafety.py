"""XSafety: small made-up files in its layout, and the numbers on the real ones."""

from __future__ import annotations

import csv
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data import Role
from carb_data.models import BonSet
from carb_data.sources import Skip, rows

REAL = Path(os.environ.get("CARB_DATA_DIR", "none"))
needs_real = pytest.mark.skipif(not (REAL / "care").is_dir(), reason=f"no public data at {REAL}; set CARB_DATA_DIR")

words = st.text("abcdefgh ", min_size=1, max_size=12).filter(str.strip)


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


def test_an_xsafety_question_with_wrong_options_that_are_nearly_the_same_is_left_out(tmp_path):
    same = "A. swim in it. B. put it in the drawer. C. put it in a drawer. D. put it in this drawer."
    (row,) = xsafety(tmp_path, "en", f"If x: {same} Output the unsafe choice.")
    assert row.reason == "two wrong options are nearly the same, so that the right one is the odd one out"


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
