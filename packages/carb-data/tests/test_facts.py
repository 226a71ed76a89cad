"""Sets are made from facts: the same four answers under every place, and facts that exclude each
other."""

from __future__ import annotations

import json
import sys
import tracemalloc
from collections import Counter
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_data import DataError, Fact, Family, is_main, load
from carb_data.dataset import seed_folders
from carb_data.family import expand_family, load_families, read_bank

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
import check_seed
import check_texts

FAN_PAGE = {"url": "https://www.akaqa.com/q", "title": "t", "accessed": "2026-01-01"}
BARE_ADDRESS = FAN_PAGE | {"url": "http://192.0.2.7/q"}

CODES = {"DE": "german-de", "AT": "german-at", "CH": "german-ch", "IT": "italian"}
TODAY = date(2026, 11, 22)


def fact(code: str, **changes) -> dict:
    about = {
        "id": f"toll.{code}",
        "topic": "toll",
        "domain": "commonsense",
        "culture": CODES[code],
        "kind": "custom",
    }
    said = {
        "statement": f"Statement {code}.",
        "value": f"value-{code}",
        "checked": ["found", "reread"],
    }
    source = {"url": f"https://example.org/{code}", "title": "A page", "accessed": "2026-11-22"}
    return {**about, **said, "source": source, **changes}


def texts(*given: str) -> list[dict]:
    return [{"fact": f"toll.{code}", "text": text} for code, text in zip(CODES, given, strict=True)]


def family(**changes) -> dict:
    names = {"DE": "nach Kassel", "AT": "nach Graz", "CH": "nach Bern", "IT": "nach Bologna"}
    about = {
        "id": "de-commonsense-toll",
        "topic": "toll",
        "domain": "commonsense",
        "language": "de",
        "form": "short",
    }
    question = "Meine Schwester zieht {place}. Was kostet sie die Autobahn {place}?"
    places = [{"culture": CODES[code], "name": name} for code, name in names.items()]
    answers = texts(
        *(f"Dafür zahlt sie auf die Art {code} mit {n} Münzen." for n, code in enumerate(names))
    )
    return {
        **about,
        "question": question,
        "places": places,
        "answers": answers,
        "perturbed": None,
        **changes,
    }


def write(folder: Path, facts, families) -> Path:
    for name, rows in (("facts", facts), ("families", families)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        lines = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
        (folder / name / "x.jsonl").write_text(lines, encoding="utf-8")
    return folder


def bank_of(tmp_path, facts=None, families=None):
    problems = []
    folder = write(tmp_path, facts or [fact(code) for code in CODES], families or [family()])
    bank = read_bank(folder, problems)
    assert problems == []
    return bank


def problems_of(tmp_path, facts=None, families=None) -> list[str]:
    return [
        p.reason for p in check_seed.check_bank(bank_of(tmp_path, facts, families), today=TODAY)
    ]


def test_a_family_is_four_sets_with_the_same_answers(tmp_path):
    sets = load_families(write(tmp_path, [fact(code) for code in CODES], [family()]))
    assert [item.id for item in sets] == [f"de-commonsense-toll/{code.lower()}" for code in CODES]
    assert len({tuple((r.id, r.text) for r in item.responses) for item in sets}) == 1
    assert {item.family for item in sets} == {"de-commonsense-toll"}
    for item, code in zip(sets, CODES, strict=True):
        assert item.culture == item.chosen.culture == CODES[code]
        assert item.chosen.source.fact == f"toll.{code}"
        assert item.chosen.source.url == f"https://example.org/{code}"
        assert item.chosen.source.note == f"Statement {code}."
        assert (item.place, item.region, item.wording_of) == ("named", code, None)
        assert "{" not in item.prompt
        assert "nach" in item.prompt
    assert Counter(item.chosen.id for item in sets) == {"de": 1, "at": 1, "ch": 1, "it": 1}


@pytest.mark.parametrize("landmark", [False, True])
def test_a_second_wording_names_the_family_that_it_is_of(tmp_path, landmark):
    places = [{**one, "implied": f"Die Maut {n}?"} for n, one in enumerate(family()["places"])]
    second = {"places": places, "landmark": landmark}
    sets = load_families(write(tmp_path, [fact(code) for code in CODES], [family(**second)]))
    named, implied = sets[:4], sets[4:]
    assert {item.wording_of for item in named} == {None}
    assert {item.wording_of for item in implied} == {"de-commonsense-toll"}
    assert {item.family for item in implied}.isdisjoint({item.family for item in named})
    assert {item.place for item in implied} == {"landmark" if landmark else "implied"}
    assert [item.region for item in implied] == [item.region for item in named] == list(CODES)


@given(order=st.permutations(range(4)))
def test_whoever_does_not_read_the_place_is_right_in_one_of_four(order):
    made = Family.model_validate(family())
    sets = expand_family(made, {f"toll.{c}": f for c, f in zip(CODES, facts_of(), strict=True)})
    picks = [min(item.responses, key=lambda r: (order[int(r.text[-9])], r.id)) for item in sets]
    assert sum(pick.id == item.chosen.id for pick, item in zip(picks, sets, strict=True)) == 1


def facts_of():
    return [Fact.model_validate(fact(code)) for code in CODES]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"question": "Was kostet das?"}, "question"),
        ({"question": "Was kostet das {Place} {place}?"}, "question"),
        ({"answers": family()["answers"][:3]}, "answers"),
        ({"answers": [family()["answers"][0]] * 4}, "answers"),
        ({"places": []}, "places"),
        ({"perturbed": {"CC": "x", "RC": "x", "CL": {}, "RP": "x"}}, "perturbed"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_bad_line_is_reported_with_its_place(tmp_path, change, field):
    folder = write(
        tmp_path, [fact("DE"), fact("AT", kind="rumour"), "{"], [family(), family(**change)]
    )
    with pytest.raises(DataError) as caught:
        load_families(folder)
    found = {(Path(p.file).parent.name, p.line, p.field) for p in caught.value.problems}
    assert {("facts", 2, "kind"), ("facts", 3, ""), ("families", 1, "answers")} <= found
    assert ("families", 2, field) in found


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (fact("AT", value="value-DE"), "toll.AT has the value of toll.DE"),
        (fact("AT", also=["german-ch"]), "toll.AT holds in german-ch too"),
        (
            fact(
                "AT", source={"url": "https://example.org/", "title": "t", "accessed": "2026-01-01"}
            ),
            "root of a site",
        ),
        (fact("AT", checked=["found"]), "nobody but its author has read it"),
        (fact("AT", evidence="press", checked=[]), "nobody found it"),
        (
            fact("AT", evidence="independent", checked=["found"]),
            "two independent pages are on two sites",
        ),
        (fact("AT", evidence="press", source=FAN_PAGE), "akaqa.com proves nothing"),
        (fact("AT", evidence="press", source=BARE_ADDRESS), "192.0.2.7 proves nothing"),
        (fact("AT", kind="formula"), "a formula needs its phrase"),
        (fact("AT", also=["klingon"]), "'klingon' is not in the registry, nor the place"),
        (fact("AT", domain="values"), "toll.AT is of values/toll, not commonsense/toll"),
    ],
)
def test_what_is_wrong_with_a_fact_is_said(tmp_path, changed, reason):
    facts = [fact("DE"), changed, fact("CH"), fact("IT")]
    assert any(reason in found for found in problems_of(tmp_path, facts))


PLACED = texts(
    "So zahlt man hier.", "So zahlt man da.", "So zahlt man dort.", "So zahlt man in Bologna."
)
UNEVEN = texts(
    "Nichts.",
    "Das ist eine sehr lange Antwort, die viel länger ist, als alle anderen Antworten sind.",
    "Das ist eine lange Antwort.",
    "Das ist so eine Antwort.",
)
TOLD = [
    {**place, "implied": "Was kostet in Deutschland die Autobahn?"} for place in family()["places"]
]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"answers": PLACED}, "names a place"),
        ({"answers": UNEVEN}, "lengths differ too much"),
        ({"form": "reply"}, "a reply has 60 to 200 words"),
        (
            {"places": [*family()["places"][:3], {"culture": "german-at", "name": "nach Linz"}]},
            "is in german-at, but",
        ),
        (
            {"places": [*family()["places"][:3], {"culture": "italian", "name": "nach Valencia"}]},
            "in another country",
        ),
        ({"places": TOLD}, "the second wording of 'nach Kassel' names a culture"),
        ({"language": "ja"}, "no place lies where ja is spoken"),
    ],
)
def test_what_is_wrong_with_a_family_is_said(tmp_path, change, reason):
    assert problems_of(tmp_path) == []
    assert any(reason in found for found in problems_of(tmp_path, None, [family(**change)]))


def test_a_family_does_not_rest_on_one_page(tmp_path):
    page = {"url": "https://example.org/all", "title": "A page", "accessed": "2026-11-22"}
    found = problems_of(tmp_path, [fact(code, source=page) for code in CODES])
    assert [one for one in found if "one page, https://example.org/all" in one]


def test_main_sets_are_those_of_the_cultures_that_speak_the_language():
    assert is_main("spanish-mx", "es")
    assert is_main("thai", "th")
    assert not is_main("italian", "de")
    assert not is_main("korean-kr", "ja")
    assert not is_main("singaporean", "en")  # lends answers; not a culture of the benchmark


def test_the_content_of_the_seed_keeps_its_rules():
    bank = read_bank(seed_folders()["carb-seed@3"], problems := [])
    assert problems == []
    facts = [line.content for line in bank.facts]
    found = check_seed.check_bank(bank, today=max(fact.source.accessed for fact in facts))
    assert found == [], "\n" + "\n".join(map(str, found))
    assert all(fact.evidence is not None for fact in facts)
    sets = load("carb-seed@3")
    assert load("carb-seed").fingerprint == sets.fingerprint
    assert all(
        r.source.fact and r.source.url for item in sets for r in (*item.responses, *item.perturbed)
    )
    assert sum(item.place == "named" for item in sets) == sum(
        len(line.content.places) for line in bank.families
    )
    assert check_texts.problems(bank) == []
    firsts = [
        path.read_text("utf-8").partition("\n")[0]
        for path in seed_folders()["carb-seed@3"].rglob("*.jsonl")
    ]
    assert all("carb-seed canary 5f0c6c1e-7c1d-4a8e-9d3b-3a7c2f61e0b4" in first for first in firsts)


PHRASE = {"text": "Freie Fahrt", "language": "de"}
CUES = [{**place, "implied": f"Die Maut {n}?"} for n, place in enumerate(family()["places"])]


@pytest.mark.parametrize(
    ("facts", "change", "reasons"),
    [
        ({"says": PHRASE}, {}, ["toll.DE without its phrase “Freie Fahrt”"]),
        ({"says": {**PHRASE, "text": "auf die ART"}}, {}, []),
        ({"says": {**PHRASE, "language": "it"}}, {}, []),
        (
            {"kind": "formula", "says": {**PHRASE, "text": "Art"}},
            {"question": "Was heißt das {place}, Wort für Wort?"},
            ["asks for a literal meaning, “Wort für Wort”"],
        ),
        ({}, {"places": CUES}, ["gives no cue"] * 4),
        ({}, {"places": [{**one, "cue": "Maut"} for one in CUES]}, []),
        ({}, {"places": [{**one, "cue": "Post"} for one in CUES]}, ["does not have “Post”"] * 4),
        (
            {},
            {
                "places": [
                    {**one, "cue": "Maut", "implied": f"Die Maut {n} in Peckham?"}
                    for n, one in enumerate(CUES)
                ]
            },
            ["the landmark “Peckham”"] * 4,
        ),
    ],
)
def test_what_is_wrong_with_a_text_is_said(tmp_path, facts, change, reasons):
    made = [fact("DE", **facts), *(fact(code) for code in ("AT", "CH", "IT"))]
    found = check_texts.problems(bank_of(tmp_path, made, [family(**change)]), "de")
    assert len(found) == len(reasons)
    assert all(reason in one.reason for reason, one in zip(reasons, found, strict=True))


def test_a_set_with_perturbed_versions_names_its_place_in_question_and_answers(tmp_path):
    named = texts(*(f"In Deutschland zahlt man auf die Art {n}." for n in range(4)))
    single = {
        "places": [{"culture": "german-de", "name": "in Deutschland"}],
        "answers": named,
        "perturbed": {"RC": "Man zahlt auf die Art 0.", "RP": "Gezahlt wird auf die Art 0."},
    }
    assert check_texts.problems(bank_of(tmp_path, None, [family(**single)])) == []
    wrong = {
        "places": [{"culture": "german-de", "name": "irgendwo"}],
        "answers": texts(*(f"Man zahlt auf die Art {n}." for n in range(4))),
        "perturbed": {"RC": "In Deutschland zahlt man auf die Art 0."},
    }
    found = check_texts.problems(bank_of(tmp_path, None, [family(**wrong)]))
    assert [one.field for one in found] == ["places", "answers", "perturbed"]


def test_cues_and_openings_are_shared_by_two_source_items_at_most(tmp_path):
    def item(number: int, end: str = "") -> dict:
        wordings = [f"Bei uns zahlt man {number} {n} an der Maut?" for n in range(4)]
        places = [
            {**place, "implied": wording, "cue": "Maut"}
            for place, wording in zip(family()["places"], wordings, strict=True)
        ]
        return family(id=f"de-commonsense-toll-{number}{end}", places=places)

    two = [item(1), item(2), item(2, "-reply")]
    assert check_texts.problems(bank_of(tmp_path, None, two)) == []
    found = check_texts.problems(bank_of(tmp_path, None, [*two, item(3)]))
    assert sum("3 items have the cue “Maut”" in one.reason for one in found) == 1
    assert sum("3 of 12 second wordings open" in one.reason for one in found) == len(found) - 1 == 4


def test_a_reader_looks_at_people_there_and_at_marks_that_one_answer_has(tmp_path):
    asked = {
        "question": "Was sagt man dort {place}?",
        "answers": texts("Ich zahle eins.", "Man zahlt – zwei.", "Man zahlt drei.", "Man zahlt."),
    }
    found = check_texts.looks(bank_of(tmp_path, None, [family(**asked)]), "de")
    assert [one.field for one in found] == ["question", "answers", "answers"]
    assert "one answer alone has a dash" in found[2].reason


def test_a_family_in_whole_replies_or_traditional_script_is_of_the_source_item_of_its_short_one():
    by_id = {one.id: one for one in facts_of()}
    ends = ("", "-reply", "-hant", "-reply-hant")
    sets = [
        expand_family(Family.model_validate(family(id=f"de-commonsense-toll{e}")), by_id)[0]
        for e in ends
    ]
    assert len({one.source_item for one in sets}) == 1
    assert len({one.family for one in sets}) == len(ends)


def test_a_set_of_the_seed_takes_less_than_four_kilobytes():
    load("carb-seed@3")
    tracemalloc.start()
    sets = load("carb-seed")
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept / len(sets) < 4_000
