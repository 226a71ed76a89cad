"""``carb compare`` and ``carb validity``: one question, one answer each."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import polars as pl
import pytest

from carb_data import Dataset, ScoreTable, is_mirror, load
from carb_metrics import compare, correlate
from cli_helpers import Carb, small_family, small_set

PROMISED = [
    "a",
    "b",
    "n",
    "ties_a",
    "ties_b",
    "accuracy_a",
    "accuracy_b",
    "strict_a",
    "strict_b",
    "difference",
]
PROMISED += ["low", "high", "p", "test", "better"]


@pytest.fixture
def families(carb: Carb, tmp_path: Path) -> Path:
    """A run on eight families of four mirrored sets, and two sets of one place."""
    sets = [item for n in range(8) for item in small_family(n)]
    Dataset([*sets, small_set(90), small_set(91)]).save(tmp_path / "data.jsonl")
    out = tmp_path / "r"
    ended = carb(
        "run",
        "--data",
        tmp_path / "data.jsonl",
        "--scorer",
        "baseline:random",
        "baseline:label",
        "--out",
        out,
    )
    assert ended.code == 0
    return out


def table_of(folder: Path, scorer: str) -> ScoreTable:
    frame = ScoreTable.load(folder / "scores.parquet").frame
    dataset = Dataset.load(folder / "dataset.parquet", registry=None)
    return ScoreTable(frame.filter(pl.col("scorer") == scorer)).with_items(dataset)


def test_json_is_what_the_metrics_say(carb: Carb, families: Path) -> None:
    found = carb("compare", families, "--json").json
    a, b = table_of(families, "baseline:random"), table_of(families, "baseline:label")
    dataset = Dataset.load(families / "dataset.parquet", registry=None)
    whole = compare(a, b, dataset=dataset)
    assert {name: found[name] for name in PROMISED} == {
        name: getattr(whole, name) for name in PROMISED
    }
    assert (found["a"], found["b"], found["n"]) == ("baseline:random", "baseline:label", 10), (
        "main sets count"
    )
    assert found["ties_b"] == 10
    assert found["strict_b"] == 0.0
    assert found["accuracy_b"] == pytest.approx(0.25), "a tie of four gives a quarter"
    assert list(found)[:3] == ["a", "b", "place_win"]
    place = found["place_win"]
    assert whole.place_win is not None
    assert (place["n"], place["a"], place["b"]) == (8, whole.place_win.a, 0.5)
    assert (place["low"] < 0 < place["high"]) == (place["better"] is None)
    assert sum(group["n"] for group in found["by_culture"]) == found["n"]


def test_it_says_the_rule_of_ties_the_test_and_the_rate(carb: Carb, families: Path) -> None:
    out = carb("compare", families).out
    assert "25.0% right with ties shared, 0.0% where a tie is a loss (10 ties)" in out
    assert "10 main sets" in out
    assert carb("compare", families, "--json").json["test"] in out
    first, concluded, rest = out.split("\n", 2)
    assert first.startswith("Place win rate: a (baseline:random) ")
    assert first.endswith("8 families.")
    assert "the place better" in concluded
    assert "Place win rate" not in rest


@pytest.fixture
def mirrors_alone(families: Path) -> Path:
    """The run of ``families`` in which one scorer failed on every main set."""
    path = families / "scores.parquet"
    dataset = Dataset.load(families / "dataset.parquet", registry=None)
    main = [item.id for item in dataset if not is_mirror(item)]
    of_main = pl.col("item_id").is_in(main) & (pl.col("scorer") == "baseline:label")
    frame = ScoreTable.load(path).frame
    ScoreTable(frame.with_columns(score=pl.when(~of_main).then("score"))).save(path)
    return families


def test_families_are_compared_where_every_main_set_failed(carb: Carb, mirrors_alone: Path) -> None:
    found = carb("compare", mirrors_alone, "--json", "--margin", "0.9")
    assert found.code == 0
    assert found.json["difference"] is found.json["margin"] is None
    assert found.json["by_culture"] == found.json["by_domain"] == []
    assert found.json["place_win"]["difference"] is not None
    assert found.json["better"] == found.json["place_win"]["better"]
    ended = carb("compare", mirrors_alone)
    assert ended.code == 0
    assert "Place win rate: a " in ended.out
    assert "failed on every main set" in ended.out
    assert "right with ties shared" not in ended.out


def test_failures_are_said_and_decide_nothing(carb: Carb, families: Path) -> None:
    """Whatever the failed comparisons would have given stays within the interval."""
    path = families / "scores.parquet"
    before = carb("compare", families, "--json").json["place_win"]
    frame = ScoreTable.load(path).frame
    fails = pl.col("item_id").cast(pl.String).str.contains("f[0-3]-[01]")
    fails &= pl.col("scorer") == "baseline:random"
    ScoreTable(frame.with_columns(score=pl.when(~fails).then("score"))).save(path)
    whole = carb("compare", families, "--json").json
    assert (whole["n"], whole["errors_a"], whole["errors_b"]) == (10, 4, 0), "main sets alone"
    found = whole["place_win"]
    assert (found["failed_a"], found["failed_b"]) == (pytest.approx(5 / 12), 0.0)
    assert found["low"] < before["low"] < before["high"] < found["high"]
    assert "41.7% of a and 0.0% of b failed" in carb("compare", families).out.replace("\n", " ")


def test_sets_that_only_one_of_both_scored_are_counted(
    carb: Carb, families: Path, tmp_path: Path
) -> None:
    out = tmp_path / "part"
    options = ["--data", tmp_path / "data.jsonl", "--limit", "8"]
    assert carb("run", *options, "--scorer", "baseline:label", "--out", out).code == 0
    pair = (f"{families}#baseline:random", f"{out}#baseline:label")
    numbers = carb("compare", *pair, "--json").json
    assert numbers["n"] + numbers["unpaired"] == 10
    assert numbers["unpaired"] > 0
    printed = carb("compare", *pair).out
    assert f"Left out: {numbers['unpaired']} main sets that only one of both scored." in printed


def test_the_plan_counts_families_of_the_place_win_rate(carb: Carb, families: Path) -> None:
    found = carb("compare", families, "--plan", "--json").json
    place, plan = found["place_win"], found["plan"]
    half = (place["high"] - place["low"]) / 2
    least = half * (1.959964 + 0.841621) / 1.959964
    for row in plan:
        assert row["families"] == math.ceil(8 * (least / row["difference"]) ** 2)
    assert f"{plan[0]['families']:,}" in carb("compare", families, "--plan").out


def test_few_families_get_no_empty_interval(carb: Carb, tmp_path: Path) -> None:
    names = sorted({str(item.family) for item in load("carb-seed") if item.family})
    few = load("carb-seed").filter(lambda item: item.family == names[0])
    few.save(tmp_path / "few.jsonl")
    scorers = ("--scorer", "baseline:length", "baseline:label")
    run = tmp_path / "few"
    assert carb("run", "--data", tmp_path / "few.jsonl", *scorers, "--out", run).code == 0
    ended = carb("compare", f"{run}#baseline:length", f"{run}#baseline:label")
    assert "six clusters" in ended.out
    assert "[, ]" not in ended.out
    assert "p = –" not in ended.out


def test_a_told_scorer_is_marked(carb: Carb, families: Path) -> None:
    found = carb("compare", families, "--json").json
    assert (found["mark_a"], found["mark_b"]) == ("", "told the culture")
    assert found["home_line"] is None, "answers do not say where they are right"
    assert "baseline:label (told the culture)" in carb("compare", families).out


def test_a_margin_and_a_plan(carb: Carb, finished_run: Path) -> None:
    pair = (f"{finished_run}#length", f"{finished_run}#random")
    found = carb("compare", *pair, "--margin", 0.5, "--plan", "--json").json
    assert found["margin"]["equivalent"]
    sizes = [row["sets"] for row in found["plan"]]
    assert sizes == sorted(sizes, reverse=True)
    assert [row["difference"] for row in found["plan"]] == [0.01, 0.02, 0.03, 0.05, 0.1]
    assert {row["families"] for row in found["plan"]} == {None}, "these sets have no families"
    assert sum(row["n"] for row in found["by_kind"]) == found["n"] == 80
    out = carb("compare", *pair, "--margin", 0.01, "--plan").out
    assert "Kinds, most different first" in out
    assert "it is not shown that a is no worse than b" in out
    assert f"{sizes[0]:,}" in out


HEAD = "scorer,benchmark,downstream,covariate,other"
ROWS = [
    ("a", 0.6, 0.31, 1, 0.5),
    ("b", 0.5, 0.26, 3, 0.7),
    ("c", 0.8, 0.41, 2, 0.6),
    ("d", 0.7, 0.33, 5, 0.4),
]
ROWS += [("e", 0.4, 0.25, 4, 0.3), ("f", 0.65, 0.36, 0, 0.8)]


@pytest.fixture
def points(tmp_path: Path) -> Path:
    lines = [HEAD, *(",".join(map(str, row)) for row in ROWS)]
    (tmp_path / "points.csv").write_text("\n".join(lines))
    return tmp_path / "points.csv"


@pytest.mark.parametrize("against", [None, "other"])
def test_validitys_json_is_what_the_metrics_say(
    carb: Carb, points: Path, against: str | None
) -> None:
    found = carb("validity", points, "--json", *(["--against", against] if against else [])).json
    names, x, y, z, other = map(list, zip(*ROWS, strict=True))
    wanted = correlate(x, y, z, against=other if against else None, labels=names)
    assert found == {**wanted.model_dump(mode="json"), "confidence": 0.95, "against": against}
    assert (found["rival"] is None) == (against is None)
    assert len(found["influence"]) == len(ROWS)


def test_few_base_models_are_not_said_to_have_an_interval(carb: Carb, tmp_path: Path) -> None:
    rows = [f"s{n},{n % 7},{n * n % 11},b{n % 3}" for n in range(15)]
    text = "\n".join(["scorer,benchmark,downstream,base", *rows])
    (tmp_path / "points.csv").write_text(text)
    ended = carb("validity", tmp_path / "points.csv")
    assert ended.code == 0
    assert "interval of Pearson's r is over" not in ended.out
    assert "more than 3 base models" in ended.out


def test_validity_by_policy_joins_reports_and_draws(carb: Carb, tmp_path: Path) -> None:
    """Figures 4 and 5 of the paper in one command."""
    names, x, y, _, other = map(list, zip(*ROWS, strict=True))
    for stem, values in (("carb", x), ("other", other)):
        parts = {n: {"overall": {"accuracy": v}} for n, v in zip(names, values, strict=True)}
        (tmp_path / f"{stem}.json").write_text(json.dumps({"scorers": parts}))
    lines = [
        f"{name},{policy},{value * factor}"
        for policy, factor in (("p", 1), ("q", -2))
        for name, value in zip(names, y, strict=True)
    ]
    (tmp_path / "d.csv").write_text("\n".join(["scorer,policy,downstream", *lines]))
    command = ("validity", tmp_path / "d.csv", "--benchmark", tmp_path / "carb.json")
    against, figure = ("--against", tmp_path / "other.json"), tmp_path / "f.svg"
    found = carb(*command, *against, "--figure", figure, "--json").json["policies"]
    wanted = correlate(x, y, against=other, labels=names).model_dump(mode="json")
    assert found["p"] == wanted
    assert found["q"]["pearson"]["estimate"] == pytest.approx(-wanted["pearson"]["estimate"])
    drawn = ElementTree.parse(figure).getroot()
    assert sum(node.tag.endswith("circle") for node in drawn.iter()) == 4 * len(names)
    rival = correlate(other, y).model_dump(mode="json")
    for fit in (wanted["fit"], rival["fit"]):  # each policy over both benchmarks
        assert "".join(drawn.itertext()).count(f"r² {fit['r2']:.3f}") == 2
    (tmp_path / "d.csv").write_text("scorer,downstream\nunknown,1\n")
    ended = carb(*command)
    assert (ended.code, "line 2" in ended.err, "unknown" in ended.err) == (2, True, True)


@pytest.mark.parametrize("accuracy", ['"high"', "[]", "{}"])
def test_a_report_whose_accuracy_is_no_number_is_refused(
    carb: Carb, tmp_path: Path, accuracy: str
) -> None:
    (tmp_path / "d.csv").write_text("scorer,downstream\na,1\n")
    report = tmp_path / "r.json"
    report.write_text(f'{{"scorers": {{"a": {{"overall": {{"accuracy": {accuracy}}}}}}}}}')
    ended = carb("validity", tmp_path / "d.csv", "--benchmark", report)
    assert (ended.code, str(report) in ended.err) == (2, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scorer,benchmark\na,1\n", "lacks the column downstream"),
        (
            "scorer,benchmark,downstream\na,1,x\nb,,2\n",
            "line 2: downstream is 'x', not a number; line 3: benchmark is ''",
        ),
        (
            "scorer,benchmark,downstream\na,1,2\na,1,nan\n",
            "comes twice; line 3: downstream is 'nan'",
        ),
        ('scorer,benchmark,downstream\n"a,1\n', "is not a CSV file"),
        ("", "lacks the column scorer, benchmark, downstream"),
        ("scorer,benchmark,downstream\n", "no rows"),
    ],
)
def test_mistakes_in_the_file(carb: Carb, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(text)
    ended = carb("validity", file)
    assert ended.code == 2
    assert said in ended.err
    assert str(file) in ended.err


def test_a_missing_file_is_answered_with_the_columns_to_write(carb: Carb, tmp_path: Path) -> None:
    ended = carb("validity", tmp_path / "absent.csv")
    assert ended.code == 2
    for word in ("absent.csv", "scorer", "benchmark", "downstream"):
        assert word in ended.err
