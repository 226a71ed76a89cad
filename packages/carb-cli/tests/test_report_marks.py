"""Scorers that were told more than the set's text, the home line, and the version of the data."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from carb_cli.report.content import clearly_above, content, read_runs
from carb_cli.report.headline import verdict
from carb_cli.report.page import render
from carb_cli.report.payload import payload
from carb_cli.report.sections import leaderboard, sections
from carb_data import BonSet, Dataset, HomeLine, ScoreTable, home_line
from carb_metrics.rows import Cell
from carb_scorers.scorer import ScorerSpec
from cli_helpers import Carb, small_dataset, small_family

CONTROL = "book=baseline:length?facts=carb-seed"


def with_places(item: BonSet) -> BonSet:
    """The set with the culture of each answer."""
    cultures = ("english-us", "thai", "japanese", "french")
    answers = tuple(
        answer.model_copy(update={"culture": culture})
        for answer, culture in zip(item.responses, cultures, strict=True)
    )
    return item.model_copy(update={"responses": answers})


@pytest.fixture
def told_run(carb: Carb, tmp_path: Path) -> Path:
    """A run of a control, a scorer that is told the culture, and one that is not."""
    families = (with_places(item) for number in range(12) for item in small_family(number))
    Dataset(families).save(tmp_path / "data.jsonl")
    scorers = (CONTROL, "baseline:label", "baseline:length")
    ended = carb(
        "run", "--data", tmp_path / "data.jsonl", "--scorer", *scorers, "--out", tmp_path / "run"
    )
    assert ended.code == 0, ended.err
    return tmp_path / "run"


def test_told_scorers_are_marked_and_controls_stand_below_a_line(
    carb: Carb, told_run: Path
) -> None:
    runs = read_runs([told_run])
    report = content(runs)
    dumped = report.model_dump(mode="json")["scorers"]
    told = {name: part["told"] for name, part in dumped.items()}
    assert told == {"book": True, "baseline:label": True, "baseline:length": False}
    rows = leaderboard(report).rows
    first = [row[0].text for row in rows]
    assert first[-2:] == ["", "control"]
    assert rows[-1][1].whole == "book"
    assert "control" in rows[-2][1].text
    marks = {row[1].whole: row[1].small for row in rows if row[1].whole}
    assert marks["baseline:label"] == ("told the culture",)
    assert marks["book"] == ("control: shown facts",)
    assert marks["baseline:length"] == ()
    for text in (
        carb("report", told_run).out,
        carb("report", told_run, "--md", "-").out,
        carb("report", told_run, "--latex", "-").out,
        render(report, runs),
    ):
        assert "told the culture" in text
        assert "control: shown facts" in text


def test_the_summary_of_a_run_marks_controls_and_told_scorers(carb: Carb, told_run: Path) -> None:
    """Behind the run one looks first, and an open-book control stood there as any model."""
    data = told_run.with_name("data.jsonl")
    scorers = (CONTROL, "baseline:label", "baseline:length")
    again = carb("run", "--data", data, "--scorer", *scorers, "--out", told_run).out
    assert "  book (control: shown facts): place win rate" in again
    assert "  baseline:label (told the culture): place win rate" in again
    assert "  baseline:length: place win rate" in again


def test_a_control_without_the_facts_of_some_sets_is_named(carb: Carb, tmp_path: Path) -> None:
    """Where a run prints its numbers, and in the report that people read later."""
    known = with_places(small_family(1)[0])
    bare = known.model_copy(update={"id": "bare", "prompt": "?", "family": None})
    Dataset([known, bare]).save(tmp_path / "data.jsonl")
    out = tmp_path / "run"
    ended = carb("run", "--data", tmp_path / "data.jsonl", "--scorer", CONTROL, "--out", out)
    assert ended.code == 0, ended.err
    for text in (ended.out, carb("report", out).out):
        assert "without any: 1 (the first: 'bare'" in " ".join(text.split())


def test_the_verdict_marks_a_scorer_that_is_told_the_culture(told_run: Path) -> None:
    """The sentences that people quote named it as any other."""
    runs = read_runs([told_run])
    (record,) = runs.records
    label = tuple(one for one in record.scorers if one.spec.name == "baseline:label")
    scores = ScoreTable(runs.scores.frame.filter(pl.col("scorer") == "baseline:label"))
    alone = record.model_copy(update={"scorers": label})
    found = content(dataclasses.replace(runs, records=(alone,), scores=scores)).verdict
    assert found.count("baseline:label") == found.count("baseline:label (told the culture)") == 3


def test_the_gap_of_a_told_scorer_is_not_printed(told_run: Path) -> None:
    report = content(read_runs([told_run]))
    gaps = dict.fromkeys(["baseline:label", "book"])
    (section,) = sections(report.model_copy(update={"place_gap": gaps}), "families")
    table = next(table for table in section.tables if "implied" in table.title)
    assert all("told the culture" in row[3].text for row in table.rows)


def test_the_gap_is_null_for_a_scorer_that_thinks_about_a_named_culture(
    carb: Carb, tmp_path: Path
) -> None:
    named = [item for number in range(12) for item in small_family(number)]
    implied = [
        item.model_copy(
            update={
                "id": f"{item.id}-cues",
                "family": f"{item.family}-cues",
                "wording_of": item.family,
                "prompt": f"{item.prompt} (by its cues)",
            }
        )
        for item in named
    ]
    Dataset([*named, *implied]).save(tmp_path / "data.jsonl")
    scorers = ("baseline:random", "baseline:length")
    ended = carb(
        "run", "--data", tmp_path / "data.jsonl", "--scorer", *scorers, "--out", tmp_path / "run"
    )
    assert ended.code == 0, ended.err
    runs = read_runs([tmp_path / "run"])
    assert all(gap is not None for gap in content(runs).place_gap.values())
    (record,) = runs.records
    spec = ScorerSpec(
        name="baseline:random", kind="think", model="a-judge", parameters={"tell": "culture"}
    )
    thinks = record.scorers[0].model_copy(update={"spec": spec})
    told = record.model_copy(update={"scorers": (thinks, *record.scorers[1:])})
    gaps = content(dataclasses.replace(runs, records=(told,))).place_gap
    assert gaps["baseline:random"] is None
    assert gaps["baseline:length"] is not None


def test_accuracy_stands_beside_the_home_line(carb: Carb, told_run: Path) -> None:
    runs = read_runs([told_run])
    report = content(runs)
    line = home_line(runs.dataset)
    assert line.n
    assert report.home_line == line
    shown = f"{100 * (line.accuracy or 0):.1f}%"
    for form in ("--md", "--latex"):
        text = carb("report", told_run, form, "-").out.replace("\\", "")
        assert "home line" in text
        assert shown in text
        rows = [row for row in text.splitlines() if row.count("|") + row.count("&") > 2]
        chance, floor, line_row, border, control = rows[-5:]
        assert "chance" in chance
        assert "surface floor" in floor
        assert "home line" in line_row
        assert shown.removesuffix("%") in line_row
        assert "no rank" in border
        assert "book" in control
    names = [row[1].text for row in leaderboard(report).rows]
    assert names[-5:-2] == ["chance", "surface floor", "home line"]
    board = carb("report", told_run).out.partition("Leaderboard")[2]
    assert shown.removesuffix("%") in next(x for x in board.splitlines() if "home line" in x)
    assert "home line" in render(report, runs)
    assert report.floor is not None
    for test in report.floor.tests:
        low = report.scorers[test.scorer].overall.low
        if not test.group and (low is None or low <= (line.accuracy or 0)):
            assert test.above is not True


@pytest.mark.parametrize(("low", "home", "explains"), [(0.4, 0.5, 1), (0.6, 0.5, 0), (0.2, 0.5, 0)])
def test_the_verdict_says_where_preferring_home_explains_an_accuracy(
    told_run: Path, low: float, home: float, explains: int
) -> None:
    report = content(read_runs([told_run]))
    part = report.scorers["baseline:length"]
    overall = part.overall.model_copy(update={"estimate": 0.7, "accuracy": 0.7, "low": low})
    changes = {
        "scorers": report.scorers
        | {"baseline:length": part.model_copy(update={"overall": overall})},
        "home_line": HomeLine(accuracy=home, n=12),
    }
    assert report.dataset.chance == 0.25
    assert verdict(report.model_copy(update=changes)).count("explains it") == explains


def test_the_home_line_stands_in_every_table_of_accuracy(carb: Carb, told_run: Path) -> None:
    runs = read_runs([told_run])
    report = content(runs)
    groups, floor = (sections(report, name)[0] for name in ("groups", "floor"))
    line = report.home_by["culture"]["english"]
    assert line == home_line(runs.dataset)
    cultures = next(table for table in groups.tables if table.title == "Cultures")
    last = cultures.rows[-1]
    assert last[0].text == "home line"
    assert last[1].text == f"{100 * (line.accuracy or 0):.1f}"
    assert "The home line is" in floor.finding
    (cells,) = sections(report, "cells")
    at_home = cells.tables[0]
    assert "home line" in at_home.title
    ((english, *shown),) = at_home.rows
    assert english.text == "English"
    for domain, cell in zip(at_home.columns[1:], shown, strict=True):
        known = report.home_by["culture_domain"][f"english/{domain}"]
        assert known == home_line(item for item in runs.dataset if item.domain == domain)
        assert cell.text == f"{100 * (known.accuracy or 0):.1f}"
    pair = (f"{told_run}#book", f"{told_run}#baseline:length")
    compared = carb("compare", *pair)
    assert "home line" in compared.out
    assert "book (control: shown facts)" in compared.out
    assert carb("compare", *pair, "--json").json["home_line"] == line.accuracy
    added = carb("results", "add", told_run, "--out", told_run / "results", "--json").json
    assert added["numbers"][0]["home_line"] == line.model_dump()
    printed = carb("results", "add", told_run, "--out", told_run / "results").out
    told = next(row for row in printed.splitlines() if "told the culture" in row)
    assert told.index("place win rate") < told.index("accuracy") < told.index("home line")


def test_pair_grids_and_the_set_browser_mark_controls(told_run: Path) -> None:
    runs = read_runs([told_run])
    report = content(runs)
    (pairs,) = sections(report, "pairs")
    for table in pairs.tables:
        assert "baseline:label (told the culture)" in table.columns
        assert "book (control: shown facts)" in table.columns
    packed = payload(report, runs).encoded
    scorers = json.loads(gzip.decompress(base64.b64decode(packed)))["scorers"]
    labels = {one["name"]: one["label"] for one in scorers}
    assert labels["book"] == "book (control: shown facts)"
    assert labels["baseline:length"] == "baseline:length"


@pytest.mark.parametrize(("low", "above"), [(0.26, True), (0.25, False), (None, False)])
def test_only_a_whole_interval_above_the_home_line_is_above_the_surface(
    low: float | None, above: bool
) -> None:
    line = HomeLine(accuracy=0.25, n=100)
    assert clearly_above(Cell(accuracy=0.5, low=low, high=0.7, n=100), line) is above
    assert clearly_above(Cell(), HomeLine(accuracy=None, n=0))


def test_no_home_line_where_answers_do_not_say_where_they_are_right(
    carb: Carb, tmp_path: Path
) -> None:
    small_dataset().save(tmp_path / "d.jsonl")
    carb(
        "run",
        "--data",
        tmp_path / "d.jsonl",
        "--scorer",
        "baseline:length",
        "--out",
        tmp_path / "r",
    )
    report = json.loads(carb("report", tmp_path / "r", "--json", "-").out)
    assert report["home_line"] is None


def test_the_record_has_the_version_of_the_seed(carb: Carb, tmp_path: Path) -> None:
    run = tmp_path / "run"
    ended = carb(
        "run", "--data", "carb-seed", "--limit", 4, "--scorer", "baseline:length", "--out", run
    )
    assert ended.code == 0, ended.err
    record = json.loads((run / "run.json").read_text(encoding="utf-8"))
    assert record["dataset"]["names"] == ["carb-seed@3"]
    fingerprint = record["dataset"]["fingerprint"][:16]
    carb("results", "site", run, "--out", tmp_path / "site")
    index = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    for text in (
        carb("report", run, "--md", "-").out,
        carb("report", run, "--latex", "-").out,
        index,
    ):
        assert "carb-seed@3" in text
        assert fingerprint in text


def test_a_folder_of_runs_stands_for_its_runs(carb: Carb, tmp_path: Path) -> None:
    small_dataset().save(tmp_path / "d.jsonl")
    for name in ("length", "random"):
        carb(
            "run",
            "--data",
            tmp_path / "d.jsonl",
            "--scorer",
            f"baseline:{name}",
            "--out",
            tmp_path / "suite" / name,
        )
    suite = tmp_path / "suite"
    report = json.loads(carb("report", suite, "--json", "-").out)
    assert set(report["scorers"]) == {"baseline:length", "baseline:random"}
    both = carb("compare", suite, "--json").json
    assert {both["a"], both["b"]} == {"baseline:length", "baseline:random"}
    assert carb("compare", f"{suite}#length", f"{suite}#random", "--json").json["n"] == both["n"]
    added = carb("results", "add", suite, "--out", tmp_path / "results", "--json").json
    assert len(added["folders"]) == 2
