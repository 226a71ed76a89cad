"""``carb validity``."""

from __future__ import annotations

from pathlib import Path

import pytest

from carb_metrics import correlate
from cli_helpers import Carb

HEAD = "scorer,benchmark,downstream,covariate,other"
ROWS = [("a", 0.6, 0.31, 1, 0.5), ("b", 0.5, 0.26, 3, 0.7), ("c", 0.8, 0.41, 2, 0.6), ("d", 0.7, 0.33, 5, 0.4)]
ROWS += [("e", 0.4, 0.25, 4, 0.3), ("f", 0.65, 0.36, 0, 0.8)]


@pytest.fixture
def points(tmp_path: Path) -> Path:
    lines = [HEAD, *(",".join(map(str, row)) for row in ROWS)]
    (tmp_path / "points.csv").write_text("\n".join(lines))
    return tmp_path / "points.csv"


@pytest.mark.parametrize("against", [None, "other"])
def test_json_is_what_the_metrics_say(carb: Carb, points: Path, against: str | None) -> None:
    found = carb("validity", points, "--json", *(["--against", against] if against else [])).json
    names, x, y, z, other = map(list, zip(*ROWS, strict=True))
    wanted = correlate(x, y, z, against=other if against else None, labels=names)
    assert found == {**wanted.model_dump(mode="json"), "confidence": 0.95, "against": against}
    assert (found["rival"] is None) == (against is None)
    assert len(found["influence"]) == len(ROWS)


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
