"""What a run would do and cost: ``--dry-run``, and the sentence before an evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

from carb_data import load
from cli_helpers import Carb


def test_a_plan_scores_nothing(carb: Carb, tmp_path: Path) -> None:
    scorers = [
        "baseline:length",
        "classifier:model",
        "mine=judge:m?backend=openai&read=generate&max_tokens=10&price_in=2&price_out=10",
        "implicit:m?ref=n",
    ]
    command = ["run", "--data", "carb-seed@2", "--scorer", *scorers, "--out", tmp_path / "r", "--dry-run"]
    found = carb(*command, "--perturbed", "--json").json
    assert not (tmp_path / "r").exists()
    seed = load("carb-seed@2")
    sets, answers = len(seed), sum(len(item.responses) for item in seed)
    perturbed = sum(len(item.perturbed) for item in seed)
    assert (found["sets"], found["responses"], found["perturbed"]) == (sets, answers, perturbed)
    length, classifier, judge, implicit = found["scorers"]
    assert (length["calls"], length["input_tokens"], length["cost"]) == (0, 0, None)
    assert classifier["calls"] == answers + perturbed
    assert (judge["scorer"], judge["calls"]) == ("mine", sets + perturbed)
    assert judge["output_tokens"] == 10 * judge["calls"]
    assert implicit["calls"] == 2 * classifier["calls"]
    assert judge["cost"] == pytest.approx((2 * judge["input_tokens"] + 10 * judge["output_tokens"]) / 1e6)
    assert "nothing was scored" in carb(*command).out
    assert carb(*command, "--json").json["perturbed"] == 0


@pytest.mark.parametrize(
    ("options", "calls_a_set"),
    [
        ("", 1),
        ("&orders=rotated", 4),
        ("&orders=both", 2),
        ("&mode=pairwise", 12),
        ("&mode=pairwise&orders=one", 6),
        ("&mode=pointwise", 4),
        ("&mode=pointwise&orders=both", 8),
    ],
)
def test_calls_of_judges(carb: Carb, data_file: Path, tmp_path: Path, options: str, calls_a_set: int) -> None:
    scorer = f"judge:m?read=generate&max_tokens=5{options}"
    command = ("run", "--data", data_file, "--scorer", scorer, "--out", tmp_path, "--dry-run", "--json")
    (planned,) = carb(*command).json["scorers"]
    assert planned["calls"] == 12 * calls_a_set
    assert planned["output_tokens"] == 5 * planned["calls"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("judge:m?backend=openai&price_in=cheap", "price_in=cheap is not a number"),
        ("judge:m?backend=openai&price_in=nan", "price_in must be 0 or more, got nan"),
        ("judge:m?backend=openai&price_out=-3", "price_out must be 0 or more, got -3"),
        ("x:y", "Unknown scorer kind 'x'"),
    ],
)
def test_a_plan_finds_mistakes(carb: Carb, data_file: Path, tmp_path: Path, spec: str, said: str) -> None:
    ended = carb("run", "--data", data_file, "--out", tmp_path / "r", "--dry-run", "--scorer", spec)
    assert ended.code == 2
    assert said in ended.err


def test_an_evaluation_says_calls_and_price_before_it_begins(carb: Carb, data_file: Path, tmp_path: Path) -> None:
    spec = "mine=judge:m?backend=openai&url=http://127.0.0.1:9/v1&retries=0&price_in=1000"
    planned = carb("eval", spec, data_file, "--dry-run", "--out", tmp_path / "r", "--json").json
    judge = planned["scorers"][0]
    assert (judge["scorer"], judge["calls"]) == ("mine", 12)
    said = carb("eval", spec, data_file, "--no-open", "--out", tmp_path / "r").out
    assert f"That takes 12 calls of the model, with about {judge['input_tokens']:,} tokens to read" in said
    assert f"cost about {judge['cost']:,.2f}" in said
