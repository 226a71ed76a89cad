"""A report reads its table once, its page included."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

from carb_cli.report.content import content, read_runs
from carb_cli.report.page import render
from carb_metrics.matrices import matrices
from carb_metrics.scored import clusters_of


def test_sets_are_tied_and_families_read_once_for_all_sections(
    finished_run: Path,
) -> None:
    calls = Counter[CodeType]()

    def counted(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls[frame.f_code] += 1

    runs = read_runs([finished_run])
    sys.setprofile(counted)
    try:
        render(content(runs), runs)
    finally:
        sys.setprofile(None)
    assert (calls[clusters_of.__code__], calls[matrices.__code__]) == (1, 1)
