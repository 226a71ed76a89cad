"""Nothing that a scorer sees depends on which response is right."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data import BonSet, Dataset, Provenance, Response, Role
from carb_scorers import ScoreError, ScoreResult, evaluate
from carb_scorers.blind import blind, checked, unblind
from carb_scorers.testing import example_dataset
from fake_scorer import FakeScorer

BASELINES = ["baseline:random?seed=5", "baseline:length", "baseline:label"]

texts = st.lists(st.text(min_size=1, max_size=8).filter(str.strip), min_size=2, max_size=5)


@st.composite
def sets(draw: st.DrawFn) -> BonSet:
    """Sets whose texts may be equal and whose chosen response may stand anywhere."""
    shown = draw(texts)
    right = draw(st.integers(0, len(shown) - 1))
    responses = [
        Response(
            id=f"r{i}",
            text=text,
            role=Role.CHOSEN if i == right else Role.REJECTED,
            language="en",
            generator="human" if i == right else "model",
        )
        for i, text in enumerate(shown)
    ]
    perturbed = [
        Response(
            id=f"p{i}",
            text=draw(st.text(min_size=1, max_size=8).filter(str.strip)),
            role=responses[original].role,
            language="en",
            perturbation="RP",
            original=f"r{original}",
        )
        for i, original in enumerate(draw(st.lists(st.integers(0, len(shown) - 1), max_size=3)))
    ]
    return BonSet(
        id=draw(st.sampled_from(["a", "b~1", "c d"])),
        culture="english",
        domain="values",
        language="en",
        prompt="Which?",
        responses=tuple(responses),
        perturbed=tuple(perturbed),
        provenance=Provenance(source="example", license="CC0-1.0", method="generated"),
    )


def relabelled(item: BonSet, right: int) -> BonSet:
    """The same texts with another one called right; generators go with the roles."""
    roles = {
        r.id: Role.CHOSEN if i == right else Role.REJECTED for i, r in enumerate(item.responses)
    }
    change = {Role.CHOSEN: "human", Role.REJECTED: "model"}
    return item.model_copy(
        update={
            "responses": tuple(
                r.model_copy(update={"role": roles[r.id], "generator": change[roles[r.id]]})
                for r in item.responses
            ),
            "perturbed": tuple(
                r.model_copy(update={"role": roles[str(r.original)]}) for r in item.perturbed
            ),
        }
    )


@given(sets(), st.data(), st.booleans(), st.integers(0, 3))
@settings(deadline=None)
def test_requests_and_scores_stay_the_same_when_labels_are_permuted(
    item: BonSet, data: st.DataObject, comparative: bool, seed: int
) -> None:
    other = relabelled(item, data.draw(st.integers(0, len(item.responses) - 1)))
    shown = [b.request for b in blind(item, seed=seed, comparative=comparative)]
    assert [b.request for b in blind(other, seed=seed, comparative=comparative)] == shown
    recorder = FakeScorer(
        lambda texts: [-float(n) for n in range(len(texts))], comparative=comparative
    )
    tables = [
        evaluate(Dataset([x]), [recorder, *BASELINES], seed=seed).frame for x in (item, other)
    ]
    assert recorder.requests[: len(shown)] == recorder.requests[len(shown) :]
    assert tables[0].drop("role").equals(tables[1].drop("role"))


@given(sets(), st.randoms(use_true_random=False), st.booleans())
@settings(deadline=None)
def test_the_order_in_the_file_carries_nothing_over(
    item: BonSet, shuffler: random.Random, comparative: bool
) -> None:
    other = item.model_copy(
        update={
            "responses": tuple(shuffler.sample(item.responses, len(item.responses))),
            "perturbed": tuple(shuffler.sample(item.perturbed, len(item.perturbed))),
        }
    )
    assert Dataset([item]).fingerprint == Dataset([other]).fingerprint
    asked = [[*blind(each, seed=0, comparative=comparative)] for each in (item, other)]
    one, two = ({b.request_id: (b.request, b.recorded) for b in each} for each in asked)
    assert one == two


@pytest.mark.parametrize("comparative", [True, False])
def test_the_seed_changes_the_order_that_a_scorer_is_given(comparative: bool) -> None:
    data, given = example_dataset(12), {}
    for seed in (0, 1, 0):
        scorer = FakeScorer(comparative=comparative)
        evaluate(data, [scorer], seed=seed)
        orders = [tuple(c.text for c in request.candidates) for request in scorer.requests]
        assert given.setdefault(seed, orders) == orders
    same = sum(one == other for one, other in zip(given[0], given[1], strict=True))
    assert same < len(given[0]) / 3
    assert [sorted(one) for one in given[0]] == [sorted(one) for one in given[1]]


def test_ids_say_nothing() -> None:
    for item in example_dataset(4):
        for blinded in blind(item, seed=0, comparative=True):
            assert [c.id for c in blinded.request.candidates] == ["1", "2", "3", "4"]
            assert not any(
                r.id in blinded.request.model_dump_json()
                for r in (*item.responses, *item.perturbed)
            )


def test_the_right_answer_stands_in_each_place_equally_often() -> None:
    places = [0, 0, 0, 0]
    for item in example_dataset(2000, perturbed=False):
        (blinded,) = blind(item, seed=0, comparative=True)
        places[next(p for p, r in enumerate(blinded.recorded.values()) if r == item.chosen.id)] += 1
    assert min(places) > 430  # 500 expected, standard deviation 19


def test_a_scorer_that_answers_for_other_items_or_candidates_gets_error_rows() -> None:
    (blinded,) = blind(example_dataset(1, perturbed=False)[0], seed=0, comparative=True)
    request = blinded.request
    good = {c.id: 1.0 for c in request.candidates}
    error = ScoreError(kind="too-long", message="")
    partial = ScoreResult(
        request_id=request.request_id,
        scores={key: 1.0 for key in good if key != "1"},
        errors={"1": error},
    )
    assert checked(request, partial, comparative=False) == partial
    for result in (
        ScoreResult(request_id="other", scores=good),
        ScoreResult(request_id=request.request_id, scores={**good, "9": 0.0}),
        ScoreResult(request_id=request.request_id, scores={"1": 0.0}),
        partial,
    ):
        found = checked(request, result, comparative=True)
        assert found.error is not None
        assert found.error.kind == "contract"
        assert not found.scores


def test_outcomes_in_another_order_are_refused() -> None:
    data = example_dataset(2)
    blinded = [next(blind(item, seed=0, comparative=False)) for item in data]
    outcomes = [
        (one, ScoreResult(request_id=one.request.request_id, scores={"1": 0.0})) for one in blinded
    ]
    with pytest.raises(ValueError, match="stand where those of"):
        unblind(data, "any", reversed(outcomes))
