"""Published reward models: the registry's facts hold together, and published figures are compared with ours."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")
pytest.importorskip("transformers", reason="needs the extra carb-scorers[hf]")

from carb_scorers.judge import form_names
from carb_scorers.known import find, known_models, resolved
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
        assert model.licence is not None or model.licence_source is None
        assert model.scores.keys() <= REGISTRY.benchmarks.keys()
        assert model.memory == (model.parameters and 2 * model.parameters)
    assert len({model.name for model in REGISTRY.models}) == len(REGISTRY.models)
    assert all(benchmark.table for benchmark in REGISTRY.benchmarks.values())


def test_a_model_is_found_by_its_id_and_by_its_short_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skywork = find("skywork-reward-gemma-2-27b-v0.2")
    assert skywork is not None
    assert skywork is find("Skywork/Skywork-Reward-Gemma-2-27B-v0.2")
    assert find("nobody/nothing") is None
    monkeypatch.chdir(tmp_path)
    assert resolved("armorm-llama3-8b-v0.1", "classifier") == "RLHFlow/ArmoRM-Llama3-8B-v0.1"
    assert resolved("armorm-llama3-8b-v0.1", "judge") == "armorm-llama3-8b-v0.1"
    (tmp_path / "armorm-llama3-8b-v0.1").mkdir()
    assert resolved("armorm-llama3-8b-v0.1", "classifier") == "armorm-llama3-8b-v0.1"
