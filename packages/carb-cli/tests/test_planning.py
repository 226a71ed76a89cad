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


@pytest.mark.parametrize("wrong", ["read=genrate", "price_in=inf", "price_out=-1", "price_in=free"])
def test_a_plan_finds_a_wrong_option(carb: Carb, tmp_path: Path, wrong: str) -> None:
    spec = f"judge:m?backend=openai&{wrong}"
    ended = carb("run", "--data", "carb-seed", "--limit", 4, "--scorer", spec, "--out", tmp_path / "r", "--dry-run")
    assert ended.code == 2
    assert wrong.partition("=")[0] in ended.err
