"""``carb validity``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from cli_helpers import Carb

ESTIMATE = {"estimate", "low", "high", "p"}


def write_csv(path: Path, columns: dict[str, object]) -> Path:
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def points(tmp_path: Path) -> Path:
    draw = np.random.default_rng(0)
    x = draw.uniform(0.4, 0.8, 15)
    z = draw.normal(size=15)
    return write_csv(
        tmp_path / "points.csv",
        {
            "scorer": [f"scorer {i}" for i in range(15)],
            "benchmark": x,
            "downstream": 0.5 * x + 0.05 * draw.normal(size=15) + 0.01 * z,
            "covariate": z,
            "other": draw.uniform(0.4, 0.8, 15),
        },
    )


def columns_of(path: Path) -> dict[str, np.ndarray]:
    table = np.genfromtxt(path, delimiter=",", names=True, dtype=None, encoding="utf-8")
    return {name: table[name] for name in table.dtype.names}


def test_json_agrees_with_scipy(carb: Carb, points: Path) -> None:
    found = carb("validity", points, "--json").json
    data = columns_of(points)
    x, y = data["benchmark"], data["downstream"]
    for name, reference in (
        ("pearson", stats.pearsonr(x, y)),
        ("spearman", stats.spearmanr(x, y)),
        ("kendall", stats.kendalltau(x, y)),
    ):
        assert set(found[name]) == ESTIMATE
        assert found[name]["estimate"] == pytest.approx(reference.statistic, abs=1e-10)
        assert found[name]["p"] == pytest.approx(reference.pvalue, rel=1e-6)
        assert found[name]["low"] < found[name]["estimate"] < found[name]["high"]
    line = stats.linregress(x, y)
    assert {"slope", "intercept", "r2", "p"} <= set(found["fit"])
    assert found["fit"]["slope"] == pytest.approx(line.slope)
    assert found["fit"]["intercept"] == pytest.approx(line.intercept)
    assert found["fit"]["r2"] == pytest.approx(line.rvalue**2)
    assert found["fit"]["p"] == pytest.approx(line.pvalue)
    assert len(found["influence"]) == 15
    assert {"pearson", "spearman"} <= set(found["partial"])
    assert found["rival"] is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scorer,benchmark\na,1\n", "lacks the column downstream"),
        (
            "scorer,benchmark,downstream\na,1,x\nb,,2\n",
            "line 2: downstream is 'x', not a number; line 3: benchmark is ''",
        ),
        ("scorer,benchmark,downstream\na,1,2\na,1,nan\n", "comes twice; line 3: downstream is 'nan'"),
        ('scorer,benchmark,downstream\n"a,1\n', "is not a CSV file"),
        ("", "lacks the column scorer, benchmark, downstream"),
    ],
)
def test_mistakes_in_the_file(carb: Carb, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(text)
    ended = carb("validity", file)
    assert ended.code == 2
    assert said in ended.err
    assert str(file) in ended.err
