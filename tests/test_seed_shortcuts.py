"""The surface baselines, run on the whole of carb-seed as any scorer is, stay at chance."""

from __future__ import annotations

import pytest

from carb_data import load
from carb_metrics import bon_accuracy
from carb_scorers import evaluate


@pytest.mark.parametrize("baseline", ["length", "language", "label"])
def test_a_surface_baseline_stays_at_chance(baseline):
    pytest.importorskip("lingua", reason="needs carb-data[checks]")
    overall = bon_accuracy(evaluate(load("carb-seed@1"), [f"baseline:{baseline}"]), ties="shared").overall
    assert overall.n == 440
    assert overall.low <= 0.25 <= overall.high
