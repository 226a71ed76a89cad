"""Entries of a leaderboard: what they hold, and that no number gets in which does not follow from its rows."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from carb_cli.results.entry import ENTRY, ROWS, Candidates, check, entries_of, found_in, read
from carb_data import CarbError, Dataset, Votes, content_hash
from carb_metrics import bon_accuracy
from cli_helpers import Carb, small_dataset


@pytest.fixture
def results(carb: Carb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    small_dataset(30).save("data.jsonl")
    run = ("run", "--data", "data.jsonl", "--scorer", "baseline:length", "--scorer", "baseline:random", "--out", "run")
    assert carb(*run).code == 0
    assert carb("results", "add", "run", "--relationship", "author", "--trained-on", "no").code == 0
    return tmp_path / "results"


def changed(folder: Path, **changes: object) -> None:
    content = json.loads((folder / ENTRY).read_text()) | changes
    (folder / ENTRY).write_text(json.dumps(content))


def test_an_entry_says_what_the_run_says(results: Path, carb: Carb) -> None:
    assert carb("results", "check", "--data", "data.jsonl").code == 0
    folders = found_in(results)
    assert len(folders) == 2
    for folder in folders:
        entry, rows = read(folder)
        assert (entry.relationship, entry.trained_on) == ("author", "no")
        assert rows.height == 120
        assert entry.numbers.sets == 30
        assert entry.run.command[:2] == ("carb", "run")
        dataset = Candidates([small_dataset(30)]).holding(rows)
        assert dataset is not None
        whole = {e.name: e for e, _ in entries_of(Path("run"))}[entry.name]
        assert whole.numbers == entry.numbers


def test_the_numbers_are_those_of_the_metrics(results: Path) -> None:
    from carb_cli.runs import scores_of

    for folder in found_in(results):
        entry, _ = read(folder)
        found = bon_accuracy(scores_of(Path("run")), by=("scorer",)).cell(entry.name)
        assert entry.numbers.accuracy == found


@pytest.mark.parametrize("place", [("numbers", "accuracy", "accuracy"), ("numbers", "sets"), ("numbers", "failed")])
def test_a_number_that_does_not_follow_is_named(results: Path, carb: Carb, place: tuple[str, ...]) -> None:
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


def test_rows_of_other_content_are_of_no_data(results: Path) -> None:
    other = Dataset(item.model_copy(update={"prompt": "Another question?"}) for item in small_dataset(30))
    (problem,) = check(found_in(results)[0], Candidates([other], builtin=()))
    assert "not in this version of the data" in problem


def rewritten(folder: Path, frame: pl.DataFrame) -> None:
    import hashlib

    frame.write_parquet(folder / ROWS)
    changed(folder, rows_sha256=hashlib.sha256((folder / ROWS).read_bytes()).hexdigest())


def test_gaps_doubles_and_strangers_among_rows_are_named(results: Path) -> None:
    folder = found_in(results)[0]
    _, rows = read(folder)
    candidates = Candidates([small_dataset(30)], builtin=())
    rewritten(folder, rows.head(119))
    assert "1 responses have no row" in check(folder, candidates)[0]
    rewritten(folder, pl.concat([rows, rows.head(1)]))
    assert "1 rows are there twice" in check(folder, candidates)[0]
    stranger = rows.head(1).with_columns(pl.lit("nobody").alias("response_id"))
    rewritten(folder, pl.concat([rows, stranger]))
    assert "1 rows are of no response" in check(folder, candidates)[0]
    rewritten(folder, rows.rename({"score": "points"}))
    assert "must have the columns" in check(folder, candidates)[0]
    rewritten(folder, rows.with_columns(pl.lit(float("inf")).alias("score")))
    assert "infinite" in check(folder, candidates)[0]


def test_a_wrong_file_is_an_error_and_no_traceback(results: Path, carb: Carb) -> None:
    folder = found_in(results)[0]
    (folder / ROWS).write_bytes(b"PAR1 not really")
    assert "sha256" in check(folder, Candidates())[0]
    changed(folder, rows_sha256="x", numbers={"sets": "many"})
    assert "is not a valid entry" in check(folder, Candidates())[0]
    (folder / ROWS).unlink()
    assert "is missing" in check(folder, Candidates())[0]
    ended = carb("results", "check", "nowhere")
    assert ended.code == 2
    assert "carb results add" in ended.err


def test_an_entry_in_the_place_of_another_is_named(results: Path) -> None:
    first, second = found_in(results)
    for name in (ENTRY, ROWS):
        (first / name).write_bytes((second / name).read_bytes())
    assert "must be in a folder" in check(first, Candidates([small_dataset(30)], builtin=()))[0]


def test_an_entry_is_not_replaced_unless_asked(results: Path, carb: Carb) -> None:
    ended = carb("results", "add", "run")
    assert ended.code == 2
    assert "--replace" in ended.err
    assert carb("results", "add", "run", "--replace").code == 0


def test_votes_and_notes_do_not_change_what_a_set_asks() -> None:
    item = small_dataset(1)["set-0"]
    voted = item.model_copy(
        update={"responses": tuple(r.model_copy(update={"votes": Votes(asked=3, right=1)}) for r in item.responses)}
    )
    assert content_hash(voted) == content_hash(item)
    assert content_hash(item.model_copy(update={"responses": item.responses[::-1]})) == content_hash(item)
    assert content_hash(item.model_copy(update={"prompt": "Other?"})) != content_hash(item)
    assert content_hash(item.model_copy(update={"culture": "japanese"})) != content_hash(item)


def test_a_site_shows_the_newest_of_each_scorer(results: Path, carb: Carb, tmp_path: Path) -> None:
    again = ("run", "--data", "data.jsonl", "--scorer", "baseline:length", "--out", "again")
    assert carb(*again).code == 0
    ended = carb("results", "site", results, "again", "--data", "data.jsonl", "--out", "site")
    assert ended.code == 0, ended
    assert "1 report" in ended.out
    index = (tmp_path / "site" / "index.html").read_text()
    assert index.count("<tbody>") == 1
    assert "--out again" in next((tmp_path / "site").glob("data-*.html")).read_text()
    found = json.loads(next((tmp_path / "site").glob("*.json")).read_text())
    assert sorted(found["scorers"]) == ["baseline:length", "baseline:random"]


def test_a_site_names_the_entries_whose_data_have_changed(results: Path, carb: Carb, tmp_path: Path) -> None:
    Dataset(item.model_copy(update={"prompt": "Changed?"}) for item in small_dataset(30)).save("data.jsonl")
    run = ("run", "--data", "data.jsonl", "--scorer", "baseline:length", "--out", "new")
    assert carb(*run).code == 0
    assert carb("results", "site", results, "new", "--data", "data.jsonl", "--out", "site").code == 0
    shown, left = (tmp_path / "site" / "index.html").read_text().split("their data are not here or have changed")
    assert "baseline:random" not in shown
    assert "baseline:random on data" in left


def test_a_site_takes_no_entry_that_does_not_follow(results: Path, carb: Carb) -> None:
    folder = found_in(results)[0]
    content = json.loads((folder / ENTRY).read_text())
    content["numbers"]["accuracy"]["accuracy"] = 0.99
    (folder / ENTRY).write_text(json.dumps(content))
    ended = carb("results", "site", results, "--data", "data.jsonl", "--out", "site")
    assert ended.code == 2
    assert "its rows give" in ended.err


def test_results_need_a_run(carb: Carb, tmp_path: Path) -> None:
    assert carb("results", "add").code == 2
    assert carb("results", "site").code == 2
    with pytest.raises(CarbError, match="holds no finished run"):
        entries_of(tmp_path)


def test_an_entry_names_the_sets_that_its_accuracy_is_of(
    carb: Carb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = ("run", "--data", "carb-seed@2", "--limit", "20", "--scorer", "baseline:length", "--out", "run")
    scored = carb(*run)
    assert scored.code == 0
    said = carb("results", "add", "run", "--relationship", "author", "--trained-on", "no").out
    (folder,) = found_in(tmp_path / "results")
    counted = read(folder)[0].numbers.accuracy.n
    assert counted < 20
    assert f"of {counted} main sets" in said
    assert f"Shares are of the {counted} main sets" in scored.out
    assert carb("results", "site", "results", "--out", "site").code == 0
    assert f'<td data-v="{counted}">{counted}</td>' in Path("site/index.html").read_text()
