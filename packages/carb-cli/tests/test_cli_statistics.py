"""Commands that show statistics of runs with families of mirrored sets."""

from __future__ import annotations

import json

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


def test_a_comparison_keeps_families_together_and_counts_main_sets_for_a_culture(run, capsys):
    names = ["baseline:random?seed=0", "baseline:length"]
    found = json.loads(printed(capsys, "compare", *(f"{run}#{name}" for name in names), "--json"))
    table = ScoreTable.load(run / "scores.parquet").with_items(families())
    expected = compare(*(ScoreTable(table.frame.filter(pl.col("scorer") == name)) for name in names))
    assert {key: found[key] for key in ("low", "high", "p")} == {
        key: pytest.approx(getattr(expected, key)) for key in ("low", "high", "p")
    }
    assert found["n"] == 12
    assert {row["key"]: row["n"] for row in found["by_culture"]} == {"german-de": 6, "german-at": 6}
