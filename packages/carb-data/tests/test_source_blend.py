"""BLEnD: invariants on small made-up data in its layout, and the numbers on the real files."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data import CarbError, Dataset
from carb_data.models import BonSet
from carb_data.sources import build, rows
from carb_data.sources.blend_answers import is_number_or_date, may_agree, meaning, normalise
from carb_data.sources.blend_files import PLACES, Answers
from small_sets import write_blend

REAL = Path(os.environ.get("CARB_DATA_DIR", "none")) / "blend"
needs_real = pytest.mark.skipif(
    not REAL.is_dir(), reason=f"BLEnD's files are not at {REAL}; set CARB_DATA_DIR"
)

USED = ("Algeria", "China", "Greece", "Mexico", "Northern_Nigeria", "Spain", "US")
FOODS = ["porridge", "tamale", "tamales", "tea", "fried tea"]
WORDS = [*FOODS, "kite", "violin", "dominoes", "lantern", "TV", "television"]


def item(
    place: str, *answers: tuple[list[str], int], idks: dict[str, int] | None = None, local=None
) -> dict:
    return {
        "question": f"¿Qué en {place}?",
        "en_question": f"What in {place}?",
        "annotations": [
            {"answers": local or variants, "en_answers": variants, "count": count}
            for variants, count in answers
        ],
        "idks": {"idk": 0, "no-answer": 0, "not-applicable": 0} | (idks or {}),
    }


variants = st.lists(
    st.sampled_from((*WORDS, "7", "12", "08:30")), min_size=0, max_size=2, unique=True
)
entries = st.tuples(variants, st.integers(1, 5))
counts = st.fixed_dictionaries({"idk": st.integers(0, 4), "not-applicable": st.integers(0, 4)})


@st.composite
def blends(draw):
    ids = [f"q{n}" for n in range(draw(st.integers(1, 4)))]
    return {
        place: {
            key: item(
                place,
                *draw(st.lists(entries, max_size=3)),
                idks=draw(counts) if draw(st.booleans()) else None,
            )
            for key in ids
        }
        for place in USED
    }


def all_sets(data: dict, seed: int = 0) -> list[BonSet]:
    places = [place for place in data if place != "Northern_Nigeria"]
    with tempfile.TemporaryDirectory() as folder:
        made = list(rows("blend", write_blend(Path(folder) / "b", data), seed=seed, places=places))
    return [row for row in made if isinstance(row, BonSet)]


def plain(**changes) -> dict:
    """One question that every place answers with a word of its own."""
    own = dict(
        zip(
            USED,
            ["porridge", "kite", "violin", "tamale", "lantern", "domino", "canoe"],
            strict=True,
        )
    )
    return {place: {"q": changes.get(place) or item(place, ([own[place]], 4))} for place in USED}


def test_a_plain_question_gives_a_family_of_four():
    made = all_sets(plain())
    assert Counter(row.family for row in made) == {"blend/q/en/1": 4}
    assert "hausa" not in {r.culture for row in made for r in row.responses}
    assert {response.votes.right for row in made for response in row.rejected} == {0}
    assert {row.chosen.votes.right for row in made} == {4}


@pytest.mark.parametrize(
    ("answers", "idks"),
    [
        ([], None),
        ([(["porridge"], 3), (["tea"], 3)], None),  # tied
        ([(["porridge"], 1)], None),
        ([(["porridge"], 3)], {"idk": 2, "not sure": 1}),
        ([(["porridge"], 3)], {"not-applicable": 3}),
        ([([], 3)], None),
        ([(["why?"], 3)], None),
        ([(["porridge", "12"], 3)], None),
    ],
)
def test_a_place_agrees_on_nothing(tmp_path, answers, idks):
    data = plain(Algeria=item("Algeria", *answers, idks=idks))
    tops = Answers(write_blend(tmp_path / "b", data), ()).tops
    assert tops["Algeria", "q"] is None
    assert tops["US", "q"].text == "canoe"


def test_mistakes_are_named(tmp_path):
    with pytest.raises(CarbError, match="does not hold BLEnD"):
        list(rows("blend", tmp_path))
    folder = write_blend(tmp_path / "b", plain())
    with pytest.raises(CarbError, match="Did you mean 'Spain'"):
        list(rows("blend", folder, places="Spian"))
    with pytest.raises(CarbError, match=r"lacks .*annotations/UK_data\.json"):
        list(rows("blend", folder))
    (folder / "annotations" / "US_data.json").write_text('{"q": {"question": 1}}')
    with pytest.raises(CarbError, match=r"US_data\.json is not a valid file of BLEnD: q\.question"):
        list(rows("blend", folder, places="Spain"))


@pytest.mark.parametrize(
    ("a", "b", "agree"),
    [
        (["tv"], ["watching television"], True),
        (["red envelope"], ["money"], True),
        (["chicken"], ["fried chicken"], True),
        (["meat"], ["beef stew"], True),
        (["Apples"], ["an apple"], True),
        (["porridge"], ["tamale"], False),
        (["dragon fruit"], ["apple"], False),
    ],
)
def test_what_may_mean_the_same(a, b, agree):
    left, right = meaning(a), meaning(b)
    assert may_agree(left, right, {}) is may_agree(right, left, {}) is agree


def check_wrong_answers(one: BonSet, place: str, source: dict) -> None:
    given_here = {
        normalise(v)
        for entry in source["annotations"]
        for v in (*entry["en_answers"], *entry["answers"])
    }
    top = max(source["annotations"], key=lambda entry: entry["count"])
    assert normalise(one.chosen.text) in {
        normalise(v) for v in (*top["en_answers"], *top["answers"])
    }
    assert one.chosen.culture == one.culture == PLACES[place][0]
    assert not {normalise(r.text) for r in one.rejected} & given_here
    assert not any(is_number_or_date(r.text) for r in one.responses)
    assert {r.language for r in one.responses} == {one.language}


@given(data=blends(), seed=st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_families_ask_the_same_answers_about_each_place(data, seed):
    families: dict[str, list[BonSet]] = {}
    for row in all_sets(data, seed):
        families.setdefault(row.family, []).append(row)
    for sets in families.values():
        assert len(sets) == 4
        assert len({tuple((r.id, r.text) for r in item.responses) for item in sets}) == 1
        assert {item.chosen.id for item in sets} == {r.id for r in sets[0].responses}
        assert len({item.source_item for item in sets}) == 1
        for one in sets:
            place, number = one.chosen.id, one.id.split("/")[1]
            check_wrong_answers(one, place, data[place][number])


@needs_real
def test_the_real_files_give_families_whose_wrong_answers_nobody_gave(tmp_path):
    files = {
        place: json.loads((REAL / f"data/annotations/{place}_data.json").read_bytes())
        for place in PLACES
    }
    report = build("blend", REAL, tmp_path / "blend.jsonl")
    assert report.built == 444
    assert report.licenses == ("CC-BY-SA-4.0",)
    sets = Dataset.load(tmp_path / "blend.jsonl")
    for one in sets:
        check_wrong_answers(one, one.chosen.id, files[one.chosen.id][one.id.split("/")[1]])
    families = Counter(one.family for one in sets)
    assert set(families.values()) == {4}
