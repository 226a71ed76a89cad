"""Tables as Markdown, as LaTeX and in notebooks, in which hostile texts stay inert."""

from __future__ import annotations

import re

import pytest

from carb_data import Dataset, Response
from carb_metrics import bon_accuracy, breakdown, compare, family_accuracy, rank
from carb_metrics.show import latex_table, markdown_table
from sets_and_scores import a_set, scores_of

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


ANSWERS = ("tea", "soup", "rice")


def family(number: int) -> list:
    return [
        a_set(
            f"{number}/{right}",
            "thai",
            [
                Response(
                    id=answer,
                    text=answer,
                    role="chosen" if answer == right else "rejected",
                    language="en",
                )
                for answer in ANSWERS
            ],
            family=str(number),
        )
        for right in ANSWERS
    ]


@pytest.mark.parametrize("name", [HOSTILE, "plain"])
def test_a_notebook_shows_every_result_as_a_table(name: str) -> None:
    data = Dataset(item for number in range(30) for item in family(number))
    table = scores_of(
        data,
        {
            name: lambda item, answer: float(len(answer.text)),
            "knows": lambda item, answer: float(answer.role == "chosen"),
        },
    ).with_items(data)
    families = family_accuracy(table, data)
    assert families is not None
    accuracy = bon_accuracy(table, by=("scorer",))
    for result in (families, accuracy, accuracy.cell("knows"), rank(table), breakdown(table)):
        html = result._repr_html_()
        assert "<script" not in html
        assert html.count("<table") == html.count("</table>") > 0
        assert set(type(result).model_fields) <= set(re.findall(r"<td>(\w+)</td>", html))
    shown = families._repr_html_()
    assert ("&lt;script&gt;" in shown) == (name == HOSTILE)
    assert f"<td>{families.of('knows').place_win.estimate:.4g}</td>" in shown
    one, other = (
        scores_of(data, {key: lambda item, answer: float(len(answer.text))}) for key in (name, "b")
    )
    assert "<script" not in compare(one, other)._repr_html_()
