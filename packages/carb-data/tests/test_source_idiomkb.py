"""IdiomKB: invariants on made-up rows in its layout, and the numbers on the real files."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data import CarbError, Role
from carb_data.models import BonSet
from carb_data.sources import Skip, build, rows

REPOSITORY = Path(__file__).parents[3]
REAL = Path(os.environ.get("CARB_DATA_DIR", REPOSITORY / "../shared/data")) / "idiomkb"
needs_real = pytest.mark.skipif(not REAL.is_dir(), reason=f"IdiomKB's files are not at {REAL}; set CARB_DATA_DIR")

NOUNS = ("teapot", "lantern", "harbour", "goose", "ladder", "candle", "pumpkin", "anvil", "ribbon", "saddle", "walnut")
VERBS = ("polishing", "counting", "borrowing", "painting", "hiding", "feeding", "burying", "lifting", "chasing")

idioms = st.lists(
    st.tuples(st.sampled_from(VERBS), st.sampled_from(NOUNS), st.sampled_from(VERBS), st.sampled_from(NOUNS)),
    min_size=4,
    max_size=40,
)


def write(folder: Path, made: list[tuple[str, str, str, str]]) -> Path:
    content = [
        {
            "id": n,
            "idiom": f"{verb} the {noun}",
            "en_meaning": f"{other} a {thing} in vain",
            "zh_meaning": "甲" * (n + 1),
            "ja_meaning": "あ" * (n + 1),
        }
        for n, (verb, noun, other, thing) in enumerate(made)
    ]
    (folder / "en_idiom_meaning.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


@given(made=idioms, seed=st.integers(0, 2))
@settings(max_examples=60, deadline=None)
def test_every_set_holds_and_nothing_is_lost(made, seed):
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), made)
        got = list(rows("idiomkb", folder, seed=seed, languages="en"))
        assert got == list(rows("idiomkb", folder, seed=seed, languages="en"))
    assert len(got) == len(made)
    for row in got:
        if isinstance(row, BonSet):
            number = int(row.id.split("/")[2])
            assert sum(r.role is Role.CHOSEN for r in row.responses) == 1
            assert len({r.text for r in row.responses}) == 4
            assert row.chosen.text == f"{made[number][2]} a {made[number][3]} in vain"
            own = set(row.chosen.text.split()) - {"a", "in", "vain"}
            assert all(own.isdisjoint(wrong.text.split()) for wrong in row.rejected)
        else:
            assert row.reason


@given(made=idioms)
@settings(max_examples=20, deadline=None)
def test_a_source_item_keeps_its_answers_to_itself(made):
    with tempfile.TemporaryDirectory() as folder:
        got = list(rows("idiomkb", write(Path(folder), made), languages="en"))
    home: dict[str, str] = {}
    for row in got:
        if isinstance(row, BonSet):
            for response in row.responses:
                assert home.setdefault(response.text, row.source_item) == row.source_item


def test_rows_that_cannot_serve_are_named(tmp_path):
    content = [
        {"id": 0, "idiom": "hide the goose", "en_meaning": "to hide the goose", "zh_meaning": "x", "ja_meaning": "y"},
        {"id": 1, "idiom": "lift the anvil", "en_meaning": "重いもの", "zh_meaning": "x", "ja_meaning": "y"},
        {"id": 2, "idiom": "Lift the anvils", "en_meaning": "to try hard", "zh_meaning": "x", "ja_meaning": "y"},
        {"id": 3, "idiom": "chase a candle", "en_meaning": "to run about", "zh_meaning": "x", "ja_meaning": "y"},
        {"id": 4, "idiom": "fold a candle", "en_meaning": "to run about", "zh_meaning": "x", "ja_meaning": "y"},
    ]
    (tmp_path / "en_idiom_meaning.json").write_text(json.dumps(content))
    reasons = {row.source_id: row.reason for row in rows("idiomkb", tmp_path, languages="en") if isinstance(row, Skip)}
    assert reasons["en/0"] == "the meaning contains the idiom"
    assert reasons["en/1"] == "the meaning is in another language"
    assert reasons["en/2"] == "the idiom is a repetition"
    assert reasons["en/4"] == "the meaning is a repetition"
    assert reasons["en/3"].startswith("fewer than three other meanings")


def test_mistakes_are_named(tmp_path):
    with pytest.raises(CarbError, match="does not hold IdiomKB"):
        list(rows("idiomkb", tmp_path))
    (tmp_path / "en_idiom_meaning.json").write_text('[{"id": 1}]')
    with pytest.raises(CarbError, match=r"en_idiom_meaning\.json is not a file of IdiomKB: 0\.idiom: Field required"):
        list(rows("idiomkb", tmp_path, languages="en"))
    with pytest.raises(CarbError, match="meanings: 'jp' is not one of own, en, ja, zh"):
        list(rows("idiomkb", tmp_path, meanings="jp"))


@needs_real
def test_the_real_files(tmp_path):
    report = build("idiomkb", REAL, tmp_path / "idioms.jsonl", languages="en,ja,zh")
    counts = {c.culture: c.rows for c in report.counts}
    assert counts["chinese"] > 5000
    assert counts["english"] > 3000
    assert counts["japanese"] > 200
    assert report.built + report.skipped == 3990 + 270 + 8643
    plain = build("idiomkb", REAL, tmp_path / "plain.jsonl")
    assert {c.culture for c in plain.counts} == {"english", "chinese"}  # of the Japanese keys, too many are wrong


@needs_real
def test_the_real_idioms_explained_in_another_language():
    got = [row for row in rows("idiomkb", REAL, languages="ja", meanings="en,ja") if isinstance(row, BonSet)]
    assert {row.language for row in got} == {"en", "ja"}
    assert all(row.culture == "japanese" for row in got)
    assert any("Japanese idiom" in row.prompt for row in got)
