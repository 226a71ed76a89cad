"""A report reads its table once, its page included."""

from __future__ import annotations

from pathlib import Path

import pytest

import carb_metrics.scored
from carb_cli.report.content import content, read_runs
from carb_cli.report.page import render


def test_sets_are_tied_and_families_read_once_for_all_sections(
    finished_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = {"clusters_of": 0, "matrices": 0}
    for name in calls:
        plain = getattr(carb_metrics.scored, name)

        def counted(*given: object, name: str = name, plain: object = plain) -> object:
            calls[name] += 1
            return plain(*given)  # type: ignore[operator]

        monkeypatch.setattr(carb_metrics.scored, name, counted)
    runs = read_runs([finished_run])
    render(content(runs), runs)
    assert calls == {"clusters_of": 1, "matrices": 1}
