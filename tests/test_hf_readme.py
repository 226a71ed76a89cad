"""What the pages of carb-scorers say about kinds and tests is so."""

from __future__ import annotations

import re

from carb_scorers.spec import kinds
from readme_examples import SCORERS, TESTED


def test_every_kind_is_named() -> None:
    named = set(re.findall(r"^\| `(\w+):", SCORERS.read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert named >= set(kinds()) - {"overlap"}


def test_ways_of_testing_are_explained_and_there() -> None:
    text = TESTED.read_text(encoding="utf-8")
    _, _, part = text.partition("## What is tested, and how")
    part = part.partition("\n## ")[0]
    explained = set(re.findall(r"\*\*(\w+)\*\*", part))
    rows = [line for line in part.splitlines() if re.match(r"\| `", line) and line.count("|") == 7]
    assert len(rows) == 15
    for row in rows:
        for cell in row.split("|")[4:7]:
            words = set(re.findall(r"[a-z]+", re.sub(r"\(.*?\)", "", cell)))
            assert words <= explained or cell.strip() in ("not tested", "tal-rlvr's own tests"), cell
    for link in re.findall(r"\]\(([^)]*test_\w+\.py)\)", text):
        assert (TESTED.parent / link).resolve().is_file(), link
