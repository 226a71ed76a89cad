"""``carb report``: content, tables, figures, page and site."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import json
import re
import zlib
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import polars as pl
import pytest
from rich.console import Console

from carb_cli import display
from carb_cli.commands.report import leaderboard
from carb_cli.report.content import content, read_runs
from carb_cli.report.model import Report
from carb_cli.report.page import csp_hash, render
from carb_cli.report.payload import DIGITS, payload
from carb_cli.report.verdict import verdict
from carb_cli.runs import only
from carb_data import BonSet, Dataset, ScoreTable
from carb_metrics import bon_accuracy, breakdown, compare, rank
from cli_helpers import BASELINES, Carb, small_dataset, small_family, small_set

CELL = {"accuracy", "low", "high", "n", "ties", "errors"}


@pytest.fixture(scope="session")
def found(finished_run: Path) -> dict[str, Any]:
    return content(read_runs([finished_run])).plain()


def unpack(page: str) -> dict[str, Any]:
    packed = re.search(r'<script type="text/plain" id="payload">([A-Za-z0-9+/=]*)</script>', page)
    assert packed is not None
    return json.loads(gzip.decompress(base64.b64decode(packed[1])))


def test_json_has_the_promised_keys(found: dict[str, Any]) -> None:
    assert found["schema"] == "carb.report/1"
    assert {"dataset", "scorers"} <= set(found)
    assert set(found["scorers"]) == set(BASELINES)
    for scorer in found["scorers"].values():
        for key in ("overall", "macro", "shared"):
            assert set(scorer[key]) == CELL
        for key in ("by_culture", "by_domain", "by_culture_domain", "by_resource_class", "by_family", "by_script"):
            assert scorer[key]
            assert all(set(cell) == CELL for cell in scorer[key].values())
            assert sum(cell["n"] for cell in scorer[key].values()) == scorer["overall"]["n"] == 80
    Report.model_validate(found)


def test_the_verdict_on_baselines_says_that_they_read_only_the_surface(finished_run: Path) -> None:
    report = content(read_runs([finished_run]))
    assert {part.spec.kind for part in report.scorers.values()} == {"baseline"}
    assert report.floor is not None
    reaches = f"{100 * (report.floor.overall.floor.accuracy or 0):.1f}% here"
    assert f"baselines read nothing but the surface, which reaches {reaches}" in verdict(report)


def test_the_verdict_on_models_alone_does_not_take_them_for_baselines(finished_run: Path) -> None:
    report = content(read_runs([finished_run]))
    models = {
        name: part.model_copy(update={"spec": part.spec.model_copy(update={"kind": "classifier"})})
        for name, part in report.scorers.items()
    }
    said = verdict(report.model_copy(update={"scorers": models}))
    assert f"of {len(models)} models" in said
    assert "that the surface alone reaches" in said
    assert "baselines read" not in said


def test_a_scorer_without_a_score_is_not_ranked(finished_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = read_runs([finished_run])
    gone = "baseline:length"
    lost = pl.when(pl.col("scorer") == gone).then(None).otherwise(pl.col("score")).alias("score")
    failed = dataclasses.replace(runs, scores=ScoreTable(runs.scores.frame.with_columns(lost)))
    report = content(failed)
    assert report.scorers[gone].rank.text == "–"
    assert all(part.rank.rank is not None for name, part in report.scorers.items() if name != gone)
    assert gone not in {name for pair in report.pairs for name in (pair.a, pair.b)}
    assert list(report.scorers)[-1] == gone
    leaderboard(report)
    line = next(line for line in capsys.readouterr().out.splitlines() if "length" in line)
    assert line.split()[0] == "–"
    assert "rank 1" not in line
    assert "None [None" not in render(report, failed, {})


def test_numbers_are_those_of_the_metrics(found: dict[str, Any], finished_run: Path) -> None:
    table = ScoreTable.load(finished_run / "scores.parquet")
    accuracy = bon_accuracy(table, by=("scorer",))
    parts = breakdown(table)
    ranks = {row.scorer: row.place.rank for row in rank(table).scorers}
    for name, scorer in found["scorers"].items():
        assert scorer["overall"] == accuracy.cell(name).model_dump()
        assert scorer["by_culture"]["thai"] == parts.by_culture.cell(name, "thai").model_dump()
        assert scorer["rank"]["rank"] == ranks[name]
    order = [scorer["overall"]["accuracy"] for scorer in found["scorers"].values()]
    assert order == sorted(order, reverse=True)
    floor = found["floor"]["rows"][0]
    assert floor["group"] == {}
    assert floor["floor"]["accuracy"] >= floor["predictors"]["baseline:length"]
    assert floor["floor"]["accuracy"] >= floor["chance"]
    assert len(found["pairs"]) == 3


def test_json_to_stdout_is_json_alone(carb: Carb, finished_run: Path, found: dict[str, Any]) -> None:
    ended = carb("report", finished_run, "--json", "-")
    assert {**ended.json, "references": []} == found
    assert ended.err == ""


def test_files_are_written_and_named(carb: Carb, finished_run: Path, found: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    ended = carb(
        "report", finished_run, "--json", folder / "r.json", "--md", folder / "r.md", "--latex", folder / "r.tex"
    )
    assert ended.code == 0
    assert {**json.loads((folder / "r.json").read_text(encoding="utf-8")), "references": []} == found
    for name in ("r.json", "r.md", "r.tex"):
        assert str(folder / name) in ended.out
    assert "baseline:random" in ended.out


def test_several_runs_are_one_report(carb: Carb, data_file: Path, tmp_path: Path) -> None:
    carb("run", "--data", data_file, "--scorer", "baseline:length", "--out", tmp_path / "a")
    carb("run", "--data", data_file, "--scorer", "baseline:random", "--out", tmp_path / "b")
    found = carb("report", tmp_path / "a", tmp_path / "b", "--json", "-").json
    assert set(found["scorers"]) == {"baseline:length", "baseline:random"}
    assert [run["folder"] for run in found["runs"]] == ["a", "b"]


def test_a_scorer_whose_every_item_failed(carb: Carb, data_file: Path, tmp_path: Path) -> None:
    """Failures are wrong and counted; nothing divides by zero on the way to the page."""
    folder = tmp_path / "r"
    carb("run", "--data", data_file, "--scorer", "baseline:length", "baseline:random", "--out", folder)
    table = ScoreTable.load(folder / "scores.parquet").frame
    broken = pl.when(pl.col("scorer") != "baseline:length").then(pl.col("score"))
    ScoreTable(table.with_columns(broken.alias("score"))).save(folder / "scores.parquet")
    ended = carb("report", folder, "--json", "-", "--html", tmp_path / "r.html", "--figures", tmp_path / "figures")
    assert ended.code == 0, ended.err
    cell = ended.json["scorers"]["baseline:length"]["overall"]
    assert (cell["accuracy"], cell["errors"]) == (0.0, 12)


def test_markdown(carb: Carb, finished_run: Path, found: dict[str, Any]) -> None:
    lines = carb("report", finished_run, "--md", "-").out.strip().splitlines()
    header, rule, *rows = lines[2:]
    assert rule.count("|") == header.count("|")
    assert [row.split("|")[2].strip() for row in rows] == list(found["scorers"])


def test_latex(carb: Carb, finished_run: Path) -> None:
    out = carb("report", finished_run, "--latex", "-").out
    assert out.count(r"\\") == 1 + len(BASELINES)
    assert r"\begin{tabular}{lrrrrl}" in out
    assert not re.search(r"(?<!\\)[%&_#$]", out.split("\n", 1)[1].replace(" & ", " "))


def test_a_model_card_is_yaml_that_the_hub_reads(carb: Carb, finished_run: Path, tmp_path: Path) -> None:
    assert "No scorer of this report is a model" in carb("report", finished_run, "--card", "-").out
    yaml = pytest.importorskip("yaml", reason="needs PyYAML")
    record = json.loads((finished_run / "run.json").read_text(encoding="utf-8"))
    record["scorers"][0]["spec"]["kind"] = "judge"
    record["scorers"][0]["spec"]["model"] = 'owner/a "model": #1'
    (tmp_path / "run.json").write_text(json.dumps(record))
    for name in ("scores.parquet", "dataset.parquet"):
        (tmp_path / name).write_bytes((finished_run / name).read_bytes())
    card = yaml.safe_load(carb("report", tmp_path, "--card", "-").out)["model-index"][0]
    assert card["name"].endswith('a "model": #1')
    result = card["results"][0]
    assert result["dataset"]["name"].endswith("singles.jsonl")
    values = [metric["value"] for metric in result["metrics"]]
    assert len(values) == 5
    assert all(0 <= value <= 100 for value in values)


def test_figures_are_svg_and_png(carb: Carb, finished_run: Path, tmp_path: Path) -> None:
    assert carb("report", finished_run, "--figures", tmp_path).code == 0
    names = {path.stem for path in tmp_path.iterdir()}
    assert {"leaderboard", "cultures", "domains", "domains-intervals"} <= names
    assert {"perturbations", "perturbations-relative", "consistency-01"} <= names
    for name in names:
        assert (tmp_path / f"{name}.svg").read_text(encoding="utf-8").startswith("<svg")
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "baseline:random" in (tmp_path / "leaderboard.svg").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def page(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    from carb_cli import main

    path = tmp_path_factory.mktemp("page") / "report.html"
    assert main(["report", str(finished_run), "--html", str(path)]) == 0
    return path.read_text(encoding="utf-8")


def test_the_page_names_its_style_and_script_by_hash(page: str) -> None:
    style = re.search(r"<style>(.*?)</style>", page, flags=re.DOTALL)
    script = re.search(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    assert style is not None
    assert script is not None
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert csp_hash(style[1]) in policy[1]
    assert csp_hash(script[1]) in policy[1]
    assert "unsafe" not in policy[1]


def test_the_page_holds_nothing_that_the_policy_would_stop(page: str) -> None:
    body = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page, flags=re.DOTALL)
    assert not re.search(r"\sstyle=|\son\w+=|<(img|link|iframe|object|embed)\b|(src|xlink:href)=", body)
    links = set(re.findall(r'href="([^"]*)"', body))
    assert {link for link in links if "=" not in link} == {
        f"#{name}" for name in re.findall(r'<section id="([^"]*)"', body)
    }
    assert {key for link in links if "=" in link for key in parse_qs(unescape(link)[1:])} <= {
        "set",
        "whose",
        "rival",
        "sets",
    }


def test_the_same_runs_make_the_same_page(page: str, carb: Carb, finished_run: Path, tmp_path: Path) -> None:
    carb("report", finished_run, "--html", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == page


def test_all_outcomes_are_in_the_page(page: str, found: dict[str, Any]) -> None:
    data = unpack(page)
    assert [scorer["name"] for scorer in data["scorers"]] == list(found["scorers"])
    for name, letters in zip(found["scorers"], data["outcomes"], strict=True):
        cell = found["scorers"][name]["overall"]
        assert letters.count("w") == round(cell["accuracy"] * cell["n"])
        assert len(letters) == 80
    assert data["cells"]["thai/values"][0][3] == 2
    failing = {i for letters in data["outcomes"] for i, letter in enumerate(letters) if letter != "w"}
    assert set(data["texts"]["at"][: len(failing)]) == failing, "failures come first"
    assert sorted(data["texts"]["at"]) == list(range(80)), "and every set has a page"


def test_scores_in_the_page_are_those_of_the_run(page: str, finished_run: Path) -> None:
    data = unpack(page)
    known = {
        (s, i, r): v
        for s, i, r, v in ScoreTable.load(finished_run / "scores.parquet")
        .frame.select("scorer", "item_id", "response_id", "score")
        .iter_rows()
    }
    items = list(read_runs([finished_run]).dataset)
    assert data["ids"] == [item.id for item in items]
    for number, digits in enumerate(data["scores"]):
        low, high = data["scales"][number]
        steps = [DIGITS.index(a) * 92 + DIGITS.index(b) for a, b in zip(digits[::2], digits[1::2], strict=True)]
        shown = iter(low + (high - low) * step / (92**2 - 1) for step in steps)
        for item in items:
            for answer in (item.chosen, *item.rejected):
                true = known[data["scorers"][number]["name"], item.id, answer.id]
                assert abs(next(shown) - true) <= (high - low) / 92**2
        assert next(shown, None) is None


def test_what_does_not_fit_is_said(carb: Carb, finished_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "small.html"
    carb("report", finished_run, "--html", path, "--texts", 0.008)
    text = path.read_text(encoding="utf-8")
    data = unpack(text)
    number = len(data["texts"]["at"])
    assert 0 < number < 70
    assert f"The texts of {number} sets are in this file" in text
    assert len(data["ids"]) == 80, "outcomes are there for all"


def test_the_budget_holds(finished_run: Path) -> None:
    runs = read_runs([finished_run])
    report = content(runs)
    sizes = [len(payload(report, runs.dataset, runs.scores, {}, budget=b).encoded) for b in (10_000, 20_000, 40_000)]
    assert sizes == sorted(sizes)
    fixed = sizes[0] - 10_000
    for size, budget in zip(sizes, (10_000, 20_000, 40_000), strict=True):
        assert size <= budget + max(fixed, 0) + 5_000


def test_long_texts_are_cut_and_counted(carb: Carb, tmp_path: Path) -> None:
    long = small_set(1, prompt="word " * 200_000)
    Dataset([long, *small_dataset(1)]).save(tmp_path / "d.jsonl")
    carb("run", "--data", tmp_path / "d.jsonl", "--scorer", "baseline:label", "--out", tmp_path / "r")
    carb("report", tmp_path / "r", "--html", tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    data = unpack(text)
    assert max(length for _, length in data["texts"]["prompt"]) == 1_000_000
    assert "1 very long text was cut" in text
    assert len(zlib.compress(text.encode())) < 100_000


def test_rationales_come_from_the_journal(carb: Carb, data_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "r"
    carb("run", "--data", data_file, "--scorer", "baseline:label", "--out", folder)
    journal = next((folder / "journal").glob("*.jsonl"))
    head, *lines = journal.read_text(encoding="utf-8").splitlines()
    results = [result for line in lines for result in json.loads(line)]
    for result in results:
        result["rationale"] = f"because of {result['request_id']}"
    journal.write_text("\n".join([head, json.dumps(results), "{torn"]), encoding="utf-8")
    carb("report", folder, "--html", tmp_path / "r.html")
    data = unpack((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert data["rationales"] == {str(n): {"0": f"because of {key}"} for n, key in enumerate(data["ids"])}


def test_texts_go_before_what_judges_wrote(finished_run: Path) -> None:
    """Long rationales do not push sets off the page."""
    runs = read_runs([finished_run])
    ids = [item.id for item in runs.dataset]
    written = {
        "baseline:label": {
            key: "".join(hashlib.sha512(f"{n}{key}".encode()).hexdigest() for n in range(8)) for key in ids
        }
    }
    made = payload(content(runs), runs.dataset, runs.scores, written, budget=60_000)
    data = json.loads(gzip.decompress(base64.b64decode(made.encoded)))
    assert made.embedded == 80
    assert 0 < len(data["rationales"]) < 80


def test_wins_against_each_other_are_those_of_the_comparison(finished_run: Path) -> None:
    runs = read_runs([finished_run])
    report = content(runs)
    wins = payload(report, runs.dataset, runs.scores, {}).wins
    names = list(report.scorers)
    for i, a in enumerate(names):
        for j, b in enumerate(names[:i]):
            found = compare(only(runs.scores, a), only(runs.scores, b))
            assert (wins[i][j], wins[j][i]) == (found.only_a, found.only_b)


def test_validity_in_the_report(carb: Carb, finished_run: Path, tmp_path: Path) -> None:
    csv = tmp_path / "d.csv"
    csv.write_text("scorer,downstream\nbaseline:random,1\nbaseline:length,2\nbaseline:label,4\n")
    ended = carb("report", finished_run, "--validity", csv, "--json", "-", "--html", tmp_path / "r.html")
    assert ended.json["validity"]["n"] == 3
    assert "3 reward models" in (tmp_path / "r.html").read_text(encoding="utf-8")
    csv.write_text("scorer,downstream\nnobody,1\n")
    assert "nobody" in carb("report", finished_run, "--validity", csv).err


def test_site(carb: Carb, finished_run: Path, data_file: Path, tmp_path: Path) -> None:
    carb("run", "--data", data_file, "--scorer", "baseline:length", "--out", tmp_path / "other")
    ended = carb("results", "site", finished_run, tmp_path / "other", "--out", tmp_path / "site")
    assert ended.code == 0
    index = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'<a href="([^"#]*)"', index)
    assert len([link for link in links if not link.startswith("scorer-")]) == 4, "a report and a CSV file of each"
    assert all((tmp_path / "site" / link).is_file() for link in links)


def test_rows_of_a_narrow_terminal_break_between_their_cells(
    capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr(display, "console", Console(width=30))
    columns = ["scorer", "accuracy %", "95%", "sets"]
    display.table("Leaderboard", columns, [("one", 25.0, "14.4 – 42.9", 42), ("x" * 40, 1, "", 2)], right=columns[1:])
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "Leaderboard",
        "  one · accuracy % 25.0",
        "    95% 14.4 – 42.9 · sets 42",
        f"  {'x' * 28}",
        f"  {'x' * 12}",
        "    accuracy % 1 · sets 2",
    ]


def test_differences_have_a_minus_sign_and_no_negative_zero() -> None:
    assert display.interval(-0.417, -0.0001) == "−41.7 – 0.0"
    assert display.percent(None) == "–"


def test_a_choice_of_a_variety_has_the_cells_of_its_row(carb: Carb, tmp_path: Path) -> None:
    run = ("run", "--data", "carb-seed@2", "--limit", "20", "--scorer", "baseline:length")
    assert carb(*run, "--out", tmp_path / "run").code == 0
    runs = read_runs([tmp_path / "run"])
    found = content(runs)
    made = json.loads(gzip.decompress(base64.b64decode(payload(found, runs.dataset, runs.scores, {}).encoded)))
    rows = found.scorers["baseline:length"].by_variety
    varieties = [key for key in rows if key.split("/")[0] != key.split("/")[1]]
    assert len(varieties) > 5
    for key in varieties:
        assert made["cells"][f"{key.split('/')[1]}/"][0][3] == rows[key].n


def run_of(carb: Carb, folder: Path, *sets: BonSet, failed: str = "") -> Path:
    """A run of two baselines, of which length failed on the set ``failed``."""
    Dataset(sets).save(folder / "data.jsonl")
    out = folder / "run"
    ended = carb("run", "--data", folder / "data.jsonl", "--scorer", "baseline:length", "baseline:label", "--out", out)
    assert ended.code == 0, ended.err
    frame = ScoreTable.load(out / "scores.parquet").frame
    lost = (pl.col("item_id").cast(pl.String) == failed) & (pl.col("scorer").cast(pl.String) == "baseline:length")
    ScoreTable(frame.with_columns(pl.when(~lost).then("score").alias("score"))).save(out / "scores.parquet")
    return out


@pytest.mark.parametrize("whole", [2, 0])
def test_a_family_without_the_set_of_an_answer_is_left_out_and_said(carb: Carb, tmp_path: Path, whole: int) -> None:
    kept = [item for n in range(whole) for item in small_family(n)]
    run = run_of(carb, tmp_path, *kept, *small_family(8)[:2], *small_family(9)[:3])
    ended = carb("report", run, "--html", tmp_path / "r.html")
    assert ended.code == 0, ended.err
    assert "Left out: 2 families" in ended.out
    assert ("without reading it 25.0%" in ended.out) == (whole > 0)
    assert "50.0%" not in ended.out.split("Left out")[0]
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert f'<td data-v="{whole}">{whole}<small>2 left out</small></td>' in page
    assert ("families (2 incomplete ones are left out)" in page) == (whole > 0)
    assert "earns exactly –" not in page
    rows = carb("report", run, "--json", "-").json["families"]["rows"]
    assert {(row["families"], row["incomplete"], row["chance"]) for row in rows} == {
        (whole, 2, 0.25 if whole else None)
    }


def test_sets_of_families_that_failed_are_in_the_table(carb: Carb, tmp_path: Path) -> None:
    sets = [item for n in range(3) for item in small_family(n)]
    for failed in ("", "f1-2"):  # a mirror
        out = carb("report", run_of(carb, tmp_path, *sets, failed=failed), "--html", tmp_path / "r.html").out
        table = [line.split() for line in out.split("tie with")[0].splitlines()]
        header = next(line for line in table if line[:1] == ["scorer"])
        row = next(line for line in table if line[:1] == ["baseline:length"])
        assert (header[-1] == "errors") == bool(failed)
        assert row[-1] == ("1" if failed else "3")
        section = (tmp_path / "r.html").read_text(encoding="utf-8").split("families-section")[-1].split("</section>")[0]
        assert (">errors<" in section) == ('<td data-v="1">1</td>' in section) == bool(failed)


@pytest.mark.parametrize(
    ("reads", "says"),
    [(1, "clearly more than"), (0, "which cannot be told from"), (-1, "clearly less than")],
)
def test_the_verdict_says_on_which_side_of_chance_the_families_are(
    carb: Carb, tmp_path: Path, reads: int, says: str
) -> None:
    run = run_of(carb, tmp_path, *(item for n in range(12) for item in small_family(n)))
    frame = ScoreTable.load(run / "scores.parquet").frame
    score = reads * (pl.col("role").cast(pl.String) == "chosen").cast(pl.Float64)
    ScoreTable(frame.with_columns(score.alias("score"))).save(run / "scores.parquet")
    assert f" {says} the 25.0% of a model that does not read the place" in verdict(content(read_runs([run])))
