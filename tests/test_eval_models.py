"""``carb eval`` on real architectures: what they are is read from their folders, and chat models are probed."""

import json
from pathlib import Path

import pytest

import tiny_models
from carb_cli import main
from carb_cli.probing import FAMILIES, probing_families
from carb_data import load


def evaluated(folder: Path, out: Path, *more: str) -> int:
    return main(["eval", str(folder), "--limit", "4", "--quiet", "--no-open", "--out", str(out), *more])


def test_a_classifiers_folder_is_evaluated_as_what_it_is(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")
    folder = tiny_models.folder(base, "llama", "SequenceClassification", chat=True)
    assert evaluated(folder, tmp_path / "run") == 0
    assert "classifier:" in capsys.readouterr().out
    assert (tmp_path / "run" / "report.html").is_file()
    assert not (tmp_path / "run" / "probe").exists()
    assert evaluated(folder, tmp_path / "other", "--mode", "pairwise") == 2
    assert "--mode pairwise is for a chat model" in capsys.readouterr().err


def test_a_chat_model_is_asked_in_each_way_before_it_is_evaluated(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")
    folder = tiny_models.folder(base, "qwen2", "CausalLM", chat=True)
    assert evaluated(folder, tmp_path / "run", "--json") in (0, 1)
    found = json.loads(capsys.readouterr().out)
    # The letters of a random judge may hold too little of the probability to be read; its likelihood always can be.
    for mode in ("listwise", "pairwise", "likelihood"):
        assert f"{mode}: place effect" in found["why"]
    asked = found["why"].partition("is asked by ")[2].partition(",")[0]
    assert found["scorer"].startswith("implicit:" if asked == "likelihood" else f"judge:{folder}?mode={asked}")
    assert len(json.loads((tmp_path / "run" / "probe" / "run.json").read_text())["scorers"]) == 3
    assert evaluated(folder, tmp_path / "named", "--mode", "likelihood") == 0
    assert "asked by likelihood" in capsys.readouterr().out
    assert not (tmp_path / "named" / "probe").exists()


def test_the_probe_asks_whole_families_of_several_languages() -> None:
    sets = probing_families(load("carb-seed"))
    families = {item.family for item in sets}
    assert len(families) == len({item.language for item in sets}) == FAMILIES
    for family in families:
        own = [item for item in sets if item.family == family]
        assert len(own) == len({item.chosen.text for item in own}) == len(own[0].responses)
