"""Results show themselves: in notebooks, as Markdown, as LaTeX."""

from __future__ import annotations

import re

import polars as pl
import pytest

from carb_data import ScoreTable
from carb_metrics import bon_accuracy, breakdown

HOSTILE = "<script>x</script>|a_b & 50%"


@pytest.fixture(scope="module")
def scores() -> ScoreTable:
    rows = [
        {"scorer": name, "item_id": f"i{n}", "response_id": f"r{r}", "role": "rejected" if r else "chosen",
         "culture": "thai", "domain": "values", "language": "th", "perturbation": None, "original": None,
         "score": float((n + r) % 4)}
        for name in (HOSTILE, "plain") for n in range(8) for r in range(4)
    ]  # fmt: skip
    strings = dict.fromkeys(("perturbation", "original"), pl.String)
    return ScoreTable(pl.DataFrame(rows, schema_overrides=strings))


def test_a_notebook_gets_plain_text_in_a_table(scores: ScoreTable) -> None:
    found = bon_accuracy(scores, by=("scorer", "culture"))
    shown = found._repr_html_()
    assert shown.count("<tr>") == 3
    assert "<script" not in shown
    assert "plain: 25.0% right [" in shown
    assert "25.0" in breakdown(scores)._repr_html_()


def test_tables_for_papers(scores: ScoreTable) -> None:
    found = bon_accuracy(scores, by=("scorer",))
    lines = found.markdown().splitlines()
    assert lines[0] == "| scorer | accuracy % | interval | sets | ties | errors |"
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 7 for line in lines)
    tex = found.latex()
    assert r"\begin{tabular}{lrrrrr}" in tex
    assert r"a\_b \& 50\%" in tex
    assert found.summary() == f"{breakdown(scores).summary()}"
