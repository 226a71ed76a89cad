"""The ``carb`` command: evaluate reward models on cultural data and report with uncertainty."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from carb_cli.main import main

if TYPE_CHECKING:
    from carb_cli.report.report_json import Report

__all__ = ["main", "read_report"]


def read_report(*runs: str | Path, confidence: float = 0.95) -> Report:
    """What runs found, with intervals: the content of ``report.json``, and ``verdict``, the same in a sentence.

    Args:
        runs: folders that ``carb run`` wrote, all on the same data set.
        confidence: confidence of all intervals, between 0 and 1.

    Raises:
        CarbError: a folder is no run, or the runs scored different data.
    """
    from carb_cli.report.content import content, read_runs

    return content(read_runs([Path(run) for run in runs]), confidence=confidence)
