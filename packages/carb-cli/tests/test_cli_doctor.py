"""``carb doctor``."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from carb_cli.commands.doctor import WHAT_FOR
from carb_data import install_line
from cli_helpers import Carb


def test_what_it_says(carb: Carb) -> None:
    found = carb("doctor", "--json").json
    assert set(found["packages"]) >= {"carb-data", "carb-cli"}
    assert "baseline" in found["machine"]["scorers"]
    assert "blend" in found["machine"]["sources"]
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


def test_every_extra_says_what_it_is_for() -> None:
    declared = set()
    for file in Path(__file__).parents[2].glob("*/pyproject.toml"):
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        extras = project.get("optional-dependencies", {}).keys() - {"all", "test"}
        declared |= {(project["name"], extra) for extra in extras}
    assert declared == WHAT_FOR.keys()
