"""``carb report``: content, sections, figures, page and site."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import re
import shlex
import shutil
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import anyio
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_cli.labels import LONGEST, labels
from carb_cli.report.content import Runs, content, read_runs
from carb_cli.report.headline import verdict
from carb_cli.report.page import csp_hash, render
from carb_cli.report.payload import payload
from carb_cli.report.report_json import Report
from carb_cli.report.sections import SECTIONS, sections
from carb_cli.report.shown import JudgeTexts, sent
from carb_cli.runs import only
from carb_data import BonSet, Dataset, Kind, Message, ScoreTable, cultures
from carb_data.models import Citation
from carb_metrics import bon_accuracy, breakdown, compare, judge_bias, rank
from carb_metrics.rows import Cell, Interval
from carb_scorers import ScoreRequest, ScoreResult, ScorerSpec
from carb_scorers.blind import request_name
from carb_scorers.run import run
from cli_helpers import BASELINES, Carb, small_dataset, small_family, small_set

LINES = ("chance", "surface floor", "home line")
"""The rows of a table for papers that are no scorers."""

CELL = set(Cell().model_dump())


@pytest.fixture(scope="session")
def report(finished_run: Path) -> Report:
    return content(read_runs([finished_run]))


@pytest.fixture(scope="session")
def found(report: Report) -> dict[str, Any]:
    return report.model_dump(mode="json")


@pytest.fixture(scope="session")
def page(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    from carb_cli import main

    path = tmp_path_factory.mktemp("page") / "report.html"
    assert main(["report", str(finished_run), "--html", str(path)]) == 0
    return path.read_text(encoding="utf-8")


def unpack(page: str) -> dict[str, Any]:
    packed = re.search(r'<script type="text/plain" id="payload">([A-Za-z0-9+/=]*)</script>', page)
    assert packed is not None
    return json.loads(gzip.decompress(base64.b64decode(packed[1])))


def rescored(runs: Runs, score: pl.Expr) -> Runs:
    return dataclasses.replace(
        runs, scores=ScoreTable(runs.scores.frame.with_columns(score.alias("score")))
    )


def run_of(carb: Carb, folder: Path, *sets: BonSet, failed: str = "") -> Path:
    """A run of two baselines, of which length failed on the set ``failed``."""
    Dataset(sets).save(folder / "data.jsonl")
    out = folder / "run"
    ended = carb(
        "run",
        "--data",
        folder / "data.jsonl",
        "--scorer",
        "baseline:length",
        "baseline:label",
        "--out",
        out,
    )
    assert ended.code == 0, ended.err
    frame = ScoreTable.load(out / "scores.parquet").frame
    lost = (pl.col("item_id").cast(pl.String) == failed) & (
        pl.col("scorer").cast(pl.String) == "baseline:length"
    )
    ScoreTable(frame.with_columns(pl.when(~lost).then("score").alias("score"))).save(
        out / "scores.parquet"
    )
    return out


def test_json_has_the_promised_keys(found: dict[str, Any]) -> None:
    assert found["schema"] == "carb.report/1"
    assert {
        "verdict",
        "dataset",
        "scorers",
        "families",
        "pairs",
        "floor",
        "failures",
        "items",
        "judges",
        "people",
    } <= {*found}
    assert set(found["scorers"]) == set(BASELINES)
    for scorer in found["scorers"].values():
        assert set(scorer["overall"]) == set(scorer["macro"]) == CELL
        for key in (
            "by_culture",
            "by_domain",
            "by_culture_domain",
            "by_resource_class",
            "by_family",
            "by_script",
        ):
            assert all(set(cell) == CELL for cell in scorer[key].values())
            assert sum(cell["n"] for cell in scorer[key].values()) == scorer["overall"]["n"] == 80
        assert sum(cell["n"] for cell in scorer["by_kind"].values()) == 80
    Report.model_validate(found)


def test_numbers_are_those_of_the_metrics(found: dict[str, Any], finished_run: Path) -> None:
    dataset = read_runs([finished_run]).dataset
    table = ScoreTable.load(finished_run / "scores.parquet").with_items(dataset)
    accuracy, parts = bon_accuracy(table, by=("scorer",)), breakdown(table)
    ranks = {row.scorer: row.standing.rank for row in rank(table, dataset=dataset).scorers}
    for name, scorer in found["scorers"].items():
        assert scorer["overall"] == accuracy.cell(name).model_dump()
        assert scorer["by_culture"]["thai"] == parts.by_culture.cell(name, "thai").model_dump()
        assert scorer["rank"]["rank"] == ranks[name]
    order = [scorer["overall"]["accuracy"] for scorer in found["scorers"].values()]
    assert order == sorted(order, reverse=True)
    frame = table.frame.filter(pl.col("culture") == "thai")
    alone = judge_bias(ScoreTable(frame), dataset=dataset)
    thai = found["judges"]["bias_by_culture"]["thai"]["scorers"]
    assert [row["length"]["estimate"] for row in thai] == [
        row.length.estimate for row in alone.scorers
    ]
    floor = found["floor"]["rows"][0]
    assert floor["group"] == {}
    assert floor["floor"]["accuracy"] >= max(
        floor["predictors"]["baseline:length"], floor["chance"]
    )
    for pair in found["pairs"]:
        same = compare(only(table, pair["a"]), only(table, pair["b"]))
        expected = pytest.approx([same.n, same.difference, same.low, same.high, same.p])
        assert [pair[k] for k in ("n", "difference", "low", "high", "p")] == expected


def test_families_are_read_whole_and_stand_first(carb: Carb, tmp_path: Path) -> None:
    run = run_of(carb, tmp_path, *(item for n in range(12) for item in small_family(n)))
    runs = read_runs([run])
    right = (pl.col("role").cast(pl.String) == "chosen").cast(pl.Float64)
    for sign, says in (
        (1, "reads the place: its place win rate is 100.0%"),
        (0, "shown to read the place"),
        (-1, "wrong way"),
    ):
        made = content(rescored(runs, sign * right))
        assert made.families is not None
        assert made.ranked_by == "place_win"
        row = made.families.of("baseline:label")
        headline = made.verdict.splitlines()[0]
        assert says in headline
        assert f"{100 * (row.row.estimate or 0):.1f}%" in headline
        assert row.place_win.estimate == (1 + sign) / 2
    out = carb("report", run).out
    assert out.index("place win %") < out.index("accuracy %")
    text = render(made, runs)
    assert (
        text.index('class="verdict"') < text.index('class="place"') < text.index('id="leaderboard"')
    )
    assert text.count('class="mark"') == 2 * len(made.scorers), "chance is marked in both panels"
    dumped = row.model_dump()
    assert {"scorer", "group", "families", "row", "place_win"} <= set(dumped)
    assert not {"column", "matching", "place_effect"} & set(dumped)
    for name in ("row", "place_win"):
        assert list(dumped[name]) == ["estimate", "low", "high", "p", "n"]


def test_the_headline_corrects_over_models_and_names_no_effect_that_cannot_be(
    carb: Carb, tmp_path: Path
) -> None:
    runs = read_runs(
        [run_of(carb, tmp_path, *(item for n in range(6) for item in small_family(n)))]
    )
    made = content(runs)
    assert made.families is not None
    few = content(read_runs([run_of(carb, tmp_path / "few", *small_family(0))]))
    assert few.ranked_by == "accuracy"

    def said(
        p: float,
        other: float = 0.04,
        confidence: float = 0.95,
        words: float | None = None,
        if_lost: float | None = None,
        **changes: float,
    ) -> str:
        rates = {
            "baseline:label": {"estimate": 0.6, "low": 0.5, "high": 0.7, "p": p} | changes,
            "baseline:length": {"estimate": 0.55, "low": 0.45, "high": 0.65, "p": other},
        }
        rows = made.families.rows if made.families else ()
        rows = tuple(
            row.model_copy(update={"place_win": Interval(**rates[row.scorer])}) for row in rows
        )
        if if_lost is not None:
            least = Interval(estimate=if_lost, low=if_lost - 0.04, high=if_lost + 0.04)
            failed = {"failed": 2, "comparisons": 9, "place_win_if_lost": least}
            label = rows[[row.scorer for row in rows].index("baseline:label")]
            rows = tuple(row.changed(**failed) if row is label else row for row in rows)
        families = made.families.model_copy(update={"rows": rows}) if made.families else None
        shared = {"shared_words": Interval(estimate=words), "families": families}
        changed = made.model_copy(update=shared | {"confidence": confidence})
        return verdict(changed).splitlines()[0]

    none = said(0.03)
    assert none.startswith("No scorer is shown to read the place. ")
    assert "60.0% [50.0 – 70.0], that of baseline:label" in none
    assert "corrects for 2 scorers" in none
    assert "above about 64.3%" in none
    assert "above about 66.6%" in said(0.9, 0.9, confidence=0.8), "the interval's own level counts"
    assert "few families cannot show one" in said(0.5, low=0.1, high=1.0)
    reads, small = said(0.02), said(0.001, 0.9, estimate=0.51)
    assert reads.startswith("baseline:label (told the culture) reads the place: ")
    assert "60.0% [50.0 – 70.0]" in reads.split(". ")[0]
    assert small.startswith("baseline:label (told the culture) is not shown to read the place: ")
    assert "below 52.0%" in small
    assert said(0.02, words=0.5) == reads
    beyond = said(0.02, words=0.51)
    assert beyond.startswith(
        "baseline:label (told the culture) is not shown to read the place beyond shared words"
    )
    assert "share reach 51.0%" in beyond
    hidden = said(0.001, 0.9, if_lost=0.52, low=0.57)
    assert hidden.startswith("baseline:label (told the culture) is not shown to read the place: ")
    assert "2 of 9 comparisons failed" in hidden
    assert "52.0% [48.0 – 56.0]" in hidden
    assert said(0.001, 0.9, if_lost=0.55, low=0.57).startswith(
        "baseline:label (told the culture) reads the place: "
    )
    assert "beyond shared words" in said(0.001, 0.9, words=0.52, if_lost=0.55, low=0.57)
    honest = said(0.001, 0.001, if_lost=0.52, low=0.57)
    assert honest.startswith("baseline:length reads the place: "), "not hidden by one that fails"
    for text in (none, reads, small, hidden, made.verdict):
        for sentence in text.replace("\n", " ").split(". "):
            assert len(sentence.split()) <= 25, sentence
    assert said(0.5, estimate=0.1).startswith("No scorer")


def test_four_columns_fit_a_terminal_of_80(
    carb: Carb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(carb, tmp_path, *(item for n in range(8) for item in small_family(n)))
    monkeypatch.setattr("carb_cli.display.console.width", 80)
    out = carb("report", run).out
    first, rest = out.split("More of each scorer")
    (head,) = (line for line in first.splitlines() if "rank" in line)
    assert head.split() == ["rank", "scorer", "place", "win", "%", "accuracy", "%"]
    assert "strict %" not in first
    assert "50.0 [blind]" in first, "a width of zero is no interval"
    assert "50.0 – 50.0" not in first
    assert read_runs([run]).dataset.fingerprint[:16] in rest
    assert all(len(line) <= 80 for line in first.partition("Leaderboard")[2].splitlines())
    for name in ("row accuracy %", "strict %", "main sets", "ties", "errors"):
        assert name in rest or name.split()[0] in rest


def test_groups_of_too_few_clusters_are_not_shown(carb: Carb, tmp_path: Path) -> None:
    """Two families of one kind are no row, though a blind baseline has an exact number there."""
    kinds = ["custom"] * 6 + ["taboo"] * 6 + ["word"] * 2
    items = [
        item.model_copy(update={"kind": Kind(kind)})
        for n, kind in enumerate(kinds)
        for item in small_family(n)
    ]
    report = content(read_runs([run_of(carb, tmp_path, *items)]))
    assert report.families is not None
    assert {"custom", "taboo", "word"} <= {row.group for row in report.families.rows}
    (made,) = sections(report, "families")
    by_group = next(table for table in made.tables if "by domain and kind" in table.title)
    assert "word" not in by_group.columns
    assert {"custom", "taboo"} <= {*by_group.columns}


def test_colours_are_corrected_over_their_table(report: Report) -> None:
    """Twenty cells of which each alone would leave out chance are noise; one that is clear is
    coloured."""
    shares = [*[0.36] * 19, 0.7]
    cells = {
        f"c{n:02}": Cell(accuracy=at, low=at - 0.1, high=at + 0.1, n=70)
        for n, at in enumerate(shares)
    }
    name = next(iter(report.scorers))
    part = report.scorers[name].model_copy(update={"by_kind": cells})
    (made,) = sections(report.model_copy(update={"scorers": {name: part}}), "groups")
    (kinds,) = (table for table in made.tables if table.title == "Kinds of fact")
    assert [cell.heat for cell in kinds.rows[0][1:]] == [*[""] * 19, "up"]


def test_one_section_is_shown_alone(carb: Carb, finished_run: Path, tmp_path: Path) -> None:
    made = {section.name: section for section in sections(content(read_runs([finished_run])))}
    assert set(made) <= set(SECTIONS)
    for name, section in made.items():
        out = carb("report", finished_run, "--only", name).out
        assert out.startswith(section.title)
        assert all(table.title in out for table in section.tables)
    carb("report", finished_run, "--only", "floor", "--html", tmp_path / "r.html")
    parts = re.findall(
        r'<details class="part" id="(\w+)"', (tmp_path / "r.html").read_text(encoding="utf-8")
    )
    assert parts == ["floor", "sets", "methods"]
    wrong = carb("report", finished_run, "--only", "nothing")
    assert wrong.code == 2
    assert "families, pairs, floor" in wrong.err


def test_the_verdict_tells_models_from_baselines_and_names_failures(
    report: Report, finished_run: Path
) -> None:
    assert "Baselines read nothing but the surface, which reaches" in report.verdict
    runs = read_runs([finished_run])
    record = runs.records[0]
    judges = tuple(
        one.model_copy(
            update={
                "spec": one.spec.model_copy(update={"kind": "judge", "name": one.spec.name[9:]})
            }
        )
        for one in record.scorers
    )
    judges = (*judges[:-1], judges[-1].model_copy(update={"label_mass": 0.17}))
    frame = runs.scores.frame.with_columns(
        pl.col("scorer").cast(pl.String).str.strip_prefix("baseline:")
    )
    records = (record.model_copy(update={"scorers": judges}),)
    models = dataclasses.replace(runs, records=records, scores=ScoreTable(frame))
    said = content(models).verdict
    assert "with so few sets it cannot be shown that a scorer is above it" in said
    assert "clearly above it" not in said
    assert "Baselines" not in said
    assert "only 17.0% of its probability is on the allowed answers" in said
    first = pl.col("item_id").cast(pl.String).is_in([item.id for item in list(runs.dataset)[:8]])
    lost = (pl.col("scorer").cast(pl.String) == "random") & first
    assert (
        "failed on 8 of 80 sets (10.0%)"
        in content(rescored(models, pl.when(~lost).then("score"))).verdict
    )


def test_a_scorer_without_a_score_is_not_ranked(finished_run: Path) -> None:
    gone = "baseline:length"
    failed = rescored(
        read_runs([finished_run]), pl.when(pl.col("scorer") != gone).then(pl.col("score"))
    )
    report = content(failed)
    assert report.scorers[gone].rank.text == "–"
    cells = [
        report.scorers[gone].overall,
        report.scorers[gone].macro,
        *report.scorers[gone].by_culture.values(),
    ]
    assert {(one.accuracy, one.strict, one.low, one.n == one.errors) for one in cells} == {
        (None, None, None, True)
    }
    assert all(part.rank.rank is not None for name, part in report.scorers.items() if name != gone)
    assert gone not in {name for pair in report.pairs for name in (pair.a, pair.b)}
    assert list(report.scorers)[-1] == gone
    assert f"{gone} failed on every set" in report.verdict
    assert "None" not in re.sub(r"<script.*?</script>", "", render(report, failed), flags=re.DOTALL)


def test_a_section_of_which_the_runs_hold_nothing_is_said(carb: Carb, tmp_path: Path) -> None:
    small_dataset().without_perturbed().save(tmp_path / "d.jsonl")
    command = ("run", "--data", tmp_path / "d.jsonl", "--scorer", "baseline:length", "--out")
    assert carb(*command, tmp_path / "run").code == 0
    ended = carb("report", tmp_path / "run", "--only", "perturbations")
    assert (ended.code, "perturbations" in ended.err) == (2, True)


def test_a_line_break_in_the_datas_name_stays_in_the_latex_comment(
    carb: Carb, tmp_path: Path
) -> None:
    data, run = tmp_path / "a\nmarked.jsonl", tmp_path / "run"
    small_dataset().save(data)
    assert carb("run", "--data", data, "--scorer", "baseline:length", "--out", run).code == 0
    lines = carb("report", run, "--latex", "-").out.splitlines()
    assert [line[:2] for line in lines if "marked" in line] == ["% "]


def test_a_section_is_written_for_papers(carb: Carb, finished_run: Path, tmp_path: Path) -> None:
    """Culture by domain of each scorer, in Markdown and LaTeX."""
    latex, markdown = tmp_path / "t.tex", tmp_path / "t.md"
    files = ("--latex", latex, "--md", markdown)
    assert carb("report", finished_run, "--only", "cells", *files).code == 0
    report = content(read_runs([finished_run]))
    for name, part in report.scorers.items():
        for key, cell in part.by_culture_domain.items():
            culture, domain = key.split("/")
            for text in (latex.read_text("utf-8"), markdown.read_text("utf-8")):
                assert name in text
                assert cultures.name(culture) in text
                assert domain in text
                assert f"{100 * cell.accuracy:.1f} [" in text.replace("\\", "")


def test_the_papers_relative_change_stands_beside_the_deviations(report: Report) -> None:
    """It stood in the JSON alone, where the paper's numbers could not be held against a table."""
    (section,) = sections(report, "perturbations")
    (table,) = section.tables
    (row,) = (row for row in table.rows if row[0].whole == "baseline:length")
    known = report.scorers["baseline:length"].perturbation["CC"]
    assert known.relative.estimate is not None
    shown = dict(zip(table.columns, (cell.text for cell in row), strict=True))
    assert shown["CC change"] == f"{known.spread.estimate:.2f}"
    assert shown["CC relative %"] == f"{100 * known.relative.estimate:.1f}"


def test_forms_for_programs_and_papers(
    carb: Carb, finished_run: Path, found: dict[str, Any], tmp_path: Path
) -> None:
    ended = carb("report", finished_run, "--json", "-")
    assert ended.json == found
    assert ended.err == ""
    lines = carb("report", finished_run, "--md", "-").out.strip().splitlines()[2:]
    assert len({re.sub(r"\\.", "", line).count("|") for line in lines}) == 1
    names = [line.split("|")[2].strip() for line in lines[2:]]
    mark = " \\[told the culture\\]"
    assert names == [
        *(f"{name}{mark if part['told'] else ''}" for name, part in found["scorers"].items()),
        *LINES,
    ]
    tex = carb("report", finished_run, "--latex", "-").out
    assert "Accuracy counts 80 main sets" in tex
    assert tex.count(r"\\") == 1 + len(BASELINES) + len(LINES)
    assert not re.search(r"(?<!\\)[%&_#$]", tex.split("\n", 1)[1].replace(" & ", " "))
    files = {"--json": "r.json", "--md": "r.md", "--latex": "r.tex"}
    folder = tmp_path / "new" / "folder"
    ended = carb(
        "report", finished_run, *(part for o, name in files.items() for part in (o, folder / name))
    )
    assert ended.code == 0
    assert json.loads((folder / "r.json").read_text(encoding="utf-8")) == found
    assert all(f"Written: {folder / name}" in ended.out for name in files.values())


def test_the_page_holds_nothing_that_its_policy_would_stop(page: str) -> None:
    style = re.search(r"<style>(.*?)</style>", page, flags=re.DOTALL)
    script = re.search(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert style is not None
    assert script is not None
    assert policy is not None
    assert csp_hash(style[1]) in policy[1]
    assert csp_hash(script[1]) in policy[1]
    assert "unsafe" not in policy[1]
    body = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page, flags=re.DOTALL)
    assert not re.search(
        r"\sstyle=|\son\w+=|<(img|link|iframe|object|embed)\b|(src|xlink:href)=", body
    )
    files = re.findall(r'<a [^>]*download="[^"]*" href="data:image/svg\+xml;base64,[^"]*"', body)
    links = set(re.findall(r'href="([^"]*)"', body)) - {
        one.split('href="')[1][:-1] for one in files
    }
    assert len(files) == 1
    assert {link for link in links if "=" not in link} <= {
        f"#{name}" for name in re.findall(r' id="([^"]*)"', body)
    }
    chosen = {key for link in links if "=" in link for key in parse_qs(unescape(link)[1:])}
    assert chosen <= {"set", "whose", "rival", "sets"}
    assert len(re.findall(r' id="([^"]*)"', body)) == len(set(re.findall(r' id="([^"]*)"', body)))


def test_no_interval_of_the_verdict_is_broken_over_two_lines(page: str) -> None:
    """On a phone a line ended within the brackets: a line may end after a dash, whatever space
    follows, unless a word joiner does."""
    (first,) = re.findall(r'<p class="verdict">(.*?)</p>', page)
    assert "\u00a0–\u2060\u00a0" in first
    assert "–\u00a0" not in first
    assert " – " not in first


def test_outcomes_and_scores_are_in_the_page(
    page: str, found: dict[str, Any], finished_run: Path
) -> None:
    data, runs = unpack(page), read_runs([finished_run])
    assert [scorer["name"] for scorer in data["scorers"]] == list(found["scorers"])
    sets = {one["id"]: one for one in data["sets"]}
    assert sets.keys() == {item.id for item in runs.dataset}, "every set has a page"
    table = runs.scores.frame.filter(pl.col("perturbation").is_null())
    known = {
        (s, i, r): v
        for s, i, r, v in table.select("scorer", "item_id", "response_id", "score").iter_rows()
    }
    for number, name in enumerate(found["scorers"]):
        letters, cell = (
            [one["outcomes"][number] for one in sets.values()],
            found["scorers"][name]["overall"],
        )
        won = sum(_won(known, name, item) for item in runs.dataset)
        assert [letters.count(letter) for letter in "wte"] == [won, cell["ties"], cell["errors"]]
        for item in runs.dataset:
            true = [known[name, item.id, one.id] for one in (item.chosen, *item.rejected)]
            assert sets[item.id]["scores"][number] == pytest.approx(true, rel=1e-8)
    failing = ["w" * len(found["scorers"]) != one["outcomes"] for one in data["sets"]]
    assert failing == sorted(failing, reverse=True), "failures come first"


def _won(known: dict[tuple[str, str, str], float], name: str, item: BonSet) -> bool:
    return known[name, item.id, item.chosen.id] > max(
        known[name, item.id, wrong.id] for wrong in item.rejected
    )


def test_the_sets_that_fit_are_in_the_page_and_the_rest_is_said(
    finished_run: Path, report: Report
) -> None:
    """What judges wrote takes no room from the sets."""
    runs = read_runs([finished_run])
    made = [payload(report, runs, most=most) for most in (1_000, 4_000, 100_000)]
    assert 0 < made[0].embedded < made[1].embedded < made[2].embedded == made[2].sets == 80
    told = {
        "baseline:label": JudgeTexts(
            {request_name(item.id, 0): "word " * 200 for item in runs.dataset}
        )
    }
    data = json.loads(
        gzip.decompress(base64.b64decode(payload(report, runs, told, most=50_000).encoded))
    )
    assert len(data["sets"]) == 80
    assert sum(bool(one["written"]) for one in data["sets"]) == 50


def test_long_texts_are_cut_with_their_length(carb: Carb, tmp_path: Path) -> None:
    run = run_of(
        carb, tmp_path, small_set(1, id="long", prompt="word " * 200_000), *small_dataset(1)
    )
    ended = carb("report", run, "--html", tmp_path / "r.html")
    assert ended.code == 0, ended.err
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert (
        max(length for one in unpack(text)["sets"] for _, length, _ in one["prompt"]) == 1_000_000
    )
    assert len(text) < 200_000


def test_a_set_shows_what_a_judge_was_given_and_wrote(carb: Carb, tmp_path: Path) -> None:
    """The order of the run's seed, the letters of a second order, the fact with its page, and its
    gloss."""
    cited = Citation(url="https://example.org/fact", title="A page", fact="food.TH", note="What.")
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What?"}]
    plain = small_set(1, prompt=turns)
    answers = tuple(one.model_copy(update={"source": cited}) for one in plain.responses)
    first = BonSet.model_validate(plain.model_copy(update={"responses": answers}).model_dump())
    sets = [first, small_set(0)]
    run = run_of(carb, tmp_path, *sets)
    journal = next((run / "journal").glob("*label*.jsonl"))
    head, *lines = journal.read_text(encoding="utf-8").splitlines()
    results = [result for line in lines for result in json.loads(line)]
    scores = {str(n): 0.0 for n in range(1, 5)}
    for result in results:
        result.pop("crc", None)  # the checksum of a line, which is written anew here
        result["rationale"] = f"because of {result['request_id']}"
        orders = (["1", "2", "3", "4"], ["4", "3", "2", "1"])
        result["presentations"] = [{"order": order, "scores": scores} for order in orders]
    journal.write_text("\n".join([head, json.dumps(results), "{torn"]), encoding="utf-8")
    assert carb("report", run, "--html", tmp_path / "r.html").code == 0
    data = unpack((tmp_path / "r.html").read_text(encoding="utf-8"))
    judge = next(n for n, one in enumerate(data["scorers"]) if one["name"] == "baseline:label")
    assert data["scorers"][judge]["asked"] == [[0, 1, 2, 3], [3, 2, 1, 0]]
    assert all(
        one["written"] == {str(judge): f"because of {request_name(one['id'], 0)}"}
        for one in data["sets"]
    )
    shown = next(one for one in data["sets"] if one["id"] == "set-1")
    assert [(role, text) for text, _, role in shown["prompt"]] == [
        ("system", "Be brief."),
        ("user", "What?"),
    ]
    assert sorted(shown["orders"][0]) == [0, 1, 2, 3]
    assert sorted(one["gloss"] for one in data["sets"]) == ["", "What."]
    assert shown["answers"][0][-1] == "food.TH · A page · https://example.org/fact"


def test_a_judge_is_shown_with_its_first_question_word_for_word() -> None:
    from carb_scorers import ScorerSpec
    from carb_scorers.blind import blind
    from carb_scorers.judge import JudgeOptions, form_of

    options, item = JudgeOptions(mode="listwise"), small_set(1)
    known = {
        "kind": "judge",
        "model": "m",
        "parameters": options.model_dump(mode="json"),
        "comparative": True,
    }
    (turns,) = sent(ScorerSpec(name="judge:m", **known), [item]).values()
    request = next(blind(item, seed=3, comparative=True)).request
    asked = form_of(options).asks(request)[0].prompt.messages
    texts = {"Q": item.prompt_text} | {str(n): one.text for n, one in enumerate(request.candidates)}
    filled = [
        Message(role=role, content=re.sub("⟦(.)⟧", lambda m: texts[m[1]], text))
        for role, text in turns
    ]
    assert filled == list(asked)
    assert (
        sent(ScorerSpec(name="judge:m", **{**known, "parameters": {"form": "gone.toml"}}), [item])
        == {}
    )
    for kind in ("classifier", "implicit"):
        (turns,) = sent(ScorerSpec(name="m", kind=kind), [item]).values()
        assert [text for _, text in turns] == ["⟦Q⟧", "⟦0⟧"], "the question, then each answer"


def test_a_command_on_a_page_can_be_pasted(carb: Carb, finished_run: Path, tmp_path: Path) -> None:
    typed = ["carb", "run", "--scorer", "mine=judge:m?mode=listwise&read=logprob", "a b'; $(echo)"]
    shutil.copytree(finished_run, tmp_path / "r")
    record = json.loads((tmp_path / "r" / "run.json").read_text())
    (tmp_path / "r" / "run.json").write_text(json.dumps(record | {"command": typed}))
    assert carb("report", tmp_path / "r", "--html", tmp_path / "r.html").code == 0
    shown = re.findall(
        r"<p><code>(carb .*?)</code></p>", (tmp_path / "r.html").read_text(encoding="utf-8")
    )
    assert [shlex.split(unescape(line)) for line in shown] == [typed]


_part = st.text(st.sampled_from("ab-"), min_size=1, max_size=2)
_path = st.lists(_part | st.sampled_from(["final", "model"]), min_size=1, max_size=4).map("/".join)


def test_hostile_and_long_names() -> None:
    names = ["judge:" + "x" * 100, "judge:" + "x" * 101, "baseline:length", "x\u202ey\x1b"]
    found = labels(names)
    assert len(set(found.values())) == len(names)
    assert max(map(len, found.values())) <= LONGEST + 4
    assert found["x\u202ey\x1b"] == "x\\u202ey\\x1b"


@given(
    st.lists(
        st.tuples(st.sampled_from(["judge", "classifier"]), _path).map(":".join),
        unique=True,
        max_size=6,
    )
)
def test_labels_differ_and_end_the_name(names: list[str]) -> None:
    found = labels(names)
    assert len(set(found.values())) == len(names)
    for name, label in found.items():
        assert name.endswith(label.partition(":")[2])


def test_near_copies_are_counted_and_printed_by_run_and_report(carb: Carb, tmp_path: Path) -> None:
    asked = [small_set(n, prompt=f"What would the neighbours bring, on day {n}?") for n in range(6)]
    copy = asked[3].model_copy(
        update={"id": "copy", "prompt": "What would the neighbors bring, on day 3?"}
    )
    Dataset([*asked, copy]).save(tmp_path / "d.jsonl")
    given = ("--data", tmp_path / "d.jsonl", "--scorer", "baseline:length", "--out", tmp_path / "r")
    sentence = "1 of 7 sets are copies or near-copies"
    assert sentence in " ".join(carb("run", *given).err.split())
    ended = carb(
        "report", tmp_path / "r", "--json", tmp_path / "r.json", "--html", tmp_path / "r.html"
    )
    assert sentence in " ".join(ended.out.split())
    dataset = json.loads((tmp_path / "r.json").read_text())["dataset"]
    assert (dataset["sets"], dataset["origins"], dataset["copies"]) == (7, 6, 1)
    assert "1 are copies or near-copies" in (tmp_path / "r.html").read_text()


class ByPlace:
    """Reads the place in every second family, and likes all answers the same in the others."""

    spec = ScorerSpec(name="half", kind="rule", revision="1", comparative=False)

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        return [
            ScoreResult(
                request_id=request.request_id,
                scores={
                    candidate.id: float(
                        re.findall(r"\d+", candidate.text)[0]
                        == re.findall(r"\d+", str(request.prompt))[1]
                        and int(re.findall(r"\d+", candidate.text)[1]) % 2
                    )
                    for candidate in request.candidates
                },
            )
            for request in requests
        ]

    async def aclose(self) -> None:
        """Nothing is open."""


def test_a_gate_holds_each_model_of_a_run_and_no_baseline(carb: Carb, tmp_path: Path) -> None:
    sets = [item for number in range(12) for item in small_family(number)]
    folder = tmp_path / "run"
    anyio.run(run, Dataset(sets), [ByPlace(), "baseline:length"], folder)
    passed = carb("report", folder, "--fail-below", "place_win=0.6", "--only", "families")
    assert passed.code == 0
    assert re.search(r"half: place_win 0\.750 \[.*--fail-below passed", passed.out)
    assert "baseline:length: place_win" not in passed.out
    failed = carb("report", folder, "--json", "-", "--fail-below", "place_win=0.8")
    assert (failed.code, "is below 0.8" in failed.err) == (1, True)
    assert failed.json["scorers"].keys() == {"half", "baseline:length"}
    ended = carb("report", folder, "--fail-below", "place_wim=0.8")
    assert (ended.code, "Did you mean 'place_win'?" in ended.err) == (2, True)


def test_a_gate_counts_failures_as_lost_and_the_tables_say_what_is_left(
    carb: Carb, tmp_path: Path
) -> None:
    """A rate above the gate's that hides losses behind failures does not pass."""
    sets = [item for number in range(12) for item in small_family(number)]
    folder = tmp_path / "run"
    anyio.run(run, Dataset(sets), [ByPlace(), "baseline:length"], folder)
    path = folder / "scores.parquet"
    frame = ScoreTable.load(path).frame
    fails = pl.col("scorer").eq("half") & pl.col("item_id").cast(pl.String).str.ends_with("-1")
    ScoreTable(frame.with_columns(score=pl.when(~fails).then("score"))).save(path)
    families = carb("report", folder, "--json", "-").json["families"]["rows"]
    (row,) = [row for row in families if (row["scorer"], row["group"]) == ("half", None)]
    rate, lost = row["place_win"]["estimate"], row["place_win_if_lost"]["estimate"]
    assert lost < rate
    between = f"place_win={(rate + lost) / 2}"
    assert carb("report", folder, "--fail-below", between).code == 1
    assert carb("report", folder, "--fail-below", f"place_win={lost}").code == 0
    shown = f"if lost {100 * lost:.1f}"
    page = tmp_path / "page.html"
    ended = carb("report", folder, "--html", page, "--md", tmp_path / "t.md")
    for text in (ended.out, page.read_text(), (tmp_path / "t.md").read_text()):
        assert shown in text


def test_a_gate_fails_where_its_measure_has_no_value(carb: Carb, finished_run: Path) -> None:
    """The sets of this run are of no family; a gate that cannot fail is none."""
    ended = carb("report", finished_run, "--fail-below", "place_win=0.1")
    assert (ended.code, ended.out.count("place_win has no value")) == (1, len(BASELINES))
