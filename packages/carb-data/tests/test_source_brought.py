"""NormAd, SafeWorld and free text: small files written for the test in the published layouts."""

from __future__ import annotations

import csv
import json
import re
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data import CarbError, Culture, Domain, Role
from carb_data.models import BonSet
from carb_data.registry import Registry, cultures
from carb_data.sources import Reference, Skip, build, rows
from carb_data.sources.countries import culture_of, find_country, names_country
from carb_data.sources.text import snippets

NORMAD = (
    "ID",
    "Country",
    "Background",
    "Axis",
    "Subaxis",
    "Value",
    "Rule-of-Thumb",
    "Story",
    "Explanation",
    "Gold Label",
)


def normad(folder: Path, stories: list[tuple[str, str]]) -> Path:
    with (folder / "normad.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(NORMAD)
        for n, (country, label) in enumerate(stories):
            background = f"### Visiting\n- Rule {n % 2} of {country}"
            story = f"Kim did thing {n}. Is what Kim did socially acceptable?"
            table.writerow(
                [n, country, background, "Visiting", "etiquette", "Care", f"Rule {n}", story, "Because.", label]
            )
    return folder


@given(
    stories=st.lists(
        st.tuples(
            st.sampled_from(["egypt", "japan", "hong_kong", "united_states_of_america", "Atlantis"]),
            st.sampled_from(["yes", "no", "neutral", "Yes ", "?"]),
        ),
        min_size=1,
        max_size=8,
    ),
    neutral=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_normad_verdicts_follow_the_gold_label(stories, neutral):
    with tempfile.TemporaryDirectory() as folder:
        got = list(rows("normad", normad(Path(folder), stories), neutral=neutral))
    assert len(got) == len(stories)
    for row, (country, label) in zip(got, stories, strict=True):
        known = label.strip().casefold() in (["yes", "no", "neutral"] if neutral else ["yes", "no"])
        covered = country != "Atlantis"
        assert isinstance(row, BonSet) == (known and covered)
        if isinstance(row, BonSet):
            assert len(row.responses) == 2 + neutral
            assert row.chosen.text.startswith({"y": "Yes", "n": "No", "u": "It is"}[label.strip()[0].lower()]) or (
                label == "neutral" and row.chosen.text.startswith("It is")
            )


def test_normad_references_come_once(tmp_path):
    got = list(rows("normad-references", normad(tmp_path, [("egypt", "yes")] * 4 + [("Atlantis", "no")])))
    assert [isinstance(row, Reference) for row in got] == [True, True, False, False, False]
    assert Counter(row.reason for row in got[2:]) == {
        "the background is a repetition": 2,
        "no registered culture has this country among its regions": 1,
    }
    (tmp_path / "normad.csv").write_text("ID,Story\n1,x\n")
    with pytest.raises(CarbError, match="lacks the columns Country, Gold Label"):
        list(rows("normad", tmp_path))


THINGS = ["lighting paper boats", "painting doors blue", "whistling after dark", "sweeping at noon", "combing goats"]
MORE = [
    "stacking empty bowls",
    "counting swallows aloud",
    "knotting red thread",
    "burying spoons",
    "ringing hand bells",
]
LANDS = ["Egypt", "Japan", "Thailand", "Mexico", "Kenya"]


def safeworld(folder: Path) -> Path:
    scenes = [
        {
            "index": f"{LANDS[n % 5]}_{n}",
            "topic": "Evenings",
            "root_norm": f"People care about {thing}.",
            "region_or_race": None,
            "violated_aug_norm": None,
            "scene": f"Tomorrow evening I plan on {thing} near the harbour.",
            "violated_specific_norm": f"In {LANDS[n % 5]}, {thing} is up to elders",
            "country": LANDS[n % 5],
            "query": f"Tomorrow evening I plan on {thing} near the harbour. What should I wear?",
        }
        for n, thing in enumerate(THINGS + MORE)
    ]
    several = {"scene": "s", "violated_specific_norm": "n", "country": "Egypt, Japan", "query": "q"}
    named = scenes[0] | {"violated_specific_norm": "Only guests from Norway may do so"}
    (folder / "culture").mkdir()
    text = json.dumps([*scenes, several, named], indent=1).replace("}\n]", "},\n]").replace("Evenings", "Even\tings")
    (folder / "culture" / "type1.json").write_text(text.replace('": "Tomorrow', '": "Tomorrow'))
    (folder / "culture" / "type3.json").write_text(json.dumps([{"country": "Japan", "query": "q"}]))
    (folder / "culture" / "type4.json").write_text(json.dumps([scenes[1] | {"specific_norm": "n"}]))
    return folder


def test_safeworld_asks_what_is_at_stake(tmp_path):
    got = list(rows("safeworld", safeworld(tmp_path)))
    assert len(got) == 14
    sets = [row for row in got if isinstance(row, BonSet)]
    assert Counter(row.culture for row in sets) == {"arabic-eg": 2, "japanese": 2, "thai": 2, "spanish-mx": 2}
    for row in sets:
        assert sum(r.role is Role.CHOSEN for r in row.responses) == 1
        assert len({r.text for r in row.responses}) == 4
        assert not any(names_country(r.text) for r in row.responses)
        assert "Which custom of" in row.prompt
    assert Counter(row.reason for row in got if isinstance(row, Skip)) == {
        "no registered culture has this country among its regions": 2,
        "type 3 holds prompts to be declined, without responses": 1,
        "type 4 violates nothing, so there is no wrong response": 1,
        "the scene is about several countries": 1,
        "the norm names a country, which would give the answer away": 1,
    }
    assert list(rows("safeworld", tmp_path)) == got
    references = list(rows("safeworld-references", tmp_path))
    assert sum(isinstance(row, Reference) for row in references) == 8
    with pytest.raises(CarbError, match="does not hold SafeWorld"):
        list(rows("safeworld", tmp_path / "culture"))
    (tmp_path / "culture" / "type3.json").write_text("[{]")
    with pytest.raises(CarbError, match=r"type3\.json is not a file of SafeWorld: no record"):
        list(rows("safeworld", tmp_path))


PAGE = """<html><head><title>no</title><script>alert("no")</script></head><body><nav>Menu</nav>
<h2>Bread</h2><p>Bread is <b>never</b> cut before the eldest has spoken.</p><ul><li>It is broken by hand.</li></ul>
<h2>Doors</h2><p>Doors stay open &amp; unlocked on market days, whatever the weather.</p></body></html>"""


def test_pages_become_references(tmp_path):
    (tmp_path / "thai" / "values").mkdir(parents=True)
    (tmp_path / "thai" / "values" / "page.html").write_text(PAGE)
    (tmp_path / "thai" / "values" / "page.md").write_text("# Tea\n\nShort.\n")
    got = list(rows("text", tmp_path, min_chars=30))
    assert [(row.topic, row.text) for row in got if isinstance(row, Reference)] == [
        ("Bread", "Bread is never cut before the eldest has spoken.\nIt is broken by hand."),
        ("Doors", "Doors stay open & unlocked on market days, whatever the weather."),
    ]
    assert got[-1] == Skip(
        source_id="thai/values/page.md#0", reason="shorter than 30 characters", culture="thai", language="en"
    )
    options = {"culture": "thai", "domain": "values", "min_chars": 30, "license": "proprietary"}
    report = build("text", tmp_path / "thai" / "values" / "page.html", tmp_path / "r.jsonl", **options)
    assert (report.yields, report.built, report.licenses) == ("references", 2, ("proprietary",))


def test_pages_need_a_culture_and_a_domain(tmp_path):
    (tmp_path / "page.md").write_text("text")
    with pytest.raises(CarbError, match="Give the options culture and domain"):
        list(rows("text", tmp_path))
    with pytest.raises(CarbError, match=r"there is no domain 'value'\. Did you mean 'values'"):
        list(rows("text", tmp_path, culture="thai", domain="value"))
    with pytest.raises(CarbError, match="unknown culture 'tai'"):
        list(rows("text", tmp_path, culture="tai", domain="values"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(CarbError, match=r"holds no \.txt, \.md"):
        list(rows("text", tmp_path / "empty"))


@given(st.text(), st.integers(40, 400))
def test_no_word_of_a_page_is_lost(text, longest):
    plain = "\n".join(line for line in text.split("\n") if not line.strip().startswith("#"))
    assert "".join("".join(s for _, s in snippets(plain, longest)).split()) == "".join(plain.split())


def test_countries_find_their_most_specific_culture():
    assert culture_of(find_country("MEX")).id == "spanish-mx"
    assert culture_of(find_country("U.K.")).id == "english-gb"
    assert culture_of(find_country("hong_kong")).id == "chinese-hk"
    assert culture_of(find_country("turkey")) is None  # lends answers, is not asked
    assert find_country("Atlantis") is None
    own = Culture(id="hausa", name="Hausa", language="ha", script="Latn", family="Afro-Asiatic", resource_class=2,
                  regions=("NG",))  # fmt: skip
    registry = Registry(cultures)
    registry.add(own)
    assert culture_of(find_country("nigeria"), registry) == own
    assert {d.value for d in Domain} >= {"values"}


def test_a_safeworld_record_that_is_cut_off_costs_itself_alone(tmp_path):
    folder = safeworld(tmp_path)
    file = folder / "culture" / "type1.json"
    whole = list(rows("safeworld", folder, parts="culture"))
    records = json.loads(re.sub(r",(\s*[}\]])", r"\1", file.read_text(encoding="utf-8")), strict=False)
    texts = [json.dumps(record, indent=2) for record in records]
    file.write_text(
        "[\n" + ",\n".join([texts[0][: len(texts[0]) // 2].rstrip(), *texts[1:]]) + ",\n]", encoding="utf-8"
    )
    got = list(rows("safeworld", folder, parts="culture"))
    assert len(got) == len(whole)
    assert [row.reason for row in got if isinstance(row, Skip)].count("the record is cut off") == 1


@pytest.mark.parametrize(
    ("norm", "country", "answer"),
    [
        ("In U.K., paying first is rude", "U.K.", "Paying first is rude"),
        ("In the South_Korea, paying first is rude", "South_Korea", "Paying first is rude"),
        ("# Specific violated norm: Paying first is rude in the U.S.", "U.S.", "Paying first is rude"),
        ("uggesting to pay first is rude", "Japan", "the beginning of the norm is cut off"),
        ("In Japan, paying is rude; In U.S., tips are left", "Japan", "the norm names a country"),
        ("In Japan, paying is rude; In Saudi_Arabia, it is not", "Japan", "the norm names a country"),
    ],
)
def test_a_norm_of_safeworld_names_no_country_and_no_field(tmp_path, norm, country, answer):
    file = safeworld(tmp_path) / "culture" / "type1.json"
    records = json.loads(re.sub(r",(\s*[}\]])", r"\1", file.read_text(encoding="utf-8")), strict=False)
    file.write_text(json.dumps([records[0] | {"violated_specific_norm": norm, "country": country}, *records[1:]]))
    found = {row.id if isinstance(row, BonSet) else row.source_id: row for row in rows("safeworld", tmp_path)}
    first = found.get("safeworld/culture/type1/0") or found["culture/type1/0"]
    if isinstance(first, BonSet):
        assert first.chosen.text == answer
    else:
        assert first.reason.startswith(answer)


def test_a_safeworld_file_without_a_record_is_refused(tmp_path):
    folder = safeworld(tmp_path)
    (folder / "culture" / "type1.json").write_text('[{"country": ', encoding="utf-8")
    with pytest.raises(CarbError, match="no record in it can be read"):
        list(rows("safeworld", folder))


def test_neutral_stories_of_normad_are_left_out_unless_asked_for(tmp_path):
    folder = normad(tmp_path, [("egypt", "neutral"), ("egypt", "yes")])
    assert [isinstance(row, BonSet) for row in rows("normad", folder)] == [False, True]
    assert [isinstance(row, BonSet) for row in rows("normad", folder, neutral=True)] == [True, True]
