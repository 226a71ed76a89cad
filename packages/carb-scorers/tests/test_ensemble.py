"""Ensembles: what the rules compute, and how members are named, failed and closed."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data import CarbError
from carb_scorers import Candidate, Scorer, ScoreRequest, ScoreResult, ScorerSpec, Usage, evaluate, open_scorer
from carb_scorers.contract import failed
from carb_scorers.ensemble import RULES, EnsembleScorer, majority, mean, pace
from carb_scorers.integrations import best_of_n
from carb_scorers.testing import check_scorer, example_dataset

score_lists = st.lists(
    st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4).map(lambda v: dict(zip("abcd", v, strict=True))),
    min_size=1,
    max_size=5,
)


def test_mean_is_of_standardised_scores() -> None:
    combined = mean([{"a": 1.0, "b": 3.0}, {"a": 500.0, "b": 100.0}, {"a": 0.1, "b": 0.9}])
    assert combined == pytest.approx({"a": -1 / 3, "b": 1 / 3})


def test_a_member_without_an_opinion_adds_nothing() -> None:
    assert mean([{"a": 5.0, "b": 5.0}, {"a": 1.0, "b": 2.0}]) == pytest.approx({"a": -0.5, "b": 0.5})


@given(st.floats(-1e6, 1e6), st.integers(2, 7))
def test_a_constant_member_adds_exactly_nothing(constant: float, count: int) -> None:
    """Rounding made -1.0 of some constants, for all candidates."""
    for value in (constant, 0.4059832467322032):
        assert mean([dict.fromkeys(map(str, range(count)), value)]) == dict.fromkeys(map(str, range(count)), 0.0)


@pytest.mark.parametrize("rule", ["mean", "majority"])
def test_rounding_decides_no_tie(rule: str) -> None:
    of = "baseline:length;baseline:random"
    scores = best_of_n(f"ensemble:{rule}?of={of}", "p", ["a", "bbb"]).scores
    assert scores[0] == scores[1]


def test_six_sixths_of_a_vote_are_a_vote() -> None:
    """They summed to 0.9999999999999999."""
    votes = majority([*[dict.fromkeys("acdefg", 1.0) | {"b": 0.0}] * 6, dict.fromkeys("acdefg", 0.0) | {"b": 1.0}])
    assert len(set(votes.values())) == 1


def test_majority_splits_the_vote_of_a_tie() -> None:
    votes = majority([{"a": 1.0, "b": 0.0, "c": 1.0}, {"a": 0.0, "b": 9.0, "c": 1.0}])
    assert votes == pytest.approx({"a": 0.25, "b": 0.5, "c": 0.25})


@settings(deadline=None)
@given(score_lists, st.floats(0.5, 2), st.floats(-100, 100))
def test_units_of_a_member_do_not_matter(members: list[dict[str, float]], scale: float, shift: float) -> None:
    changed = [{key: scale * value + shift for key, value in members[0].items()}, *members[1:]]
    spread = max(members[0].values()) - min(members[0].values())
    if spread > 1e-3:
        assert mean(changed) == pytest.approx(mean(members), abs=1e-6)


@settings(deadline=None)
@given(score_lists)
def test_votes_sum_to_one_and_standardised_scores_to_nothing(members: list[dict[str, float]]) -> None:
    assert sum(majority(members).values()) == pytest.approx(1)
    assert sum(mean(members).values()) == pytest.approx(0, abs=1e-6)


def test_through_spec_and_table() -> None:
    spec = "ensemble:mean?of=baseline:length;baseline:random?seed=3"
    frame = evaluate(example_dataset(), [spec]).frame
    assert frame["score"].null_count() == 0
    scorer = open_scorer(spec)
    assert scorer.spec.comparative
    members = scorer.spec.parameters["members"]
    assert isinstance(members, list)
    assert [member["name"] for member in members if isinstance(member, dict)] == [
        "baseline:length",
        "baseline:random?seed=3",
    ]
    anyio.run(check_scorer, scorer)


def test_members_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "members.txt"
    file.write_text("# surface\nbaseline:length\n\nbaseline:random?seed=1  # chance\n")
    by_file = open_scorer(f"ensemble:majority?file={file}")
    by_name = open_scorer("ensemble:majority?of=baseline:length;baseline:random?seed=1")
    assert by_file.spec.parameters == by_name.spec.parameters


def test_an_escaped_ampersand_belongs_to_the_member() -> None:
    with pytest.raises(CarbError, match="'colour' is unknown"):
        open_scorer("ensemble:mean?of=baseline:length;baseline:random?seed=1%26colour=2")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ensemble:median?of=baseline:length;baseline:random", "unknown rule 'median'"),
        ("ensemble:mean", "name the members"),
        ("ensemble:mean?of=baseline:length", "at least two members"),
        ("ensemble:mean?of=baseline:length;baseline:length", "each named once"),
        ("ensemble:mean?of=baseline:length;judg:x", "Unknown scorer kind 'judg'"),
        ("ensemble:mean?file=nowhere.txt", "cannot read nowhere.txt"),
        ("ensemble:mean?of=baseline:length;baseline:random&file=x", "either with of"),
    ],
)
def test_wrong_use(spec: str, message: str) -> None:
    with pytest.raises(CarbError, match=message):
        open_scorer(spec)


class Member:
    def __init__(self, name: str, *, fails: bool = False, in_flight: int | None = None) -> None:
        self.spec = ScorerSpec(name=name, kind="fake", in_flight=in_flight)
        self.fails = fails
        self.closed = 0

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        usage = Usage(input_tokens=2)
        if self.fails:
            return [failed(r, "http", "gone", usage) for r in requests]
        return [
            ScoreResult(request_id=r.request_id, scores={c.id: float(len(c.text)) for c in r.candidates}, usage=usage)
            for r in requests
        ]

    async def aclose(self) -> None:
        self.closed += 1
        if self.fails:
            raise OSError("cannot close")


def ensemble(*members: Scorer) -> EnsembleScorer:
    return EnsembleScorer(ScorerSpec(name="e", kind="ensemble"), members, RULES["mean"])


REQUEST = ScoreRequest(
    request_id="1",
    prompt="?",
    candidates=(Candidate(id="a", text="x"), Candidate(id="b", text="xy")),
    culture="thai",
    language="th",
)


def test_a_failed_member_fails_the_item_and_is_named() -> None:
    (result,) = anyio.run(ensemble(Member("good"), Member("bad", fails=True)).score, [REQUEST])
    assert result.error is not None
    assert (result.error.kind, result.error.message) == ("http", "bad: gone")
    assert result.usage == Usage(input_tokens=4)


def test_all_members_are_closed() -> None:
    members = [Member("good"), Member("bad", fails=True), Member("also")]
    with pytest.raises(OSError, match="cannot close"):
        anyio.run(ensemble(*members).aclose)
    assert [member.closed for member in members] == [1, 1, 1]


def test_the_most_patient_member_sets_the_pace() -> None:
    assert pace([Member("a"), Member("b")]) is None
    assert pace([Member("a", in_flight=8), Member("b"), Member("c", in_flight=3)]) == 3
