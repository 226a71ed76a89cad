"""World Values Survey: the tests, the codebook, and sets from made-up answers in the official
layout."""

from __future__ import annotations

import csv
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data import CarbError, Role
from carb_data.models import BonSet
from carb_data.sources import Skip, rows

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "wvs"))
import wvs_files
import wvs_source as wvs

CODEBOOK = """World Values Survey Wave 7 (2017-2022) Variables Report
12
Core Variables

Q1 Good evenings: Lanterns
How often should a lantern be lit in the evening? Would you say
always, mostly, seldom or never?
1.- Always
2.- Mostly
3.- Seldom
4.- Never
-1-.- Don´t know
-2-.- No answer
-5-.- Missing; Not available

Q2 Good evenings: Bells
Should bells be rung? 1.- Yes 2.- No -1-.- Don´t know
Q3 Scale of joy
How joyful are lanterns?
1.- Joyless
2.- 2
3.- 3
4.- Joyful
Q4 Not in the data
Really?
1.- Yes
2.- No
Q5 No answers at all
"""


def people(country: str, counts: dict[int, int], weight: float = 1.0) -> list[dict]:
    return [
        {"B_COUNTRY_ALPHA": country, "W_WEIGHT": weight, "Q1": code, "Q2": 1, "Q3": 2}
        for code, n in counts.items()
        for _ in range(n)
    ]


def write(folder: Path, answers: list[dict], separator: str = ",") -> Path:
    with (folder / "WVS_Cross-National_Wave_7_csv_v6_0.csv").open(
        "w", encoding="utf-8", newline=""
    ) as file:
        columns = ["B_COUNTRY_ALPHA", "W_WEIGHT", "Q1", "Q2", "Q3"]
        table = csv.DictWriter(file, columns, delimiter=separator, quoting=csv.QUOTE_ALL)
        table.writeheader()
        table.writerows(answers)
    (folder / "WVS7_Codebook.txt").write_text(CODEBOOK, encoding="utf-8")
    return folder


WORLD = [
    *people("EGY", {1: 320, 2: 40, 3: 30, 4: 10, -1: 50}),
    *people("JPN", {1: 20, 2: 330, 3: 30, 4: 20}),
    *people("MEX", {1: 20, 2: 20, 3: 340, 4: 20}),
    *people("THA", {1: 20, 2: 30, 3: 20, 4: 330}),
    *people("NZL", {1: 101, 2: 100, 3: 100, 4: 99}),
    *people("VNM", {1: 30, 2: 2}),
    *people("KEN", {2: 400}),
]


@given(st.text())
def test_any_text_can_be_a_codebook(text):
    assert all(len(question.answers) >= 2 for question in wvs_files.parse_codebook(text).values())


def test_p_values_are_those_of_the_textbook():
    assert wvs_files.difference_p_value(0.6, 100, 0.5, 100) == pytest.approx(0.155218, abs=1e-5)
    assert wvs_files.lead_p_value(0.6, 0.3, 100) == pytest.approx(0.001565, abs=1e-5)
    assert wvs_files.difference_p_value(1, 10, 1, 20) == 1.0
    assert wvs_files.lead_p_value(0.0, 0.0, 5) == 1.0


@pytest.mark.parametrize("separator", [",", ";"])
def test_majorities_against_majorities(tmp_path, separator):
    got = list(rows(wvs.SOURCE, write(tmp_path, WORLD, separator)))
    sets = {row.id: row for row in got if isinstance(row, BonSet)}
    assert set(sets) == {"wvs/EGY/Q1", "wvs/JPN/Q1", "wvs/MEX/Q1", "wvs/THA/Q1"}
    egypt = sets["wvs/EGY/Q1"]
    assert egypt.chosen.text == "Always"
    assert {r.text: r.culture for r in egypt.rejected}.items() >= {
        "Seldom": "spanish-mx",
        "Never": "thai",
    }.items()
    assert egypt.culture == "arabic-eg"
    assert egypt.domain == "values"
    assert egypt.prompt.startswith("How often should a lantern")
    assert egypt.prompt.endswith("How would most people in Egypt answer?")
    assert "80% of 400 people in EGY" in egypt.provenance.notes
    reasons = Counter(row.reason for row in got if isinstance(row, Skip))
    assert reasons["no registered culture has this country among its regions"] == 1
    assert reasons["the question is a scale without words for its answers"] == 1
    assert reasons["the question is not in both the codebook and the data file"] == 1
    assert reasons["too few people of the country answered"] == 2
    assert reasons["no answer has a majority"] == 1
    assert len(got) == 3 + 6 * 2


def test_a_close_vote_is_no_difference(tmp_path):
    world = [
        *people("EGY", {1: 210, 2: 190, 3: 5, 4: 5}),
        *people("JPN", {1: 190, 2: 210, 3: 5, 4: 5}),
    ]
    got = list(rows(wvs.SOURCE, write(tmp_path, world), questions="Q1"))
    assert {row.reason for row in got} == {
        "no country with another majority answer differs significantly"
    }


shares = st.lists(st.integers(0, 300), min_size=4, max_size=4)


@given(
    world=st.dictionaries(st.sampled_from(["EGY", "JPN", "MEX", "THA", "KEN"]), shares, min_size=2),
    seed=st.integers(0, 2),
)
@settings(max_examples=40, deadline=None)
def test_every_set_holds_and_nothing_is_lost(world, seed):
    answers = [
        p for code, counts in world.items() for p in people(code, dict(enumerate(counts, 1)))
    ]
    random.Random(seed).shuffle(answers)
    with tempfile.TemporaryDirectory() as folder:
        if not answers:
            return
        write(Path(folder), answers)
        got = list(rows(wvs.SOURCE, folder, seed=seed, questions="Q1"))
        assert got == list(rows(wvs.SOURCE, folder, seed=seed, questions="Q1"))
    assert len(got) == sum(sum(counts) > 0 for counts in world.values())
    labels = ["Always", "Mostly", "Seldom", "Never"]
    for row in got:
        if isinstance(row, BonSet):
            counts = world[row.id.split("/")[1]]
            assert sum(r.role is Role.CHOSEN for r in row.responses) == 1
            assert counts[labels.index(row.chosen.text)] == max(counts) > sum(counts) / 2
            lent = [r for r in row.rejected if r.culture is not None]
            assert all(counts[labels.index(r.text)] < max(counts) for r in row.rejected)
            majorities = {
                labels[c.index(max(c))]
                for c in world.values()
                if c != counts and max(c) > sum(c) / 2
            }
            assert {r.text for r in lent} <= majorities


def test_mistakes_are_named(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    with pytest.raises(CarbError, match=r"one CSV .* codebook.txt; found a.csv"):
        list(rows(wvs.SOURCE, tmp_path))
    (tmp_path / "codebook.txt").write_text("nothing")
    with pytest.raises(CarbError, match="is not the codebook"):
        list(rows(wvs.SOURCE, tmp_path))
    (tmp_path / "codebook.txt").write_text(CODEBOOK)
    with pytest.raises(CarbError, match="is not the official CSV of wave 7"):
        list(rows(wvs.SOURCE, tmp_path))
    (tmp_path / "a.csv").unlink()
    with pytest.raises(CarbError, match="'Atlantis' is not a country"):
        list(rows(wvs.SOURCE, write(tmp_path, WORLD), countries="Atlantis"))
