"""Nothing of the test data is in the training data, or every place where it is gets found."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("numpy", reason="needs the extra 'checks'")

from carb_data import BonSet, Dataset, check_contamination, load
from carb_data.overlap import COMMON, LEAST, LENGTH, LENGTH_SYLLABIC, NgramIndex, normalise

SEED = load("carb-seed").filter(lambda item: item.family is None)
SYLLABIC = "日本語の文字가나"
alphabet = st.sampled_from("ab " + SYLLABIC[:4] + "ทé!")
short_texts = st.lists(st.text(alphabet, max_size=24), max_size=6)


def ngrams(text: str) -> set[str]:
    text = normalise(text)
    found = set()
    for start in range(len(text)):
        length = LENGTH_SYLLABIC if text[start] in SYLLABIC else LENGTH
        if start + length <= len(text):
            found.add(text[start : start + length])
    return found


def by_hand(
    indexed: list[str], streamed: list[str], threshold: float
) -> dict[tuple[int, int], float]:
    """Containment from sets of n-grams, without any index."""
    found = {}
    common = Counter(
        gram for text in {normalise(text) for text in indexed} for gram in ngrams(text)
    )
    for (i, inside), (s, whole) in itertools.product(enumerate(indexed), enumerate(streamed)):
        own = {gram for gram in ngrams(inside) if common[gram] <= COMMON}
        shared = len(own & ngrams(whole))
        if normalise(inside) == normalise(whole) != "":
            found[i, s] = 1.0
        elif len(own) >= LEAST and shared >= math.ceil(threshold * len(own) - 1e-9):
            found[i, s] = shared / len(own)
    return found


def by_index(
    indexed: list[str], streamed: list[str], threshold: float
) -> dict[tuple[int, int], float]:
    index = NgramIndex(indexed, threshold)
    return {
        (c, m.streamed): m.containment
        for m in index.matches(streamed)
        for c in index.copies(m.indexed)
    }


@given(indexed=short_texts, streamed=short_texts, threshold=st.sampled_from([0.1, 0.5, 0.7, 1.0]))
def test_the_index_finds_exactly_what_counting_finds(indexed, streamed, threshold):
    found = by_index(indexed, streamed, threshold)
    assert found == pytest.approx(by_hand(indexed, streamed, threshold))


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_normal_form_is_stable_and_blind_to_case_and_punctuation(text):
    assert normalise(normalise(text)) == normalise(text)
    assert normalise(f"  {text} !") == normalise(text)
    assert not normalise(text).startswith(" ")


def half(seed: Dataset) -> tuple[Dataset, Dataset]:
    parts = seed.split({"train": 0.5, "test": 0.5}, apart=True)
    return parts["train"], parts["test"]


def test_the_halves_of_the_seed_do_not_overlap():
    train, test = half(SEED)
    report = check_contamination(train, test)
    assert report.clean
    assert report.contaminated == ()
    assert report.counts == {"source": 0, "fact": 0, "exact": 0, "near": 0}
    assert report.test_items == len(test)


def test_every_kind_of_overlap_is_found_with_its_place():
    train, test = half(SEED)
    source, exact, near, inside = list(test)[:4]
    edited = near.prompt[:-1] + " ..."
    document = f"{train[3].prompt}\n\n{inside.chosen.text.upper()}\n\n{train[4].prompt * 3}"
    translated = source.model_copy(
        update={
            "id": "translated",
            "prompt": "other words",
            "responses": train[0].responses,
            "perturbed": (),
        }
    )
    entries: list[str | BonSet] = [*train, translated, f"  {exact.prompt}!! ", edited, document]
    report = check_contamination(entries, test)
    found = {(o.item_id, o.field): o for o in report.overlaps}
    assert report.contaminated == tuple(
        item.id for item in test if item in (source, exact, near, inside)
    )
    assert found[source.id, "source_item"].kind == "source"
    assert found[source.id, "source_item"].train_id == "translated"
    assert found[exact.id, "prompt"].kind == "exact"
    assert found[exact.id, "prompt"].train_position == len(train) + 1
    assert found[inside.id, inside.chosen.id].kind == "near"
    assert found[inside.id, inside.chosen.id].score > 0.95
    assert found[inside.id, inside.chosen.id].train_id is None
    assert report.counts["source"] == 1
    assert report.counts["exact"] >= 1
    assert report.train_positions == tuple(range(len(train), len(train) + 4))
    rest = [entry for place, entry in enumerate(entries) if place not in report.train_positions]
    assert check_contamination(rest, test).clean


def test_short_answers_are_no_evidence_but_short_prompts_are():
    item = SEED[0]
    short = item.model_copy(
        update={
            "prompt": "Rice?",
            "responses": tuple(
                r.model_copy(update={"text": f"rice {n}"}) for n, r in enumerate(item.responses)
            ),
            "perturbed": (),
        }
    )
    assert check_contamination(["rice 0", "rice 1"], [short]).clean
    assert check_contamination(["rice"], [short]).counts["exact"] == 1


@pytest.mark.parametrize(
    ("train", "test"),
    [
        (
            "春节 的 时候 , 孩子 们 会 收到 长辈 给 的 红包 。",
            "春节的时候,孩子们会收到长辈给的红包。",
        ),
        ("お正月 には 家族 で 神社 に お参り します", "お正月には、家族で神社にお参りします。"),
        ("คน ไทย ไหว้ ผู้ใหญ่ ก่อน เสมอ เมื่อ พบ กัน", "คนไทยไหว้ผู้ใหญ่ก่อนเสมอเมื่อพบกัน"),
        (
            "dont forget guests bring well known sweets",
            "Don't forget: guests bring well-known sweets!",
        ),
        (
            "يحتفل المسلمون بعيد الأضحى في شهر ذي الحجة",
            "يَحْتَفِلُ المُسلِمونَ بعيدِ الاضحى في شهرِ ذي الحجّة",
        ),
    ],
)
def test_segments_punctuation_and_marks_hide_nothing(train, test):
    report = check_contamination([f"Before. {train} After."], [test])
    assert report.contaminated == ("0",)
    assert check_contamination([train], [test]).counts["exact"] == 1
