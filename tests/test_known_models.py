"""Published reward models: the registry's facts hold together, and published figures are compared with ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")
pytest.importorskip("transformers", reason="needs the extra carb-scorers[hf]")

import tiny_models
from carb_cli.main import main
from carb_data import CarbError
from carb_scorers import score
from carb_scorers.judge import form_names
from carb_scorers.known import find, known, known_models, resolved
from carb_scorers.models.hf_reward import ADAPTERS
from carb_scorers.spec import parse_spec

REGISTRY = known_models()


def test_every_entry_says_how_it_is_asked_and_where_its_figures_come_from() -> None:
    assert len(REGISTRY.models) >= 15
    for model in REGISTRY.models:
        parsed = parse_spec(model.spec())
        assert parsed.kind in {"classifier", "judge"}
        assert parsed.target == model.id
        assert parsed.options.get("form", "culture") in form_names()
        if model.remote_code and model.architecture is not None:
            assert model.architecture in ADAPTERS
        if model.architecture is None and model.parameters is not None:
            assert model.note is not None, f"{model.id}: say why there is no adapter"
        assert (model.parameters is None) == (parsed.options.get("backend") == "openai")
    for benchmark in REGISTRY.benchmarks.values():
        assert benchmark.table
    assert known("skywork-reward-llama-3.1-8b").memory == 2 * known("skywork-reward-llama-3.1-8b").parameters


def test_a_model_is_found_by_its_id_and_by_its_short_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skywork = known("skywork-reward-gemma-2-27b-v0.2")
    assert skywork is find("Skywork/Skywork-Reward-Gemma-2-27B-v0.2")
    assert find("nobody/nothing") is None
    with pytest.raises(CarbError, match="Did you mean 'skywork-reward-gemma-2-27b'"):
        known("skywork-reward-gemma-27b")
    monkeypatch.chdir(tmp_path)
    assert resolved("armorm-llama3-8b-v0.1", "classifier") == "RLHFlow/ArmoRM-Llama3-8B-v0.1"
    assert resolved("armorm-llama3-8b-v0.1", "judge") == "armorm-llama3-8b-v0.1"
    (tmp_path / "armorm-llama3-8b-v0.1").mkdir()
    assert resolved("armorm-llama3-8b-v0.1", "classifier") == "armorm-llama3-8b-v0.1"


@pytest.fixture(scope="module")
def skywork(tmp_path_factory: Any) -> Path:
    """A small classifier that stands for Skywork-Reward-Llama-3.1-8B."""
    base = tmp_path_factory.getbasetemp() / "tiny"
    return tiny_models.folder(base, "llama", "SequenceClassification", pad="<pad>", chat=True)


def rewardbench2(folder: Path, place: Path, shares: dict[str, float]) -> Path:
    """Rows in RewardBench 2's form of which this share of each subset is judged rightly by the model."""
    prompt, count = "What do people eat?", 20
    texts = [f"They eat {dish} at {hour}." for dish in ("rice", "bread", "soup", "fish") for hour in range(4)]
    rewards = score(f"classifier:{folder}", [prompt] * len(texts), texts)
    ranked = [text for _, text in sorted(zip(rewards, texts, strict=True), reverse=True)]
    rows = [
        {
            "id": f"{subset}-{number}",
            "prompt": prompt,
            "chosen": [ranked[0] if number < round(share * count) else ranked[-1]],
            "rejected": ranked[3:6],
            "subset": subset,
        }
        for subset, share in shares.items()
        for number in range(count)
    ]
    rows.append({"id": "t", "prompt": prompt, "chosen": ranked[:2], "rejected": ranked[2:4], "subset": "Ties"})
    place.write_text("\n".join(json.dumps(row) for row in rows))
    return place


SHARES = {"Factuality": 0.7, "Precise IF": 0.45, "Math": 0.65, "Safety": 0.95, "Focus": 0.95}
"""Near to what was published about the model: 69.9, 42.5, 62.8, 93.3 and 96.2%."""


def test_published_figures_are_compared_with_ours(
    skywork: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check = ["models", "skywork-reward-llama-3.1-8b", "--scorer", f"classifier:{skywork}", "--quiet"]
    place = rewardbench2(skywork, tmp_path / "test.jsonl", SHARES)
    assert main([*check, "--check", str(place), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert all(figure["agrees"] for figure in found["figures"])
    assert [(row["subset"], row["n"], row["ours"], row["published"]) for row in found["figures"]] == [
        ("factuality", 20, 0.7, 0.699),
        ("precise-if", 20, 0.45, 0.425),
        ("math", 20, 0.65, 0.628),
        ("safety", 20, 0.95, 0.933),
        ("focus", 20, 0.95, 0.962),
    ]
    other = rewardbench2(skywork, tmp_path / "other.jsonl", {**SHARES, "Safety": 0.2})
    assert main([*check, "--check", str(other), "--out", "other"]) == 1
    assert "4 of 5 published figures lie within our 95% intervals" in capsys.readouterr().out
