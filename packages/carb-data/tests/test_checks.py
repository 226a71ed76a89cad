"""What the checks find in sets made to be found, and what they leave alone."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("lingua", reason="needs the extra 'checks'")
pytest.importorskip("numpy", reason="needs the extra 'checks'")

from carb_data import BonSet, Dataset, Domain, Perturbation, Role, load
from carb_data.audit.attack import cohen_d, wilson
from carb_data.checks import check

SEED = load("carb-seed@1")
GERMAN = SEED.filter(cultures=["german"])


def with_texts(item: BonSet, texts: list[str], **changes) -> BonSet:
    responses = tuple(r.model_copy(update={"text": t}) for r, t in zip(item.responses, texts, strict=True))
    return item.model_copy(update={"responses": responses, "perturbed": (), **changes})


def findings(*items: BonSet) -> list[tuple[str, str, str, str]]:
    report = check(Dataset(items))
    return [(f.severity, f.check, f.item_id, f.field) for f in report.findings]


def test_sound_sets_have_no_findings():
    assert findings(*GERMAN) == []


def test_a_prompt_that_comes_again_is_an_error_and_a_close_one_a_warning():
    first, second, third, fourth = GERMAN[:4]
    copy = second.model_copy(update={"prompt": f" {first.prompt.upper()} "})
    close = third.model_copy(update={"prompt": first.prompt[:-4]})
    assert findings(first, copy, close, fourth) == [
        ("error", "duplicate", second.id, "prompt"),
        ("warning", "near-duplicate", third.id, "prompt"),
    ]


def test_prompts_of_one_source_item_may_be_alike_and_of_two_cultures_are_only_a_warning():
    first, second = GERMAN[:2]
    sibling = second.model_copy(update={"prompt": first.prompt, "provenance": first.provenance})
    elsewhere = second.model_copy(update={"prompt": first.prompt, "culture": "english"})
    assert not check(Dataset([first, sibling])).findings
    report = check(Dataset([first, elsewhere]))
    assert [(f.severity, f.check) for f in report.findings if f.field == "prompt"] == [("warning", "duplicate")]
    assert report.passed


def test_marks_within_numbers_make_another_answer():
    item = GERMAN[0]
    texts = [
        "Man schreibt 1.234.567,5.",
        "Man schreibt 1,234,567.5.",
        "Man schreibt 12,34,567.5.",
        "Man schreibt 1’234’567.5.",
    ]
    report = check(Dataset([with_texts(item, texts)]))
    assert [f for f in report.findings if f.check == "duplicate"] == []


def test_a_response_that_is_right_and_wrong_at_once_is_an_error():
    item = GERMAN[0]
    texts = [r.text for r in item.responses]
    report = check(Dataset([with_texts(item, [texts[0], texts[0] + " !", *texts[2:]])]))
    (finding,) = report.findings
    assert (finding.severity, finding.check, finding.field) == ("error", "duplicate", item.responses[1].id)
    assert not report.passed


def test_a_text_in_another_language_is_a_warning():
    item = GERMAN[0]
    texts = ["In this country nobody works on Sunday afternoon", *(r.text for r in item.responses[1:])]
    assert findings(with_texts(item, texts)) == [("warning", "language", item.id, item.responses[0].id)]


def changed(item: BonSet, kind: Perturbation, **changes) -> BonSet:
    first = next(r for r in item.perturbed if r.perturbation is kind)
    return item.model_copy(update={"perturbed": (first.model_copy(update=changes),)})


@pytest.mark.parametrize(
    ("kind", "changes", "severity", "message"),
    [
        (Perturbation.RC, {"text": "In Deutschland ist sonntags fast alles geschlossen."}, "error", "still names"),
        (Perturbation.RP, {"text": "Sonntags sind die meisten Läden zu."}, "warning", "no longer names"),
        (Perturbation.CC, {"language": "en", "text": "In Germany shops open on Sunday."}, "error", "another language"),
        (Perturbation.CL, {"language": "de", "text": "In Deutschland ist sonntags zu."}, "error", "of its original"),
    ],
)
def test_perturbations_are_held_to_their_definition(kind, changes, severity, message):
    item = next(item for item in GERMAN if item.perturbed)
    report = check(Dataset([changed(item, kind, **changes)]))
    (finding,) = report.findings
    assert (finding.severity, finding.check) == (severity, "perturbation")
    assert message in finding.message


def test_a_perturbation_that_changed_nothing_is_an_error():
    item = next(item for item in GERMAN if item.perturbed)
    report = check(Dataset([changed(item, Perturbation.RP, text=item.chosen.text + "!")]))
    assert ["the same text" in f.message for f in report.findings] == [True]


def leak(dataset: Dataset, feature: str, culture: str | None = None):
    (found,) = [
        a for a in check(dataset).audit.attacks if (a.attack, a.group) == (feature, culture) and a.level != "domain"
    ]
    return found


def test_length_that_gives_the_answer_away_is_seen_with_its_size():
    def stretch(item: BonSet) -> BonSet:
        return with_texts(item, [r.text + " gewiss" * 9 * (r.role is Role.CHOSEN) for r in item.responses])

    longer = Dataset(stretch(item) for item in GERMAN)
    found = leak(longer, "longest")
    assert found.accuracy == 1
    assert found.works
    assert found.effect > 2
    assert leak(longer, "shortest").accuracy == 0
    assert not leak(longer, "shortest").works
    assert leak(longer, "longest", "german").accuracy == 1


def test_answers_that_repeat_the_prompt_or_are_full_of_marks_are_seen():
    def echo(item: BonSet) -> BonSet:
        texts = [f"{item.prompt[:60]} ..." if r.role is Role.CHOSEN else "Ja gewiss doch" for r in item.responses]
        return with_texts(item, [f"{text} {n}" for n, text in enumerate(texts)])

    echoing = Dataset(map(echo, GERMAN))
    for feature in ("overlap", "punctuation"):
        assert leak(echoing, feature).accuracy == 1
        assert leak(echoing, feature).effect > 1


def test_position_and_counts():
    ordered = Dataset(item.model_copy(update={"responses": (item.chosen, *item.rejected)}) for item in GERMAN)
    report = check(ordered)
    assert report.positions == (len(GERMAN), 0, 0, 0)
    assert leak(ordered, "first").accuracy == 1
    assert leak(ordered, "first").works
    assert {(c.culture, c.domain): c.sets for c in report.balance} == {("german", d.value): 11 for d in Domain}
    assert report.licenses == {"Apache-2.0": len(GERMAN)}
    assert report.sources == {"carb-seed": len(GERMAN)}
    assert report.fingerprint == ordered.fingerprint


def test_ties_share_the_win():
    item = GERMAN[0]
    found = leak(Dataset([with_texts(item, ["aaaa ja", "bbbb ja", "cccc ja", "dddd ja"])]), "longest")
    assert found.accuracy == found.chance == 0.25
    assert found.effect is None
    assert not found.works


def test_an_empty_data_set_gives_null_and_not_nought():
    report = check(Dataset())
    assert report.passed
    assert report.positions == ()
    assert {(one.accuracy, one.effect, one.n) for one in report.audit.attacks} == {(None, None, 0)}
    assert report.audit.passed


def test_wilson_by_hand():
    # Newcombe 1998, Stat. Med. 17:857, table I: 81 of 263 gives 0.2553 to 0.3662; 0 of 20 gives 0 to 0.1611.
    assert wilson(81 / 263, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0, 0.1611), abs=5e-5)


def test_cohens_d_by_hand():
    # means 4 and 2; squares 2 + 2 over 2 + 2 degrees of freedom: pooled deviation 1.
    assert cohen_d([3, 4, 5], [1, 2, 3]) == pytest.approx(2)
    assert cohen_d([1, 1], [1, 1]) is None
    assert cohen_d([1], [2]) is None or math.isfinite(cohen_d([1], [2]))


@given(st.lists(st.floats(-9, 9), min_size=2, max_size=9), st.lists(st.floats(-9, 9), min_size=2, max_size=9))
def test_cohens_d_changes_its_sign_with_the_order(first, second):
    forwards, backwards = cohen_d(first, second), cohen_d(second, first)
    if forwards is None:
        assert backwards is None
    else:
        assert forwards == pytest.approx(-backwards)
        assert (forwards > 0) == (statistics.fmean(first) > statistics.fmean(second)) or abs(forwards) < 1e-6


def test_a_family_that_lacks_the_set_of_an_answer_is_a_warning():
    """Three families of three answers: the first whole, the second without a set, the third without an answer."""
    texts = ["one answer", "a second one", "the third of them"]

    def mirror(family: str, place: int, shown: int = 3) -> BonSet:
        item = GERMAN[place]
        responses = [
            r.model_copy(update={"text": text, "role": Role.CHOSEN if n == place else Role.REJECTED})
            for n, (r, text) in enumerate(zip(item.responses, texts[:shown], strict=False))
        ]
        return item.model_copy(
            update={"id": f"{family}-{place}", "family": family, "responses": tuple(responses), "perturbed": ()}
        )

    found = [
        *(mirror("whole", place) for place in range(3)),
        *(mirror("short", place) for place in range(2)),
        *(mirror("uneven", place, shown=2 if place == 0 else 3) for place in range(3)),
    ]
    some = [f for f in check(Dataset(found)).findings if f.check == "family"]
    assert [(f.severity, f.item_id, f.field) for f in some] == [
        ("warning", "short-0", "family"),
        ("warning", "uneven-0", "family"),
    ]
    assert "'short' lacks sets: 1 of its 3 answers are right in none" in some[0].message
    assert "'uneven' has sets that show different answers" in some[1].message
