"""carb-seed keeps what its card promises: amount, languages, labels, perturbations, provenance, no shortcut."""

from __future__ import annotations

import re
from collections import Counter
from importlib import resources

import pytest

pytest.importorskip("lingua", reason="needs the extra 'checks'")

from carb_data import Domain, Perturbation, cultures, load
from carb_data.checks import CheckReport, check
from carb_data.labels import names_culture

SEED = load("carb-seed@1")


@pytest.fixture(scope="module")
def report() -> CheckReport:
    return check(SEED)


def test_every_culture_has_at_least_ten_sets_in_every_domain():
    cells = Counter((item.culture, item.domain) for item in SEED)
    assert set(cells) == {(culture.id, domain) for culture in cultures for domain in Domain}
    assert min(cells.values()) >= 10
    assert len(SEED) >= 400


def test_a_hundred_sets_over_all_cells_have_all_four_perturbations():
    full = [item for item in SEED if {response.perturbation for response in item.perturbed} == set(Perturbation)]
    assert len(full) >= 100
    assert {(item.culture, item.domain) for item in full} == {(c.id, domain) for c in cultures for domain in Domain}
    for item in full:
        languages = {r.language for r in item.perturbed if r.perturbation is Perturbation.CL}
        assert len(languages) == 2
        assert item.language not in languages
        assert item.culture == "english" or "en" in languages
        assert {response.original for response in item.perturbed} == {item.chosen.id}
    second = Counter(r.language for i in full for r in i.perturbed if r.perturbation is Perturbation.CL)
    assert len(second) == 10


def test_sets_have_the_form_of_the_benchmark():
    for item in SEED:
        assert len(item.responses) == 4
        assert item.language == cultures[item.culture].language
        assert {response.language for response in item.responses} == {item.language}
        assert item.chosen.culture == item.culture
        homes = [response.culture for response in item.rejected]
        assert None not in homes
        assert len({*homes, item.culture}) == 4, f"{item.id}: three different other cultures"
        assert item.topic
    assert len({item.topic for item in SEED}) > 100


def test_every_set_has_a_provenance_that_a_reader_can_follow():
    for item in SEED:
        origin = item.provenance
        assert (origin.source, origin.method, origin.license) == ("carb-seed", "authored", "Apache-2.0")
        assert origin.source_id == item.id
        assert origin.notes
        assert len(origin.notes) >= 30
        assert origin.url is None or re.fullmatch(r"https://[^\s]+", origin.url)


def test_the_checks_find_nothing(report):
    assert report.findings == ()


def test_an_answer_names_the_culture_only_where_all_four_do():
    for item in SEED:
        named = [names_culture(response.text, item.culture) for response in item.responses]
        assert all(named) or not any(named), item.id
        assert all(named) or not item.perturbed, item.id


def test_no_rejected_answer_names_the_culture_where_it_would_be_right():
    for item in SEED:
        for response in item.rejected:
            if response.culture in cultures:
                assert not names_culture(response.text, response.culture), f"{item.id} {response.id}"


def test_lengths_are_alike_within_a_set():
    for item in SEED:
        lengths = [len(response.text) for response in item.responses]
        mean = sum(lengths) / 4
        assert 0.7 * mean <= min(lengths) <= max(lengths) <= 1.3 * mean, f"{item.id}: {lengths}"


@pytest.mark.parametrize("name", ["longest", "shortest", "overlap", "punctuation", "language", "label", "first"])
def test_no_surface_rule_gets_beyond_chance(report, name):
    (attack,) = [attack for attack in report.audit.attacks if attack.attack == name and attack.level == "all"]
    assert attack.low <= attack.chance == 0.25 <= attack.high
    assert attack.effect is None or abs(attack.effect) < 0.25  # Cohen's "small" is 0.2


def test_what_is_weak_in_the_first_version_stays_known(report):
    # The right answer is more like the wrong ones than they are like each other; the second version repairs it.
    assert {attack.attack for attack in report.audit.working} == {"most alike (3-grams)", "most alike (4-grams)"}


@pytest.mark.parametrize("name", ["bag of words (known topics)", "character n-grams (known topics)"])
def test_no_lexical_shortcut_beats_chance_by_more_than_five_points(report, name):
    (attack,) = [attack for attack in report.audit.attacks if attack.attack == name and attack.level == "all"]
    assert attack.accuracy <= 0.25 + 0.05


def test_the_card_says_what_the_seed_is_and_is_not():
    card = (resources.files("carb_data") / "seed" / "README.md").read_text(encoding="utf-8")
    header, _, body = card.removeprefix("---\n").partition("\n---\n")
    assert "license: apache-2.0" in header
    for culture in cultures:
        assert f"- {culture.language}" in header
    assert f"{len(SEED)} sets" in body
    assert "not the data set of the paper" in body
    assert "language model" in body
