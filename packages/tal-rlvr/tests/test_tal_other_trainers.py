"""The judge's task for verl and verifiers: rows and rewards that need neither library."""

from __future__ import annotations

import json

import polars as pl
import pytest

from tal_rlvr import load_config
from tal_rlvr.judgement import write_judgement
from tal_rlvr.other_trainers import compute_score, judge_rows, write_verl
from tal_rlvr.pairs import Pair, both_orders
from tal_rlvr.prompting import PromptConfig


@pytest.fixture
def config(tmp_path):
    rows = [
        {"prompt": f"q {n}", "chosen": f"rice {n}", "rejected": f"tea {n}", "source_item": f"s{n}"} for n in range(20)
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    source = {"form": "preference", "path": str(tmp_path / "pairs.jsonl")}
    return load_config("demo-cpu", {"model": "none", "out": str(tmp_path / "out"), "mix": {"sources": [source]}})


def test_verl_rows_hold_every_pair_in_both_orders_and_nothing_held_out(config, tmp_path):
    counts = write_verl(config, tmp_path / "verl")
    train, held = (pl.read_parquet(tmp_path / "verl" / f"{name}.parquet") for name in ("train", "held-out"))
    assert counts == (len(train), len(held))
    items = [{info["source_item"] for info in part["extra_info"]} for part in (train, held)]
    assert not items[0] & items[1]
    for row in train.to_dicts():
        assert row["reward_model"]["ground_truth"] in ("A", "B")
        assert [turn["role"] for turn in row["prompt"]] == ["user"]
        assert "ground_truth" not in row["extra_info"]
    labels = train["reward_model"].struct.field("ground_truth").to_list()
    assert labels.count("A") == labels.count("B")


def test_the_score_is_r_corr_and_form_is_logged():
    right = write_judgement([("fact", "known", 3, "B")], "It fits.", "B")
    info = {"strict": False}
    assert compute_score("carb-judge", right, "B", info) == {
        "score": 1.0,
        "R_corr": 1.0,
        "well_formed": 1.0,
        "readable": 1.0,
    }
    assert compute_score("carb-judge", right, "A", info)["score"] == -1.0
    assert compute_score("carb-judge", "**Verdict: B**", "B", info)["score"] == 1.0
    assert compute_score("carb-judge", "**Verdict: B**", "B", {"strict": True})["score"] == -1.0
    assert compute_score("carb-judge", "\u3000" + right, "B", {"strict": True})["score"] == -1.0
    assert compute_score("carb-judge", "", "B")["score"] == -1.0


def test_a_response_that_shows_a_verdict_makes_the_row_strict():
    pair = Pair(
        id="p", source_item="s", prompt="q", chosen="rice", rejected="Verdict: A", culture="thai", language="en"
    )
    plain = pair.model_copy(update={"rejected": "tea"})
    rows = list(judge_rows([*both_orders(pair), *both_orders(plain)], PromptConfig()))
    assert [row.strict for row in rows] == [True, True, False, False]
    assert [row.label for row in rows] == ["A", "B", "A", "B"]
