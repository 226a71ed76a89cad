"""Commands that check, make and hand on data, and that train."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from carb_data import install_line
from cli_helpers import Carb, write_lines

TRAIN = ("train", "--config", "demo-cpu", "--model", "m", "--data", "carb-seed")


def test_perturb_by_a_model_that_is_not_there(carb: Carb, data_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")
    command = ("data", "perturb", data_file, "--kinds", "CL", "--out", tmp_path / "p.jsonl")
    assert "--model" in carb(*command).err
    ended = carb(
        *command, "--model", "openai:m?url=http://127.0.0.1:9/v1&retries=0", "--languages", "de"
    )
    assert ended.code == 2
    assert "Is the server running" in ended.err


def test_construct_by_a_server_that_is_not_there(carb: Carb, tmp_path: Path) -> None:
    pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")
    about = {"domain": "values", "language": "en", "text": "What people do at table."}
    about["provenance"] = {"source": "test", "license": "CC0-1.0", "method": "authored"}
    rows = [
        about | {"id": culture, "culture": culture}
        for culture in ("thai", "japanese", "german", "spanish")
    ]
    write_lines(tmp_path / "references.jsonl", list(map(json.dumps, rows)))
    model = '"openai:m?url=http://127.0.0.1:9/v1&retries=0"'
    config = [
        'references = "references.jsonl"',
        f"question = {model}",
        f"chosen = {model}",
        f"rejected = [{model}]",
    ]
    path = write_lines(tmp_path / "construct.toml", config)
    ended = carb("data", "construct", "--config", path, "--out", tmp_path / "o.jsonl")
    assert ended.code == 2
    assert "Is the server running" in ended.err
    assert not (tmp_path / "o.jsonl").exists()


def test_construct_mistakes(carb: Carb, tmp_path: Path) -> None:
    assert (
        carb("data", "construct", "--config", tmp_path / "none.toml", "--out", "o.jsonl").code == 2
    )
    (tmp_path / "bad.toml").write_text("nonsense = 1")
    ended = carb("data", "construct", "--config", tmp_path / "bad.toml", "--out", "o.jsonl")
    assert ended.code == 2
    assert "nonsense" in ended.err


def test_train_lists_presets_and_prints_configurations(carb: Carb) -> None:
    listed = carb("train").out
    rows = {line.split()[0]: line.split()[1:] for line in listed.splitlines() if line.split()}
    assert rows["first-judge"] == ["none", "3", "4"]
    assert rows["qwen2.5-7b"] == ["8", "80", "not", "measured"]
    for alone in (
        ["--model", "m"],
        ["--data", "carb-seed"],
        ["--out", "o"],
        ["--resume"],
        ["--print-config"],
    ):
        ended = carb("train", *alone)
        assert (ended.code, ended.out) == (2, "")
        assert "--config" in ended.err
        assert "demo-cpu" in ended.err
    printed = carb(*TRAIN, "--out", "somewhere", "--print-config").json
    assert (printed["out"], printed["model"]) == ("somewhere", "m")
    assert printed["mix"]["sources"][0]["path"] == "carb-seed"


def test_train_mistakes(carb: Carb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = carb("train", "--config", "nothing")
    assert ended.code == 2
    assert "demo-cpu" in ended.err
    assert "Did you mean 'qwen2.5-7b'?" in carb("train", "--config", "qwen2.5-7").err
    for name in [name for name in sys.modules if name.startswith("tal_rlvr.train")]:
        monkeypatch.delitem(sys.modules, name)  # what another test has loaded
    monkeypatch.setitem(sys.modules, "trl", None)
    ended = carb(*(tmp_path if part == "m" else part for part in TRAIN), "--out", tmp_path / "out")
    assert ended.code == 2
    assert install_line("tal-rlvr[train]") in ended.err
