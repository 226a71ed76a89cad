"""Entries of a leaderboard: what they hold, and that no number gets in which does not follow from
its rows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from carb_cli.results.entry import (
    ENTRY,
    ROWS,
    candidates,
    check,
    entries_of,
    found_in,
    holding,
    read,
)
from carb_cli.runs import scores_of
from carb_data import CarbError, Dataset
from carb_metrics import bon_accuracy
from cli_helpers import Carb, small_dataset, small_family


@pytest.fixture
def results(carb: Carb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    small_dataset(30).save("data.jsonl")
    run = (
        "run",
        "--data",
        "data.jsonl",
        "--scorer",
        "baseline:length",
        "--scorer",
        "baseline:random",
        "--out",
        "run",
    )
    assert carb(*run).code == 0
    assert carb("results", "add", "run").code == 0
    return tmp_path / "results"


def changed(folder: Path, **changes: object) -> None:
    content = json.loads((folder / ENTRY).read_text()) | changes
    (folder / ENTRY).write_text(json.dumps(content))


def test_an_entry_says_what_the_run_says(results: Path, carb: Carb) -> None:
    ended = carb("results", "check", "--data", "data.jsonl")
    assert ended.code == 0
    assert ended.out.count("confirmed from its rows: accuracy ") == 2
    confirmed = carb("results", "check", "--data", "data.jsonl", "--json").json["entries"]
    assert [one["confirmed"]["sets"] for one in confirmed] == [30, 30]
    folders = found_in(results)
    assert len(folders) == 2
    for folder in folders:
        entry, rows = read(folder)
        assert rows.height == 120
        assert entry.numbers.sets == 30
        assert entry.run.command[:2] == ("carb", "run")
        dataset = holding(rows, candidates([small_dataset(30)]))
        assert dataset is not None
        whole = {e.name: e for e, _ in entries_of(Path("run"))}[entry.name]
        assert whole.numbers == entry.numbers
        assert entry.numbers.accuracy == bon_accuracy(scores_of(Path("run")), by=("scorer",)).cell(
            entry.name
        )


@pytest.mark.parametrize(
    "place", [("numbers", "accuracy", "accuracy"), ("numbers", "sets"), ("numbers", "failed")]
)
def test_a_number_that_does_not_follow_is_named(
    results: Path, carb: Carb, place: tuple[str, ...]
) -> None:
    folder = found_in(results)[0]
    content = json.loads((folder / ENTRY).read_text())
    part = content
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] += 1
    (folder / ENTRY).write_text(json.dumps(content))
    ended = carb("results", "check", "--data", "data.jsonl", "--json")
    assert ended.code == 1
    problems = [one["problems"] for one in ended.json["entries"]]
    assert [len(found) for found in problems] == [1, 0]
    assert ".".join(place) in problems[0][0]


def rewritten(folder: Path, frame: pl.DataFrame) -> None:
    import hashlib

    frame.write_parquet(folder / ROWS)
    changed(folder, rows_sha256=hashlib.sha256((folder / ROWS).read_bytes()).hexdigest())


def test_gaps_doubles_and_strangers_among_rows_are_named(results: Path) -> None:
    folder = found_in(results)[0]
    _, rows = read(folder)
    known = candidates([small_dataset(30)], builtin=())
    rewritten(folder, rows.head(119))
    assert "1 responses have no row" in check(folder, known).problems[0]
    rewritten(folder, pl.concat([rows, rows.head(1)]))
    assert "1 rows are there twice" in check(folder, known).problems[0]
    stranger = rows.head(1).with_columns(pl.lit("nobody").alias("response_id"))
    rewritten(folder, pl.concat([rows, stranger]))
    assert "1 rows are of no response" in check(folder, known).problems[0]
    rewritten(folder, rows.rename({"score": "points"}))
    assert "must have the columns" in check(folder, known).problems[0]
    rewritten(folder, rows.with_columns(pl.lit(float("inf")).alias("score")))
    assert "infinite" in check(folder, known).problems[0]


def test_a_wrong_file_is_an_error_and_no_traceback(results: Path, carb: Carb) -> None:
    folder = found_in(results)[0]
    (folder / ROWS).write_bytes(b"PAR1 not really")
    assert "sha256" in check(folder, []).problems[0]
    changed(folder, rows_sha256="x", numbers={"sets": "many"})
    assert "is not a valid entry" in check(folder, []).problems[0]
    (folder / ROWS).unlink()
    assert "is missing" in check(folder, []).problems[0]
    ended = carb("results", "check", "nowhere")
    assert ended.code == 2
    assert "carb results add" in ended.err


def test_a_site_shows_the_newest_of_each_scorer(results: Path, carb: Carb, tmp_path: Path) -> None:
    again = ("run", "--data", "data.jsonl", "--scorer", "baseline:length", "--out", "again")
    assert carb(*again).code == 0
    ended = carb("results", "site", results, "again", "--data", "data.jsonl", "--out", "site")
    assert ended.code == 0, ended
    assert "1 report" in ended.out
    index = (tmp_path / "site" / "index.html").read_text()
    assert index.count('<table class="place">') == 1, "the first picture of each data set"
    assert index.count("<tbody>") == 1
    links = re.findall(r'<a href="([^"#]*)"', index)
    assert len(links) == 2, "the report as HTML and as JSON"
    assert all((tmp_path / "site" / link).is_file() for link in links)
    assert "--out again" in next((tmp_path / "site").glob("data-*.html")).read_text()
    found = json.loads(next((tmp_path / "site").glob("*.json")).read_text())
    assert sorted(found["scorers"]) == ["baseline:length", "baseline:random"]


def test_a_folder_of_runs_is_taken_for_a_site_and_named_for_entries(
    results: Path, carb: Carb, tmp_path: Path
) -> None:
    """The site refused a suite's own folder, and entries were to be made in the run's folder."""
    for name in ("length", "random"):
        scored = ("--scorer", f"baseline:{name}", "--out", f"suite/{name}")
        assert carb("run", "--data", "data.jsonl", *scored).code == 0
    assert carb("results", "site", "suite", "--out", "site").code == 0
    found = json.loads(next((tmp_path / "site").glob("*.json")).read_text())
    assert sorted(found["scorers"]) == ["baseline:length", "baseline:random"]
    for folder in ("suite", "suite/length"):
        ended = carb("results", "check", folder)
        assert f"carb results add {folder} --out results" in ended.err


def test_results_need_a_run(carb: Carb, tmp_path: Path) -> None:
    assert carb("results", "add").code == 2
    assert carb("results", "site").code == 2
    with pytest.raises(CarbError, match="holds no finished run"):
        entries_of(tmp_path)


def test_a_baseline_under_the_users_name_has_the_numbers_of_the_report(
    carb: Carb, tmp_path: Path
) -> None:
    data, out = tmp_path / "families.jsonl", tmp_path / "run"
    Dataset(item for n in range(8) for item in small_family(n)).save(data)
    run = ("run", "--data", data, "--scorer", "mine=baseline:length", "--out", out, "--json")
    (found,) = carb(*run).json["results"]
    rows = carb("report", out, "--json", "-").json["families"]["rows"]
    in_report = next(row["place_win"] for row in rows if row["group"] is None)
    assert found["place_win"] == in_report
    assert in_report["low"] == in_report["high"] == 0.5  # it cannot read the place
    assert carb("results", "add", out, "--out", tmp_path / "results").code == 0
    checked = carb("results", "check", tmp_path / "results", "--data", data, "--json").json
    assert checked["entries"][0]["confirmed"]["place_win"] == in_report
