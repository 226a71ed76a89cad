"""``carb doctor``."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from carb_cli.environment import Gpu, extras
from carb_cli.memory import needs_of
from carb_data import CarbError, install_line
from cli_helpers import Carb


def safetensors(path: Path, shapes: dict[str, list[int]]) -> None:
    """A file with a header and no tensors behind it, which is all that is read."""
    header = json.dumps(
        {name: {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]} for name, shape in shapes.items()}
    )
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode())


def test_what_it_says(carb: Carb) -> None:
    ended = carb("doctor", "--json")
    assert ended.code == 0
    found = ended.json
    assert found["schema"] == "carb.doctor/1"
    assert {package["name"] for package in found["packages"]} >= {"carb-data", "carb-cli"}
    assert "baseline" in found["scorers"]
    assert "blend" in found["sources"]
    assert all(extra["install"] == install_line(extra["package"], extra["extra"]) for extra in found["extras"])
    shown = "".join(carb("doctor").out.split())  # a long path is folded
    assert "".join(install_line("carb-scorers", "hf").split()) in shown


def test_keys_are_never_shown(carb: Carb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hidden-value")
    monkeypatch.setenv("MY_OWN_API_KEY", "another-hidden-value")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    plain, machine = carb("doctor"), carb("doctor", "--json")
    assert machine.json["keys"] == {"HF_TOKEN": False, "OPENAI_API_KEY": True, "MY_OWN_API_KEY": True}
    for ended in (plain, machine):
        assert "hidden" not in ended.out + ended.err


def test_a_model_that_fits(carb: Carb, tmp_path: Path) -> None:
    safetensors(tmp_path / "model.safetensors", {"a": [1000, 1000], "b": [1000]})
    ended = carb("doctor", "--model", tmp_path, "--json")
    assert ended.code == 0
    assert ended.json["model"]["parameters"] == 1_001_000
    assert ended.json["model"]["fits"] is True


def test_a_model_that_does_not_fit_exits_with_1(carb: Carb, tmp_path: Path) -> None:
    safetensors(tmp_path / "model.safetensors", {"a": [1000, 1000, 1000, 1000]})
    ended = carb("doctor", "--model", tmp_path)
    assert ended.code == 1
    assert "no: take a smaller model" in " ".join(ended.out.split())


def test_where_a_model_fits(tmp_path: Path) -> None:
    safetensors(tmp_path / "model.safetensors", {"a": [10**9]})
    gpu = Gpu(name="X", total=10**10, free=10**10)
    assert "on 1 GPU in bfloat16" in needs_of(str(tmp_path), gpus=[gpu], memory=None).verdict
    assert needs_of(str(tmp_path), gpus=[], memory=5 * 10**9).verdict == "yes, in main memory in float32"
    assert "bfloat16 only" in needs_of(str(tmp_path), gpus=[], memory=3 * 10**9).verdict
    assert not needs_of(str(tmp_path), gpus=[], memory=None).fits


def test_no_such_model(carb: Carb, tmp_path: Path) -> None:
    assert carb("doctor", "--model", tmp_path / "none").code == 2
    assert carb("doctor", "--model", tmp_path).code == 2
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", 10**12) + b"{}")
    with pytest.raises(CarbError, match="not a safetensors file"):
        needs_of(str(tmp_path), gpus=[], memory=None)


def test_every_extra_says_what_it_is_for() -> None:
    assert [one.what_for for one in extras() if "[" in one.what_for] == []
