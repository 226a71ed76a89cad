"""Sets that are not independent have one origin: one source item, family, fact, or copies."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("numpy", reason="needs the extra 'checks'")

from carb_data import Citation, Dataset, check_contamination, load
from carb_data.origins import origins
from small_sets import small_set

SEED = load("carb-seed")
LINES = """amber bridge candle donkey ember falcon garden hammer island jungle kettle ladder magnet
needle orchid pepper quiver ribbon saddle tunnel umbrella velvet walnut yellow zipper"""
WORDS = LINES.split()


def cited(name: str, facts: list[str], **changes: object):
    item = small_set(name, [f"{name} does {fact}" for fact in facts], **changes)
    responses = [
        response.model_copy(update={"source": Citation(fact=fact)})
        for response, fact in zip(item.responses, facts, strict=True)
    ]
    return item.model_copy(update={"responses": tuple(responses)})


def facts_of(responses) -> set[str]:
    return {r.source.fact for r in responses if r.source is not None and r.source.fact}


def text(words: random.Random, size: int = 9) -> str:
    return " ".join(words.choice(WORDS) for _ in range(size))


def noise(name: str, words: random.Random) -> list:
    """A family of four sets whose texts share nothing with those of others."""
    question, answers = text(words), [text(words) for _ in range(4)]
    return [
        small_set(
            f"{name}/{n}",
            answers,
            n,
            prompt=f"{question} in {WORDS[n]}?",
            family=name,
            domain="values",
        )
        for n in range(4)
    ]


def reworded(item, number: int):
    """A copy under names of its own, with one word of its question changed."""
    _, _, rest = item.prompt.partition(" ")
    return item.model_copy(
        update={
            "id": f"{number}-{item.id}",
            "family": f"{number}-{item.family}" if item.family else None,
            "prompt": f"{WORDS[number]} {rest}",
            "provenance": item.provenance.model_copy(update={"source_id": f"{number}-{item.id}"}),
        }
    )


def test_sets_that_share_a_fact_have_one_origin_whatever_their_order():
    sets = [
        cited("rice", ["rice.KR", "rice.JP"]),
        cited("bread", ["bread.DE", "bread.AT"]),
        cited("both", ["rice.JP", "bread.AT"]),
        cited("tea", ["tea.GB", "tea.IN"]),
        small_set("none", ["yes", "no"]),
    ]
    expected = dict.fromkeys(["rice", "bread", "both"], "test:both")
    expected |= {"tea": "test:tea", "none": "test:none"}
    for order in range(5):
        shuffled = random.Random(order).sample(sets, len(sets))
        assert Dataset(shuffled).origins == expected
        assert Dataset(shuffled).origins.copies == frozenset()


def test_a_fact_of_a_perturbed_version_ties_in_a_split_alone():
    one, other = cited("rice", ["rice.KR", "rice.JP"]), cited("tea", ["tea.GB", "tea.IN"])
    version = other.chosen.model_copy(
        update={
            "id": "cc",
            "perturbation": "CC",
            "original": other.chosen.id,
            "source": Citation(fact="rice.JP"),
        }
    )
    dataset = Dataset([one, other.model_copy(update={"perturbed": (version,)})])
    assert len(set(dataset.origins.values())) == 2
    for seed in range(9):
        parts = dataset.split({"train": 0.5, "test": 0.5}, seed=seed)
        assert sorted(map(len, parts.values())) == [0, 2]


def test_copies_with_one_word_changed_have_one_origin():
    words = random.Random(0)
    families = [noise(f"f{n:02}", words) for n in range(40)]
    copies = [reworded(item, n) for family in families[:5] for n in range(12) for item in family]
    sets = [*(item for family in families for item in family), *copies]
    words.shuffle(sets)
    tied = Dataset(sets).origins
    assert len(set(tied.values())) == 40
    assert len(tied.copies) == len(copies)
    for family in families[:5]:
        assert len({tied[f"{n}-{item.id}"] for n in range(12) for item in family}) == 1
        assert tied[f"3-{family[0].id}"] == tied[family[0].id]


@pytest.mark.parametrize("asks", [f"{'?' * 80}{' '.join(WORDS)}", f"{' '.join(WORDS)}!", "WHO"])
def test_copies_whose_questions_differ_by_marks_and_case_alone_have_one_origin(asks):
    same = asks.lower().strip("?!")
    items = [small_set(name, ["a bow", name], prompt=q) for name, q in (("x", asks), ("y", same))]
    assert len(set(origins(items).values())) == 1
    other = small_set("z", ["a kick", "z"], prompt=f"{same} never")
    assert len(set(origins([*items, other]).values())) == 2


def test_copies_of_single_sets_in_ten_languages_have_one_origin():
    singles = [item for item in SEED if item.family is None]
    chosen = {item.language: item for item in singles}
    assert len(chosen) >= 10
    for item in chosen.values():
        last = item.responses[-1]
        edited = last.model_copy(update={"text": f"{last.text} …!", "source": None})
        bare = [r.model_copy(update={"source": None}) for r in item.responses[:-1]]
        copy = item.model_copy(
            update={
                "id": "copy",
                "responses": (*bare, edited),
                "perturbed": (),
                "provenance": item.provenance.model_copy(update={"source_id": "copy"}),
            }
        )
        assert len(set(origins([item, copy]).values())) == 1, item.language


@pytest.mark.parametrize(
    "questions",
    [
        [f"Question {n} about the place, how does it go?" for n in range(9)],
        [f"What does one bring to {word}s there as a guest?" for word in WORDS],
    ],
)
def test_questions_of_one_pattern_with_other_answers_are_no_copies(questions):
    words = random.Random(1)
    sets = [
        small_set(f"s{n}", [text(words, 3) for _ in range(4)], prompt=question)
        for n, question in enumerate(questions)
    ]
    assert len(set(origins(sets).values())) == len(sets)


def test_answers_with_other_numbers_are_no_copies():
    sets = [
        small_set(f"s{n}", [f"the right answer is {n}", f"the wrong answer is {n}"], prompt=f"{n}?")
        for n in range(12)
    ]
    assert len(set(origins(sets).values())) == len(sets)


def test_the_sets_of_the_seed_are_tied_by_facts_and_none_is_a_copy():
    tied = SEED.origins
    assert tied.copies == frozenset()
    of_fact: dict[str, set[str]] = {}
    for item in SEED:
        for fact in facts_of(item.responses):
            of_fact.setdefault(fact, set()).add(tied[item.id])
    assert all(len(names) == 1 for names in of_fact.values())
    sizes = [list(tied.values()).count(name) for name in set(tied.values())]
    assert len(sizes) >= 100
    assert max(sizes) <= len(SEED) / 20  # no fact joins half of the data


def test_the_halves_of_the_seed_share_no_fact():
    parts = SEED.split({"train": 0.5, "test": 0.5}, apart=True)
    facts = [
        {fact for item in part for fact in facts_of((*item.responses, *item.perturbed))}
        for part in parts.values()
    ]
    assert not facts[0] & facts[1]
    assert all(0.4 < len(part) / len(SEED) < 0.6 for part in parts.values())
    assert check_contamination(parts["train"], parts["test"]).clean


def test_a_set_of_the_same_facts_in_training_is_reported():
    train = cited("rice", ["rice.KR", "rice.JP"], language="ko")
    test = cited("noodles", ["noodles.KR", "rice.JP"])
    report = check_contamination([train], [test])
    (overlap,) = report.overlaps
    assert (overlap.item_id, overlap.field, overlap.kind) == ("noodles", "fact", "fact")
    assert (overlap.test_text, overlap.train_id) == ("rice.JP", "rice")
    assert report.counts == {"source": 0, "fact": 1, "exact": 0, "near": 0}
