"""Facts retrieved into the prompt: found by place and words alone, recorded, and the same for every
kind of scorer."""

from __future__ import annotations

from functools import partial

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_data import UNSPECIFIED, CarbError, Dataset, load
from carb_data.facts import Fact
from carb_data.models import as_text
from carb_scorers import evaluate, open_scorer
from carb_scorers.open_book import HEADING, FactSearch, OpenBookScorer, search_of
from carb_scorers.run import RunRecord, run
from fake_scorer import FakeScorer
from fake_scorer import request as about


def fact(topic, country, culture, statement):
    return Fact.model_validate(
        {
            "id": f"{topic}.{country}",
            "topic": topic,
            "domain": "commonsense",
            "culture": culture,
            "statement": statement,
            "kind": "custom",
            "value": "x",
            "source": {"url": "https://example.org/", "title": "t", "accessed": "2026-11-22"},
        }
    )


FACTS = [
    fact("toll", "AT", "german-at", "In Austria motorways need a vignette."),
    fact("toll", "DE", "german-de", "In Germany motorways are free for cars."),
    fact("school", "AT", "german-at", "In Austria school starts in September."),
]


def request(
    prompt="Do I have to pay on the motorway to Graz?", culture="german-at", texts=("yes", "no")
):
    return about(*texts, prompt=prompt, culture=culture, language="en")


def library(facts=FACTS):
    return FactSearch(facts)


def test_the_fact_of_the_place_and_the_topic_is_shown():
    assert library().find(request())[0].id == "toll.AT"
    shown = library().shown(request())
    assert (
        shown.prompt == f"{HEADING}\n- In Austria motorways need a vignette.\n\n{request().prompt}"
    )
    assert library().find(request(culture="thai")) == []
    assert library().shown(request(culture=UNSPECIFIED)) == request(culture=UNSPECIFIED)


@given(st.lists(st.text(min_size=1), min_size=2, max_size=4, unique=True), st.permutations(FACTS))
def test_what_is_found_depends_on_neither_the_candidates_nor_the_order_of_the_facts(texts, facts):
    plain, other = request(), request(texts=texts).model_copy(update={"request_id": "other"})
    assert library(facts).find(other) == library().find(plain)
    assert library(facts).digest == library().digest


def test_a_question_of_the_bank_finds_the_fact_of_its_place_in_any_language():
    search = search_of("carb-seed")
    for item in {
        (item.language, item.place, item.topic): item for item in load("carb-seed")
    }.values():
        found = search.find(request(as_text(item.prompt), item.culture))
        assert found[0].id == item.chosen.source.fact
        assert {fact.culture for fact in found} == {item.culture}


def test_a_scorer_is_asked_with_facts_and_its_spec_says_so():
    echo = FakeScorer(parameters={"own": 1})
    scorer = OpenBookScorer(echo, "x", library())
    anyio.run(
        scorer.score, [request(), request(culture="thai").model_copy(update={"request_id": "s"})]
    )
    assert HEADING in echo.requests[0].prompt
    assert HEADING not in echo.requests[1].prompt
    anyio.run(scorer.aclose)
    assert echo.closed
    assert scorer.spec.parameters["facts"] == "x"
    assert scorer.spec.parameters["own"] == 1
    changed = FactSearch([*FACTS[1:], fact("toll", "AT", "german-at", "In Austria tolls are new.")])
    assert changed.digest != library().digest


def test_every_kind_takes_the_option(tmp_path):
    path = tmp_path / "facts.jsonl"
    path.write_text("\n".join(found.model_dump_json() for found in FACTS))
    assert open_scorer(f"baseline:length?facts={path}").spec.parameters["facts"] == str(path)
    assert open_scorer("baseline:length?facts=carb-seed").spec.parameters["facts"] == "carb-seed"


def reworded(items):
    """Sets with the question in other words, none of which a fact of theirs has."""
    return [item.changed(id=f"{item.id}-x", prompt="?", family=None) for item in items]


def test_sets_without_their_fact_are_counted_recorded_and_named(tmp_path):
    """Questions in new words found no fact of an older bank, and were scored without a word."""
    some = [item for item in load("carb-seed") if item.language == "th"][:6]
    sets = Dataset([*some[:4], *reworded(some[4:])])
    path = tmp_path / "run"
    spec = "baseline:length?facts=carb-seed"
    for _ in range(2):  # a resumed run says it, too
        record = anyio.run(partial(run, sets, [spec, "baseline:length"], path))
        book, closed = record.scorers
        assert book.without_fact == (f"{some[4].id}-x", f"{some[5].id}-x")
        assert closed.without_fact == ()
    assert RunRecord.read(path).scorers == record.scorers
    with pytest.warns(UserWarning, match=r"without any: 2 "):
        evaluate(sets, spec)
    with pytest.warns(UserWarning, match=r"without any: 2 "):
        evaluate(sets, OpenBookScorer(FakeScorer(comparative=False), "x", search_of("carb-seed")))
    evaluate(Dataset(some), spec)


def test_a_run_in_which_no_set_finds_a_fact_is_refused():
    sets = Dataset(reworded([item for item in load("carb-seed") if item.language == "th"][:3]))
    with pytest.raises(CarbError, match=r"no fact of the bank"):
        evaluate(sets, "baseline:length?facts=carb-seed")
