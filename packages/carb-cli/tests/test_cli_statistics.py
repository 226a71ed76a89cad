"""Commands that show statistics of runs: items, judges, shortcuts, agreement, power, a shorter data set; families."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from carb_data import BonSet, Dataset, Response, ScoreTable
from carb_metrics import compare

PLACES = ("german-de", "german-at", "spanish-es", "korean")


def families(count: int = 6) -> Dataset:
    """Families of four places and four answers."""
    return Dataset(
        BonSet(
            id=f"f{number}-{place}",
            culture=culture,
            domain="commonsense",
            language="de",
            prompt=f"Was ist üblich, Ort {place}?",
            responses=tuple(
                Response(
                    id=f"f{number}-{place}-{k}",
                    text=f"Antwort {'sehr ' * k}Nummer {k} zu {number}",
                    role="chosen" if k == place else "rejected",
                    language="de",
                    culture=PLACES[k],
                    generator="human",
                )
                for k in range(4)
            ),
            family=f"f{number}",
            provenance={"source": "test", "license": "CC0-1.0", "method": "authored"},
        )
        for number in range(count)
        for place, culture in enumerate(PLACES)
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    from carb_cli.main import main

    folder = tmp_path_factory.mktemp("families")
    families().save(folder / "data.jsonl")
    pytest.importorskip("lingua", reason="needs the extra carb-scorers[language]")
    names = ["baseline:length", "baseline:language", "baseline:label", *(f"baseline:random?seed={i}" for i in range(8))]
    asked = [part for name in names for part in ("--scorer", name)]
    out = folder / "run"
    assert main(["run", "--data", str(folder / "data.jsonl"), *asked, "--out", str(out), "--quiet"]) == 0
    return out


def printed(capsys, *arguments):
    from carb_cli.main import main

    assert main([str(part) for part in arguments]) == 0
    return capsys.readouterr().out


def test_a_report_shows_families_first(run, capsys, tmp_path):
    said = printed(capsys, "report", run, "--json", tmp_path / "r.json", "--html", tmp_path / "r.html")
    assert said.index("Mirrored families") < said.index("accuracy %")
    found = json.loads((tmp_path / "r.json").read_text())
    rows = {row["scorer"]: row for row in found["families"]["rows"] if row["group"] is None}
    assert rows["baseline:length"]["accuracy"]["estimate"] == pytest.approx(0.25)
    assert rows["baseline:length"]["still"]["estimate"] == 1.0
    page = (tmp_path / "r.html").read_text()
    assert page.index("When only the place in the question changes") < page.index('id="leaderboard-section"')
    assert page.index('id="families-section"') < page.index('id="groups-section"')
    assert found["scorers"]["baseline:length"]["overall"]["n"] == 12  # mirrors are not counted for a culture


def test_a_comparison_keeps_families_together_and_counts_main_sets_for_a_culture(run, capsys):
    names = ["baseline:random?seed=0", "baseline:length"]
    found = json.loads(printed(capsys, "compare", *(f"{run}#{name}" for name in names), "--json"))
    table = ScoreTable.load(run / "scores.parquet").with_items(families())
    expected = compare(*(ScoreTable(table.frame.filter(pl.col("scorer") == name)) for name in names))
    assert {key: found[key] for key in ("low", "high", "p")} == {
        key: pytest.approx(getattr(expected, key)) for key in ("low", "high", "p")
    }
    assert found["n"] == 24
    assert {row["key"]: row["n"] for row in found["by_culture"]} == {"german-de": 6, "german-at": 6}


def test_accuracies_of_a_run_are_no_exact_predictors(run, capsys, tmp_path):
    names = [f"baseline:random?seed={seed}" for seed in range(8)]
    lines = [f"{name},{0.2 + 0.01 * place}" for place, name in enumerate(names)]
    (tmp_path / "d.csv").write_text("\n".join(["scorer,downstream", *lines]) + "\n")
    found = json.loads(printed(capsys, "validity", tmp_path / "d.csv", "--run", run, "--json"))
    report = json.loads(printed(capsys, "report", run, "--json", "-"))
    accuracy = [report["scorers"][name]["overall"]["accuracy"] for name in names]
    assert found["pearson"]["estimate"] == pytest.approx(np.corrcoef(accuracy, range(8))[0, 1])
    assert found["uncertain"]["reliability_x"] < 0.9
    assert found["uncertain"]["reliability_y"] == 1


def test_items(run, capsys):
    assert "reliability" in printed(capsys, "items", run)
    found = json.loads(printed(capsys, "items", run, "--json"))
    assert found["schema"] == "carb.items/1"
    assert len(found["analysis"]["items"]) == 12
    assert found["reliability"]["scorers"] == 11


def test_judges(run, capsys):
    assert "length r" in printed(capsys, "judges", run)
    found = json.loads(printed(capsys, "judges", run, "--json"))
    assert {row["scorer"] for row in found["ties"]["groups"]} == {row["scorer"] for row in found["bias"]["scorers"]}
    assert any(row["group"] == "german-de" for row in found["calibration"])


def test_shortcuts(run, capsys):
    assert "Surface predictors" in printed(capsys, "shortcuts", run)
    found = json.loads(printed(capsys, "shortcuts", run, "--json"))
    assert found["floor"]["rows"][0]["floor"]["accuracy"] >= 0.25
    assert found["families"]["rows"]
    assert found["explained"]["scorers"]


def test_shorten(run, capsys, tmp_path):
    assert "points" in printed(capsys, "data", "shorten", 6, "--runs", run, "--out", tmp_path / "short.jsonl")
    assert len(Dataset.load(tmp_path / "short.jsonl")) == 6


def test_agreement_reads_a_table(capsys, tmp_path):
    file = tmp_path / "ratings.csv"
    file.write_text("item,anna,ben\n" + "".join(f"{i},{i % 2},{(i + (i == 3)) % 2}\n" for i in range(12)))
    assert "Cohen" in printed(capsys, "agreement", file)
    found = json.loads(printed(capsys, "agreement", file, "--json"))
    assert found["raters"] == ["anna", "ben"]
    assert found["agreement"]["percent"]["estimate"] == pytest.approx(11 / 12)


def test_agreement_says_what_is_missing(capsys, tmp_path):
    from carb_cli.main import main

    file = tmp_path / "ratings.csv"
    file.write_text("item,anna\n1,2\n")
    assert main(["agreement", str(file)]) == 2
    assert "fewer than two" in capsys.readouterr().err


def test_power(capsys):
    found = json.loads(printed(capsys, "power", 0.05, "--sets", 100, "--sets", 1000, "--cultures", 5, "--json"))
    few, many = found["rows"]
    assert few["power"] < many["power"]
    assert many["each_culture"] < many["power"]
    assert "found %" in printed(capsys, "power", 0.05, "--sets", 100)
