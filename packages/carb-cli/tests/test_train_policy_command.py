"""``carb train-policy``: what its options become, without training anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from carb_data import CarbError
from cli_helpers import Carb


@pytest.fixture
def train(carb: Carb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Calls the command; gives how it ended and the settings that reached the trainer, if they did."""
    from carb_cli.commands import train_policy as command

    seen: list[Any] = []

    def stop(config: Any, _: Any) -> None:
        seen.append(config)
        raise CarbError("enough")

    monkeypatch.setattr(command, "train", stop)

    def call(*more: str) -> Any:
        given = ["--policy", "p", "--scorer", "baseline:length", "--task", "blend:x", "--out", tmp_path / "out"]
        return carb("train-policy", *given, *more), seen

    return call


def test_limits_of_alarms_reach_the_trainer(train: Any) -> None:
    _, (config,) = train("--alarm-limit", "length=2.0", "--alarm-limit", "kl=5", "--steps", "3")
    assert (config.limits.length, config.limits.kl, config.limits.same, config.steps) == (2.0, 5.0, 0.4, 3)


def test_limits_of_alarms_may_follow_one_another(train: Any) -> None:
    _, (config,) = train("--alarm-limit", "length=2.0", "window=8")
    assert (config.limits.length, config.limits.window) == (2.0, 8)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("lenght=2", "Did you mean 'length'? There are: length, language, repetition, same, empty, kl, grade, window."),
        ("length=0.5", "length: Input should be greater than or equal to 1, got '0.5'"),
        ("length", "not of the form name=number"),
    ],
)
def test_a_wrong_limit_is_told_before_anything_begins(train: Any, given: str, told: str) -> None:
    ended, seen = train("--alarm-limit", given)
    assert ended.code == 2
    assert told in " ".join(ended.err.split())
    assert seen == []
