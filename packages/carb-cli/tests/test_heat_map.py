"""The family of a report's first screen counts what the place win rate counts; the chart is a
file."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

import anyio
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_cli.family_table import place_name
from carb_cli.report.content import content, read_runs
from carb_cli.report.group_chart import panels
from carb_cli.report.heat_map import HeatMap, beaten, heat_map
from carb_cli.report.page import chart_of
from carb_data import Dataset, ScoreTable, cultures, load
from carb_metrics import family_accuracy
from carb_scorers import ScoreRequest, ScoreResult, ScorerSpec, evaluate
from carb_scorers.run import run
from cli_helpers import Carb, small_family, small_set

SCORES = st.lists(
    st.lists(st.sampled_from([-1.5, 0.0, 0.25, 3.0]), min_size=4, max_size=4),
    min_size=4,
    max_size=4,
)


@given(SCORES)
def test_it_counts_what_the_place_win_rate_counts(values: list[list[float]]) -> None:
    sets = Dataset(small_family(0))
    frame = evaluate(sets, "baseline:length").frame
    place = pl.col("item_id").cast(pl.String).str.tail(1).cast(pl.Int64)
    answer = pl.col("response_id").cast(pl.String).str.tail(1).cast(pl.Int64)
    flat = pl.Series(np.ravel(values))
    scored = frame.with_columns(score=(4 * place + answer).map_batches(lambda n: flat.gather(n)))
    win = family_accuracy(ScoreTable(scored), sets).of("baseline:length").place_win.estimate
    diagonal = sum(row[n] or 0.0 for n, row in enumerate(beaten(values)))
    assert win is not None
    assert np.isclose(diagonal / 12, win)


def test_a_missing_score_leaves_its_column_open() -> None:
    found = beaten([[1.0, None], [0.0, 2.0]])
    assert found == ((1.0, None), (0.0, None))


def test_the_first_screen_shows_the_best_scorer_on_a_family(carb: Carb, tmp_path: Path) -> None:
    Dataset(item for number in range(8) for item in small_family(number)).save(tmp_path / "d.jsonl")
    run, html, svg = tmp_path / "run", tmp_path / "r.html", tmp_path / "f.svg"
    scorers = ("baseline:length", "a <script>=baseline:label")
    assert carb("run", "--data", tmp_path / "d.jsonl", "--scorer", *scorers, "--out", run).code == 0
    assert carb("report", run, "--html", html, "--figure", svg).code == 0
    runs = read_runs([run])
    found = heat_map(content(runs), runs)
    assert isinstance(found, HeatMap)
    assert (found.won, found.comparisons) == (6.0, 12)
    page = html.read_text("utf-8")
    assert page.count('<rect class="right"') == 4
    assert found.table.question in page
    drawn = ElementTree.parse(svg).getroot()
    texts = "".join(drawn.itertext())
    assert "a <script>" in texts
    assert "50.0" in texts


class LastAnswer:
    """Likes the last answer best, which is wrong in every main set."""

    spec = ScorerSpec(name="last", kind="rule", revision="1", comparative=False)

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        results = []
        for request in requests:
            scores = {one.id: float(one.text.split()[1]) for one in request.candidates}
            results.append(ScoreResult(request_id=request.request_id, scores=scores))
        return results

    async def aclose(self) -> None:
        """Nothing is open."""


def test_the_first_screen_shows_a_model_before_a_baseline(tmp_path: Path) -> None:
    """A baseline that ranks first was drawn, beside a verdict on the model."""
    sets = [item for number in range(3) for item in small_family(number)]
    anyio.run(run, Dataset(sets), ["baseline:length", LastAnswer()], tmp_path / "run")
    runs = read_runs([tmp_path / "run"])
    report = content(runs)
    assert list(report.scorers) == ["baseline:length", "last"]
    assert report.verdict.startswith("last ")
    drawn = heat_map(report, runs)
    assert drawn is not None
    assert drawn.scorer == "last"


@pytest.mark.parametrize(("families", "first"), [(3, "share"), (12, "win")])
def test_the_first_chart_is_sorted_by_the_measure_that_it_shows_first(
    carb: Carb, tmp_path: Path, families: int, first: str
) -> None:
    """With too few families ranks are by accuracy, and the chart began with the place win rate."""
    sets = [item for number in range(families) for item in small_family(number)]
    Dataset(sets).save(tmp_path / "d.jsonl")
    scorers = ("baseline:length", "baseline:random", "baseline:label")
    run = tmp_path / "run"
    assert carb("run", "--data", tmp_path / "d.jsonl", "--scorer", *scorers, "--out", run).code == 0
    report = content(read_runs([run]))
    chart = chart_of(report)
    assert (report.ranked_by == "place_win") == chart["families"] == (first == "win")
    shown = [row[first].estimate for row in chart["rows"]]
    assert shown == sorted(shown, reverse=True)
    if first == "share":
        assert shown == [report.scorers[row["whole"]].overall.accuracy for row in chart["rows"]]


def test_accuracy_by_group_is_drawn(carb: Carb, tmp_path: Path) -> None:
    """A panel for each column with two groups; a point where the table has a share, and a bold
    mean."""
    sets = [small_set(n, language=("th", "ja")[n % 2]) for n in range(12)]
    Dataset(sets).save(tmp_path / "d.jsonl")
    run, html, svg = tmp_path / "run", tmp_path / "r.html", tmp_path / "f.svg"
    scorers = ("baseline:length", "a <script>=baseline:overlap")
    assert carb("run", "--data", tmp_path / "d.jsonl", "--scorer", *scorers, "--out", run).code == 0
    files = ("--html", html, "--figure", svg)
    assert carb("report", run, "--only", "groups", *files).code == 0
    report = content(read_runs([run]))
    drawn = panels(report)
    scripts = next(panel for panel in drawn if panel["title"] == "Script")
    assert scripts["groups"] == ["Jpan", "Thai"]
    shares = {line["name"]: line["shares"] for line in scripts["lines"]}
    by_script = report.scorers["baseline:length"].by_script
    assert shares["baseline:length"] == [by_script[name].accuracy for name in scripts["groups"]]
    assert len(scripts["mean"]) == 2
    root = ElementTree.parse(svg).getroot()
    texts = [node.text for node in root.iter() if node.tag.endswith("text")]
    for name in shares:  # beside the end of its line, in each panel
        assert texts.count(name) == len(drawn)
    assert "a <script>" in "".join(root.itertext())
    assert "<svg" in html.read_text("utf-8").partition('id="groups"')[2].partition("</details>")[0]


def test_a_folder_is_refused_before_anything_is_computed(carb: Carb, tmp_path: Path) -> None:
    ended = carb("report", tmp_path / "no-run", "--html", tmp_path)
    assert ended.code == 2
    assert str(tmp_path) in ended.err
    assert "folder" in ended.err


def test_places_have_names_of_one_form() -> None:
    """Thai stood beside Egypt."""
    names = {place_name(item) for item in load("carb-seed") if item.family is not None}
    assert {"Thailand", "Japan", "Egypt", "Germany", "Vietnam"} <= names
    assert names.isdisjoint(culture.name for culture in cultures)
    assert "Vietnam · Huế" in names
    assert not [name for name in names if re.search("[A-Z]{2}-", name)], "no code is a name"
