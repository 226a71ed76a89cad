"""XSafety: small made-up files in its layout, and the numbers on the real ones."""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data.models import BonSet
from carb_data.sources import Skip, rows

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
