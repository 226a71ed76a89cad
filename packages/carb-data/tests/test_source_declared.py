"""Declared sources: the laws of the rules on made-up records, what the declarations make of the
real files, and what carb-open draws from them."""

from __future__ import annotations

import csv
import os
import random
import re
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data import CarbError, Dataset
from carb_data.declaration import read_declaration, shipped
from carb_data.models import BonSet
from carb_data.overlap import plain
from carb_data.registry import cultures, is_main
from carb_data.sources import Skip, build, open_source, rows
from carb_data.sources.carb_open import balanced, cell, excess_over_chance
from small_sets import small_set

REAL = Path(os.environ.get("CARB_DATA_DIR", "none"))
needs_real = pytest.mark.skipif(
    not (REAL / "more").is_dir(), reason="no public data; set CARB_DATA_DIR"
)
LEAST = {
    "cmoraleval": 3000,
    "einbuergerungstest-de": 279,
    "exams-qa": 700,
    "idiomkb": 3000,
    "idioviet": 24,
    "isannlp-dialect-th": 200,
    "jcommonsensemorality": 800,
    "keico-ja": 1000,
    "kobbq": 100,
    "sea-safeguard": 190,
    "tydip": 170,
    "wiktionary-idioms-de": 900,
    "wiktionary-idioms-en": 700,
    "wiktionary-phrases-ru": 800,
    "worldcuisines-kb": 2900,
    "xsafety": 560,
}
"""Sets that each source gives at least."""
NAMES = sorted(name for name, declaration in shipped().items() if declaration.parts)

HEAD = """
name = "made"
description = "Made up"
license = "MIT"
url = "https://example.org"
tier = "human-written"
method = "authored"
[[parts]]
name = "one"
files = ["*.csv"]
format = "csv"
culture = "german"
language = "de"
domain = "values"
"""
OPTIONS = """[parts.make]
rule = "options"
prompt = "{q}?"
options = ["a", "b", "c"]
key = "k"
keys = ["1", "2", "3"]"""
CONTRAST = """[parts.make]
rule = "contrast"
prompt = "Which is wrong?"
reverse = "Which is right?"
answer = "{text}"
right = [{ field = "label", one_of = ["1"] }]
wrong = [{ field = "label", one_of = ["0"] }]
block = 8"""
MIRRORED = (
    """make = { rule = "mirrored", prompt = "What is {q}?", answer = "{text}", ratio = 9.0 }"""
)

words = st.text("abcdefghij", min_size=3, max_size=9)


def made(
    folder: Path, rule: str, header: list[str], records: list[list[str]]
) -> list[BonSet | Skip]:
    (folder / "made.toml").write_text(HEAD + rule, encoding="utf-8")
    with (folder / "made.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *records])
    return list(rows(str(folder / "made.toml"), folder))


@cache
def real(name: str) -> Dataset:
    """The sets of a source from the published files."""
    return Dataset(row for row in rows(name) if isinstance(row, BonSet))


def texts(item: BonSet) -> set[str]:
    return {plain(response.text) for response in item.responses}


@given(
    records=st.lists(st.tuples(words, words, words, words, st.sampled_from("1234")), max_size=12)
)
@settings(max_examples=30, deadline=None)
def test_options_keep_the_key_and_lose_nothing(records):
    with tempfile.TemporaryDirectory() as folder:
        got = made(
            Path(folder), OPTIONS, ["q", "a", "b", "c", "k"], [list(record) for record in records]
        )
        assert got == made(
            Path(folder), OPTIONS, ["q", "a", "b", "c", "k"], [list(record) for record in records]
        )
    assert len(got) == len(records)
    for row in got:
        if isinstance(row, BonSet):
            record = records[int(row.id.split("/")[-1])]
            assert row.chosen.text == record[int(record[4])]
            assert texts(row) == {plain(text) for text in record[1:4]}
            assert len(texts(row)) == 3


@given(records=st.lists(st.tuples(words, st.sampled_from("01")), max_size=40))
@settings(max_examples=30, deadline=None)
def test_a_contrast_takes_no_answer_of_the_right_class_and_none_twice(records):
    with tempfile.TemporaryDirectory() as folder:
        got = made(Path(folder), CONTRAST, ["text", "label"], [list(record) for record in records])
    label: dict[str, set[str]] = {}
    for text, value in records:
        label.setdefault(plain(text), set()).add(value)
    used = 0
    for row in got:
        if isinstance(row, BonSet):
            right = "1" if row.prompt == "Which is wrong?" else "0"
            assert right in label[plain(row.chosen.text)]
            assert all({"0", "1"} - {right} <= label[plain(wrong.text)] for wrong in row.rejected)
            assert len(texts(row)) == 4
            used += 4
    assert used <= len(records)


@given(
    records=st.lists(
        st.tuples(words, st.lists(words, min_size=1, max_size=3).map(" ".join)), max_size=24
    )
)
@settings(max_examples=30, deadline=None)
def test_a_family_asks_for_each_of_its_answers_once(records):
    with tempfile.TemporaryDirectory() as folder:
        got = made(Path(folder), MIRRORED, ["q", "text"], [list(record) for record in records])
    assert len(got) == len(records)
    families: dict[str | None, list[BonSet]] = {}
    for row in got:
        if isinstance(row, BonSet):
            families.setdefault(row.family, []).append(row)
    home: dict[str, str] = {}
    for name, family in families.items():
        assert name is not None
        assert len(family) == 4
        assert len({tuple(response.text for response in item.responses) for item in family}) == 1
        assert {item.chosen.text for item in family} == {
            response.text for response in family[0].responses
        }
        assert len({item.source_item for item in family}) == 1
        for text in texts(family[0]):
            assert home.setdefault(text, name) == name


TABLE = """
name = "own"
[[parts]]
columns = { question = "text", verdict = "COLUMN" }
[parts.make]
rule = "options"
prompt = "{question}"
options = ["one", "two"]
key = "verdict"
keys = ["KEY", "b"]
"""


@pytest.mark.parametrize(
    ("column", "key", "told"),
    [
        ("~(", "a", r"columns\.verdict: .*~ and a regular expression.*'~\('"),
        ("txt", "a", r"columns\.verdict: .*text, number.*'txt'"),
        ("any", "~[", r"keys\.0: .*~ and a regular expression.*'~\['"),
    ],
)
def test_a_kind_or_key_that_cannot_be_read_is_named_with_its_field(tmp_path, column, key, told):
    """A bad regular expression was a bare error of ``re``, and an unknown kind one of a key."""
    file = tmp_path / "own.toml"
    file.write_text(TABLE.replace("COLUMN", column).replace("KEY", key))
    with pytest.raises(CarbError, match=rf"own\.toml is not a valid declaration.*{told}"):
        read_declaration(file)


def test_a_mistake_in_a_declaration_is_named(tmp_path):
    file = tmp_path / "made.toml"
    for content, message in [
        ("name = ", "is not TOML"),
        (HEAD, "make"),
        (HEAD + OPTIONS.replace("options", "choices"), "rule"),
        (HEAD + 'forbid = "("\n' + OPTIONS, "valid regular expression"),
        (HEAD.replace('"values"', '"value"') + OPTIONS, "domain"),
    ]:
        file.write_text(content)
        with pytest.raises(CarbError, match=message):
            read_declaration(file)
    file.write_text(HEAD + OPTIONS)
    with pytest.raises(CarbError, match=r"does not hold made: nothing there is called \*\.csv"):
        list(rows(str(file), tmp_path))


@pytest.mark.parametrize("name", NAMES)
def test_what_ships_is_declared_completely(name):
    declaration = shipped()[name]
    assert declaration.name == name == open_source(name).name
    assert len({part.name for part in declaration.parts}) == len(declaration.parts)
    for part in declaration.parts:
        assert "{" in part.culture or part.culture in cultures
        assert all(culture in cultures for culture in part.cultures.values())


FOUND = {  # by reading: sets, or answers, that must not be built again
    "einbuergerungstest-de": ["society/00074"],
    "isannlp-dialect-th": ["nangrong/00095", "nangrong/00230", "nangrong/00300"],
    "keico-ja": ["formal/02174"],
    "tydip": ["es/00194", "es/00463", "vi/00033", "vi/00381"],
    "wiktionary-idioms-de": ["idioms/00032", "idioms/00238", "idioms/00947"],
    "wiktionary-phrases-ru": ["phrases/00214", "phrases/01015", "phrases/00384", "phrases/01046"],
    "worldcuisines-kb": [
        "de/02100",
        "ru/02100",
        "ja/02046",
        "zh/02182",
        "ar/00033",
        "ja/01543",
        "th/00134",
    ],
    "xsafety": ["ja/00103", "de/00042", "ar/00056", "zh/00113", "zh/00124"],
}
MARKS = {  # of the source, which no answer may carry
    "idiomkb": (
        r"^I'm sorry|unable to assist|not a (?:commonly )?recogni|no figurative meaning|No "
        r"information"
    ),
    "wiktionary-idioms-de": r"(?i)umgangssprachlich\b|muss überarbeitet",
    "worldcuisines-kb": "(?i)義大利|維也納|羅馬|波蘭|alemany|scotch|шотл|스카치|スコッチ|escoc",
    "xsafety": r"^[أA][.-] ",
}


@needs_real
@pytest.mark.parametrize("name", NAMES)
def test_the_real_files_give_sound_sets(name):
    sets = real(name)
    assert len(sets) >= LEAST[name]
    assert {item.id for item in sets}.isdisjoint(f"{name}/{found}" for found in FOUND.get(name, ()))
    for item in sets:
        assert item.provenance.tier is not None
        assert plain(item.chosen.text) not in {plain(wrong.text) for wrong in item.rejected} - {""}
        assert "{" not in item.prompt_text
        assert name not in MARKS or not any(
            re.search(MARKS[name], response.text) for response in item.responses
        )


SOURCES = "tydip,einbuergerungstest-de,kobbq,idioviet"


@pytest.fixture(scope="module")
def filled():
    return list(rows("carb-open", sources=SOURCES, cap=60))


@needs_real
def test_a_cell_is_filled_to_its_cap_and_families_stay_whole(filled):
    sets = [row for row in filled if isinstance(row, BonSet)]
    assert Dataset(sets).origins.copies == frozenset()
    added = [item for item in sets if item.provenance.source != "carb-seed"]
    main = Counter(
        cell(item) for item in added if item.family is None or is_main(item.culture, item.language)
    )
    assert max(main.values()) <= 60
    assert {item.provenance.source for item in added} == set(SOURCES.split(","))
    assert all(item.provenance.tier for item in added)
    for size in Counter(item.family for item in added if item.family).values():
        assert size == 4
    assert filled == list(rows("carb-open", sources=SOURCES, cap=60))


def test_a_source_that_was_not_fetched_is_named(tmp_path, monkeypatch):
    for name in ("CARB_DATA_DIR", "CARB_CACHE"):
        monkeypatch.setenv(name, str(tmp_path))
    with pytest.raises(CarbError, match="Run: carb data fetch"):
        list(rows("carb-open"))


WORDS = [
    f"{start}{end}" for start in ("sto", "riv", "clou", "bre") for end in ("ma", "lo", "ri", "tu")
]


def drawn(items: list[BonSet], most: int = 1000) -> list[BonSet]:
    units = [[item] for item in items]
    return [
        item
        for unit, fits in balanced(units, excess_over_chance(items), most)
        for item in unit
        if fits
    ]


def plain_sets(count: int) -> list[BonSet]:
    draw = random.Random(0)
    return [
        small_set(
            str(n), [f"{a} {b}" for a, b in zip(*[iter(draw.sample(WORDS, 8))] * 2, strict=True)]
        )
        for n in range(count)
    ]


def test_a_word_that_stands_in_right_answers_alone_leaves_hardly_a_set():
    marked = [
        small_set(str(n), [f"{i.chosen.text} indeed", *(r.text for r in i.rejected)])
        for n, i in enumerate(plain_sets(60))
    ]
    ahead = excess_over_chance(marked)
    assert all(words == 0.75 for _, words in ahead.values())
    assert len(drawn(marked)) == 1


@given(
    st.lists(
        st.tuples(st.sampled_from([0.75, -0.25, 0.25]), st.sampled_from([0.5, -0.5, 0.0])),
        max_size=40,
    )
)
def test_no_attack_is_ever_more_than_a_set_ahead(rows):
    items = [small_set(str(n), ["a", "b", "c", "d"]) for n in range(len(rows))]
    ahead = {item.id: row for item, row in zip(items, rows, strict=True)}
    totals = [0.0, 0.0]
    given_back = []
    for unit, fits in balanced([[item] for item in items], ahead, 30):
        given_back.append(unit[0].id)
        for place in (0, 1) if fits else ():
            totals[place] += ahead[unit[0].id][place]
            assert totals[place] <= 1 or ahead[unit[0].id][place] <= 0
    assert sorted(given_back) == sorted(ahead)


def test_a_family_counts_as_a_whole_and_mirrors_for_nothing():
    items = plain_sets(8)
    ahead = {items[0].id: (0.75, 0.75), items[1].id: (-0.25, -0.25)}
    got = list(balanced([items[:4], items[4:]], ahead, 10))
    assert [fits for _, fits in got] == [True, True]
    assert [fits for _, fits in balanced([[items[0]]] * 4, ahead, 10)] == [
        True,
        False,
        False,
        False,
    ]


MY_TABLE = """
name = "village"
license = "CC0-1.0"
tier = "human-written"
[[parts]]
columns = { asked = "text", good = "any", poor = "any", where = "text" }
culture = "{where}"
domain = "values"
language = "th"
make = { rule = "options", prompt = "{asked}", chosen = ["good"], rejected = ["poor"] }
"""


def test_a_table_of_own_columns_is_declared_in_a_few_lines(tmp_path):
    declared, table = tmp_path / "my.toml", tmp_path / "village.csv"
    declared.write_text(MY_TABLE)
    table.write_text(
        "Our village\nasked,good,poor,where\nWhen?,now,never,Thailand\nWhy?,so,so,Thailand\n"
        "Who?,we,they,Atlantis\n"
    )
    made, *skipped = rows(str(declared), table)
    assert isinstance(made, BonSet)
    assert (made.prompt, made.chosen.text, made.culture) == ("When?", "now", "thai")
    assert (made.domain, made.language, made.id) == ("values", "th", "row-3")
    assert (made.provenance.source, made.provenance.license) == ("village", "CC0-1.0")
    assert [(one.source_id, one.reason.partition(":")[0]) for one in skipped] == [
        ("village.csv:4", "rejected"),
        ("village.csv:5", "culture"),
    ]
    table.write_text("asked,good,poor,where,page\nWhen?,now,never,Thailand,p. 3\n")
    notes = build(str(declared), table, tmp_path / "o.jsonl").notes
    assert "page (1 of 1 rows filled)" in " ".join(notes)
    table.write_text("asked,good,where\nWhen?,now,Thailand\n")
    with pytest.raises(CarbError, match="Nearest is village; missing: poor"):
        list(rows(str(declared), table))
