"""``carb eval`` on real architectures: read from their folders, probed, and looked up among the
published ones."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")

import tiny_models
from carb_cli import main
from carb_cli.probing import FAMILIES, probing_families
from carb_data import CarbError, load
from carb_scorers import open_scorer
from carb_scorers.judge import form_names
from carb_scorers.known import known_model, known_models, resolved
from carb_scorers.models.hf_reward import ADAPTERS
from carb_scorers.models.source import model_source
from carb_scorers.spec import parse_spec


def evaluated(folder: Path, out: Path, *more: str) -> int:
    return main(
        ["eval", str(folder), "--limit", "4", "--quiet", "--no-open", "--out", str(out), *more]
    )


def test_a_classifiers_folder_is_evaluated_as_what_it_is(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_models.folder(base, "llama", "SequenceClassification", chat=True)
    assert evaluated(folder, tmp_path / "run") == 0
    assert "classifier:" in capsys.readouterr().out
    assert (tmp_path / "run" / "report.html").is_file()
    assert not (tmp_path / "run" / "probe").exists()
    assert evaluated(folder, tmp_path / "other", "--mode", "pairwise") == 2
    assert "--mode pairwise needs a chat model" in capsys.readouterr().err


def test_a_dry_run_measures_the_time_of_a_model_that_is_here(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_models.folder(base, "llama", "SequenceClassification", chat=True)
    command = ["run", "--data", "carb-seed", "--scorer", f"mine=classifier:{folder}"]
    rest = ["baseline:length", "--out", str(tmp_path / "run"), "--dry-run", "--json"]
    assert main([*command, *rest]) == 0
    mine, baseline = json.loads(capsys.readouterr().out)["scorers"]
    assert mine["seconds"] > 0
    assert baseline["seconds"] is None
    assert not (tmp_path / "run").exists()


def test_a_chat_model_is_asked_in_each_way_before_it_is_evaluated(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_models.folder(base, "qwen2", "CausalLM", chat=True)
    assert evaluated(folder, tmp_path / "run", "--json", "--dry-run") == 0
    planned = json.loads(capsys.readouterr().out)["scorers"][:3]
    sets = 4 * FAMILIES
    assert [scorer["calls"] for scorer in planned] == [4 * sets, 12 * sets, 4 * sets]
    assert not (tmp_path / "run").exists()
    assert main(
        ["eval", str(folder), "--limit", "4", "--no-open", "--out", str(tmp_path / "run"), "--json"]
    ) in (0, 1)
    shown = capsys.readouterr()
    assert f"That takes {20 * sets} calls of the model, with about " in shown.err
    found = json.loads(shown.out)
    # The letters of a random judge may hold too little of the probability to be read; its
    # likelihood always can be.
    for mode in ("listwise", "pairwise", "likelihood"):
        assert f"{mode}: place win rate" in found["why"]
    asked = found["why"].partition("prompt format is ")[2].partition(",")[0]
    assert found["scorer"].startswith(
        "implicit:" if asked == "likelihood" else f"judge:{folder}?mode={asked}"
    )
    assert len(json.loads((tmp_path / "run" / "probe" / "run.json").read_text())["scorers"]) == 3
    assert evaluated(folder, tmp_path / "named", "--mode", "likelihood") == 0
    assert "prompt format is likelihood" in capsys.readouterr().out
    assert not (tmp_path / "named" / "probe").exists()


def test_the_probe_asks_whole_families_of_several_languages() -> None:
    sets = probing_families(load("carb-seed"))
    families = {item.family for item in sets}
    assert len(families) == len({item.language for item in sets}) == FAMILIES
    for family in families:
        own = [item for item in sets if item.family == family]
        assert len(own) == len({item.chosen.text for item in own}) == len(own[0].responses)


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
        assert (model.licence_source or f"https://huggingface.co/{model.id}/").startswith(
            f"https://huggingface.co/{model.id}/"
        )
        assert model.scores.keys() <= REGISTRY.benchmarks.keys()
        assert model.memory == (model.parameters and 2 * model.parameters)
    assert len({model.name for model in REGISTRY.models}) == len(REGISTRY.models)
    assert all(benchmark.table for benchmark in REGISTRY.benchmarks.values())


def test_a_model_is_found_by_its_id_and_by_its_short_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skywork = known_model("skywork-reward-gemma-2-27b-v0.2")
    assert skywork is not None
    assert skywork is known_model("Skywork/Skywork-Reward-Gemma-2-27B-v0.2")
    assert known_model("nobody/nothing") is None
    assert model_source("nobody/nothing") == "nobody/nothing"
    monkeypatch.chdir(tmp_path)
    assert resolved("armorm-llama3-8b-v0.1", "classifier") == "RLHFlow/ArmoRM-Llama3-8B-v0.1"
    assert resolved("armorm-llama3-8b-v0.1", "judge") == "armorm-llama3-8b-v0.1"
    (tmp_path / "armorm-llama3-8b-v0.1").mkdir()
    assert resolved("armorm-llama3-8b-v0.1", "classifier") == "armorm-llama3-8b-v0.1"
    for spec in ("judge:{}?revision=main", "classifier:{}?revision=main"):
        with pytest.raises(CarbError, match=r"folder.*no revision 'main'"):
            open_scorer(spec.format("armorm-llama3-8b-v0.1"))
