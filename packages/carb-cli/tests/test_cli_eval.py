"""``carb eval``: from a model to a verdict and a report in one command."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_helpers import Carb


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_without_a_model_it_explains_itself(carb: Carb) -> None:
    ended = carb("eval", "--limit", "40", "--no-open")
    assert ended.code == 0
    assert "No model was named" in ended.out
    assert "chance is 25.0%" in ended.out
    assert "Next: carb eval MODEL" in ended.out
    assert "place effect" in ended.out
    assert "which reaches" in ended.out
    assert Path("runs/eval-baselines-carb-seed-40/report.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["foo"], "no model folder 'foo'"),
        (["baseline:length", "nowhere.jsonl"], "nowhere.jsonl"),
        (["baseline:lenght"], "Unknown baseline 'lenght'"),
    ],
)
def test_mistakes_are_found_before_any_work(carb: Carb, arguments: list[str], said: str) -> None:
    ended = carb("eval", *arguments)
    assert ended.code == 2
    assert said in ended.err
    assert not Path("runs").exists()


def test_a_gate_for_ci(carb: Carb) -> None:
    pytest.importorskip("lingua", reason="needs the extra carb-scorers[language]")
    command = ["eval", "baseline:length", "--limit", "16", "--no-open", "--quiet", "--out", "here", "--fail-below"]
    failed = carb(*command, "place_effect=0.5")
    assert failed.code == 1
    assert "place_effect 0.000" in failed.out
    assert "is below 0.5" in failed.out
    assert carb(*command, "accuracy=0.01", "--json").code == 0
    ended = carb(*command, "place_efect=0.1")
    assert ended.code == 2
    assert "Did you mean 'place_effect'?" in ended.err


def test_a_strangers_table_needs_nothing_but_the_texts(carb: Carb) -> None:
    rows = [f"How do people in Thailand greet person {n}?,With a small bow {n}.,With a kiss {n}." for n in range(6)]
    Path("my.csv").write_text("\n".join(["prompt,chosen,rejected", *rows]) + "\n", encoding="utf-8")
    command = ["eval", "mine=baseline:length", "my.csv", "--no-open", "--quiet"]
    pytest.importorskip("lingua", reason="needs the extra carb-scorers[language]")
    ended = carb(*command, "--out", "a")
    assert ended.code == 0, ended
    assert "No culture in 6 sets" in ended.err
    assert "pydantic" not in ended.err
    filled = carb(*command, "--out", "b", "--culture", "thai", "--domain", "values", "--language", "en", "--json")
    assert filled.code == 0, filled
    assert "No culture" not in filled.err
    assert filled.json["report"]["dataset"]["cultures"] == {"thai": 6}
    ended = carb("eval", "mine=baseline:length", "my.csv", "--culture", "thia", "--out", "c")
    assert ended.code == 2
    assert "Did you mean 'thai'?" in ended.err
    assert carb("eval", "baseline:length", "carb-seed", "--culture", "thai").code == 2
