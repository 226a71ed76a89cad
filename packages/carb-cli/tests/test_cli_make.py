"""Commands that check, make and hand on data, and that train."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import carb_data.checks
from carb_data import Dataset, MissingExtraError, ScoreTable, install_line, load
from carb_scorers import evaluate
from cli_helpers import Carb, small_dataset, small_set, write_construct_config
from tal_rlvr import TrainResult
from tal_rlvr.held_out import HeldOut, PairOutcome, compare_held_out, summarise
from tal_rlvr.seeds import crossed_interval

TRAIN = ("train", "--config", "demo-cpu", "--model", "m", "--data", "carb-seed@1")


def test_validate_checks_more_than_the_form(carb: Carb, tmp_path: Path) -> None:
    pytest.importorskip("lingua", reason="needs the extra carb-data[checks]")
    copy = small_set(1, id="copy")
    Dataset([*small_dataset(4), copy]).save(tmp_path / "d.jsonl")
    ended = carb("data", "validate", tmp_path / "d.jsonl", "--json")
    checks = ended.json["checks"]
    assert any(finding["check"] == "duplicate" for finding in checks["findings"])
    assert ended.code == (0 if ended.json["valid"] else 1)
    assert {attack["attack"] for attack in checks["audit"]["attacks"]} >= {
        "longest",
        "shortest",
        "language",
        "label",
        "first",
    }
    assert "From the answers alone" in carb("data", "validate", tmp_path / "d.jsonl").out
    assert carb("data", "validate", tmp_path / "d.jsonl", "--form-only", "--json").json["checks"] is None


def test_validate_says_what_it_could_not_check(carb: Carb, data_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: Dataset) -> None:
        raise MissingExtraError("carb-data", "checks", "lingua")

    monkeypatch.setattr(carb_data.checks, "check", absent)
    ended = carb("data", "validate", data_file)
    assert ended.code == 0
    assert "Only the form was checked" in ended.err
    assert install_line("carb-data", "checks") in ended.err


def test_contamination_found_exits_with_1(carb: Carb, data_file: Path, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("Nothing of note.\nQuestion 3?\n")
    ended = carb("data", "contamination", "--train", tmp_path / "train.txt", "--test", data_file, "--json")
    assert ended.code == 1
    found = [o for o in ended.json["overlaps"] if o["item_id"] == "set-3"]
    assert found
    assert found[0]["train_position"] == 1
    assert "in the training data" in carb("data", "contamination", "--train", data_file, "--test", data_file).out


def test_contamination_not_found_exits_with_0(carb: Carb, data_file: Path, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("Nothing of note.\n")
    ended = carb("data", "contamination", "--train", tmp_path / "train.txt", "--test", data_file)
    assert ended.code == 0
    assert "No test item is in the training data" in ended.out
    assert carb("data", "contamination", "--train", tmp_path / "none.txt", "--test", data_file).code == 2
    (tmp_path / "train.txt").write_bytes(b"\xff\xfe")
    assert carb("data", "contamination", "--train", tmp_path / "train.txt", "--test", data_file).code == 2


def test_perturb_by_rule(carb: Carb, tmp_path: Path) -> None:
    pytest.importorskip("lingua", reason="needs the extra carb-data[checks]")
    named = small_set(1, prompt="What is eaten at New Year?")
    chosen = named.chosen.model_copy(update={"text": "In Japan people eat long buckwheat noodles at New Year."})
    item = named.model_copy(update={"responses": (chosen, *named.rejected)})
    Dataset([item]).save(tmp_path / "d.jsonl")
    ended = carb("data", "perturb", tmp_path / "d.jsonl", "--out", tmp_path / "p.jsonl", "--json")
    assert ended.code == 0, ended.err
    assert ended.json["made"] == {"RC": 1}
    (version,) = load(tmp_path / "p.jsonl")[0].perturbed
    assert "Japan" not in version.text


def test_perturb_by_a_model_needs_one(carb: Carb, data_file: Path, tmp_path: Path) -> None:
    ended = carb("data", "perturb", data_file, "--kinds", "CL", "--out", tmp_path / "p.jsonl")
    assert ended.code == 2
    assert "--model" in ended.err


def test_construct_plan(carb: Carb, tmp_path: Path) -> None:
    config = write_construct_config(tmp_path)
    ended = carb("data", "construct", "--config", config, "--out", tmp_path / "o.jsonl", "--dry-run", "--json")
    assert ended.json["schema"] == "carb.data.construct.plan/1"
    assert sum(ended.json["sets"].values()) == 4
    assert not (tmp_path / "o.jsonl").exists()
    assert (
        "4 sets from 4 references" in carb("data", "construct", "--config", config, "--out", "o.jsonl", "--dry-run").out
    )


def test_construct_mistakes(carb: Carb, tmp_path: Path) -> None:
    assert carb("data", "construct", "--config", tmp_path / "none.toml", "--out", "o.jsonl").code == 2
    (tmp_path / "bad.toml").write_text("nonsense = 1")
    ended = carb("data", "construct", "--config", tmp_path / "bad.toml", "--out", "o.jsonl")
    assert ended.code == 2
    assert "nonsense" in ended.err


def test_train_lists_presets_and_prints_configurations(carb: Carb) -> None:
    assert "demo-cpu" in carb("train").out
    for alone in (["--model", "m"], ["--data", "carb-seed"], ["--out", "o"], ["--resume"], ["--print-config"]):
        ended = carb("train", *alone)
        assert (ended.code, ended.out) == (2, "")
        assert "--config" in ended.err
        assert "demo-cpu" in ended.err
    printed = carb(*TRAIN, "--out", "somewhere", "--print-config").json
    assert (printed["out"], printed["model"]) == ("somewhere", "m")
    assert printed["mix"]["sources"][0]["path"] == "carb-seed@1"


def test_train_shows_how_training_changed_what_perturbations_move(
    carb: Carb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finished run with planted scores: after it, CC moves texts twice as far and the rest half as far."""
    sets = load("carb-seed@1").filter(lambda item: bool(item.perturbed), languages=["en"])
    (tmp_path / "perturbed").mkdir()
    plain = evaluate(sets, ["baseline:length"]).frame
    own = plain.filter(pl.col("perturbation").is_null())
    base = own.select("item_id", pl.col("response_id").alias("original"), pl.col("score").alias("base"))
    moved = plain.join(base, on=["item_id", "original"], how="left", maintain_order="left")
    factor = pl.when(pl.col("perturbation").cast(pl.String) == "CC").then(2.0).otherwise(0.5)
    late = moved.with_columns(
        pl.coalesce(pl.col("base") + factor * (pl.col("score") - pl.col("base")), "score").alias("score")
    ).drop("base")
    for name, frame in (("before", plain), ("after", late)):
        named = frame.with_columns(pl.lit(name).cast(frame.schema["scorer"]).alias("scorer"))
        ScoreTable(named).save(tmp_path / "perturbed" / f"{name}.parquet")
    result = TrainResult(
        out=str(tmp_path), model="m", ablation="none", seed=0, steps=1, train_pairs=1, held_out_pairs=0,
        dropped_pairs=0, stages=(), changes={}, curve=(),
    )  # fmt: skip
    monkeypatch.setattr("carb_cli.commands.train.run", lambda *_, **__: result)
    monkeypatch.setattr("carb_cli.commands.train.ablate", lambda *_, **__: {"none": result, "no-criteria": result})
    shown = carb(*TRAIN, "--out", tmp_path).out
    assert "Change of scores under perturbation" in shown
    rows = carb(*TRAIN, "--out", tmp_path, "--json").json["sensitivity"]
    factors = {row["perturbation"]: row["factor"] for row in rows}
    assert factors == pytest.approx({"CC": 2, "RC": 0.5, "CL": 0.5, "RP": 0.5, "CC/surface": 4})
    ablated = carb(*TRAIN, "--out", tmp_path, "--ablate", "--json").json
    assert [row["ablation"] for row in ablated["sensitivity"]] == ["none"] * 5 + ["no-criteria"] * 5
    assert "no-criteria" in carb(*TRAIN, "--out", tmp_path, "--ablate").out


def test_train_with_several_seeds_tables_the_change_over_them(
    carb: Carb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five finished runs with planted verdicts on four items: wrong before, right after but for one item of seed 4."""
    items = [f"s{number}" for number in range(4)]

    def held(right: Callable[[str], bool]) -> HeldOut:
        outcomes = [
            PairOutcome(
                pair=item, source_item=item, label="A", verdict="A" if right(item) else "B", well_formed=True, text="",
                with_criteria=-0.5, with_masked=-0.5, without_criteria=-0.7, entropy=0.0,
            )
            for item in items
        ]  # fmt: skip
        return summarise(outcomes, "greedy")

    for seed in range(5):
        out = tmp_path / f"seed-{seed}"
        late = (lambda item: item != "s3") if seed == 4 else (lambda _: True)
        before, after = held(lambda _: False), held(late)
        (out / "held-out").mkdir(parents=True)
        (out / "held-out" / "before-greedy.json").write_text(before.model_dump_json())
        (out / "held-out" / "after-greedy.json").write_text(after.model_dump_json())
        result = TrainResult(
            out=str(out), model="m", ablation="none", seed=seed, steps=1, train_pairs=1, held_out_pairs=4,
            dropped_pairs=0, stages=(), changes={"greedy": compare_held_out(before, after)}, curve=(),
        )  # fmt: skip
        (out / "result.json").write_text(result.model_dump_json())
    ended = carb(*TRAIN, "--out", tmp_path, "--seeds", 5)
    assert ended.code == 0
    assert "Change by training over seeds and held-out items" in ended.out
    assert "seed 4" in ended.err
    row = carb(*TRAIN, "--out", tmp_path, "--seeds", 5, "--json", "--quiet").json["rows"][0]
    assert (row["measure"], row["decoding"], row["seeds"], row["items"]) == ("accuracy", "greedy", 5, 4)
    assert (row["before"], row["after"], row["by_seed"]) == (0, 0.95, [1, 1, 1, 1, 0.75])
    mean, low, high, p = crossed_interval([[1.0] * 4] * 4 + [[1.0, 1.0, 1.0, 0.0]])
    assert (row["change"], row["low"], row["high"], row["p"]) == pytest.approx((mean, low, high, p))
    assert f"[{low:.2f}, {high:.2f}]" in ended.out
    refused = carb(*TRAIN, "--out", tmp_path, "--seeds", 5, "--ablate")
    assert refused.code == 2
    assert "--seeds and --ablate" in refused.err


def test_train_mistakes(carb: Carb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = carb("train", "--config", "nothing")
    assert ended.code == 2
    assert "demo-cpu" in ended.err
    monkeypatch.setitem(sys.modules, "trl", None)
    ended = carb(*(tmp_path if part == "m" else part for part in TRAIN), "--out", tmp_path / "out")
    assert ended.code == 2
    assert install_line("tal-rlvr", "train") in ended.err
