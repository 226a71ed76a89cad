"""Tables as Markdown and LaTeX, in which hostile texts stay inert."""

from __future__ import annotations

import re

from carb_metrics.show import latex_table, markdown_table

HOSTILE = "<script>x</script>|a_b & 50%"


def test_tables_for_papers() -> None:
    head, rows = ["scorer", "accuracy %"], [[HOSTILE, "25.0"], ["plain", "–"], ["worse", "−0.2"]]
    lines = markdown_table(head, rows).splitlines()
    assert lines[0] == "| scorer | accuracy % |"
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 3 for line in lines)
    tex = latex_table(head, rows)
    assert r"\begin{tabular}{lr}" in tex
    assert r"a\_b \& 50\%" in tex
    assert r"worse & $-$0.2 \\" in tex
    assert "<script" not in tex
