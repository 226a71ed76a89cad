from __future__ import annotations

import hashlib
import json
import random

import anyio
import pytest

from carb_data import CarbError
from carb_scorers import Candidate, ScoreRequest, open_scorer
from tal_rlvr import parse_judgement, run
from tal_rlvr.judgement import Judgement
from tal_rlvr.paired import difference, estimate
from tal_rlvr.pairs import Pair, both_orders
from tal_rlvr.train import read_result
from tal_rlvr.warmup import WarmupConfig, warmup_rows, warmup_target

torch = pytest.importorskip("torch", reason="needs tal-rlvr[train]")
pytest.importorskip("trl", reason="needs tal-rlvr[train]")

# TRL sets the option by its old name.
pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*is deprecated:FutureWarning")


@pytest.fixture
def config(tiny_folder, tmp_path):
    def word(n):
        return hashlib.sha256(str(n).encode()).hexdigest()[:20]

    rows = [
        {"prompt": word(n), "chosen": f"rice {n}", "rejected": f"tea {n}", "source_item": f"s{n}"} for n in range(30)
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    path = tmp_path / "run.toml"
    path.write_text(
        f"""
preset = "demo-cpu"
model = "{tiny_folder}"
out = "{tmp_path}/out"
max_new_tokens = 36
[mix]
sources = [{{ form = "preference", path = "{tmp_path}/pairs.jsonl" }}]
held_out_limit = 3
[warmup]
steps = 2
[evaluation]
decoding = ["sample"]
[grpo]
max_steps = 2
save_steps = 1
"""
    )
    return path


def test_a_run_leaves_a_model_that_scores_and_all_its_reports(config, tmp_path):
    result = run(config)
    out = tmp_path / "out"
    assert [stage.name for stage in result.stages] == ["before", "after"]
    assert result.steps == len(result.curve) == 2
    assert result.held_out_pairs == 3
    assert read_result(out) == result
    assert [path.name for path in (out / "checkpoints").glob("checkpoint-*")] == ["checkpoint-2"]  # save_total_limit
    report = json.loads((out / "contamination.json").read_text())
    assert report["found"] == []
    assert report["train_pairs"] == result.train_pairs
    texts = json.loads((out / "held-out" / "after-sample.json").read_text())["outcomes"]
    assert len(texts) == 6
    scorer = open_scorer(f"think:{result.model}")
    assert scorer.spec.parameters["prompts"]["style"] == "compact"
    candidates = (Candidate(id="1", text="rice"), Candidate(id="2", text="tea"))
    request = ScoreRequest(request_id="i", prompt="q", candidates=candidates, culture="thai", language="en")
    (scored,) = anyio.run(scorer.score, [request])
    assert scored.scores or scored.error.kind == "parse"
    anyio.run(scorer.aclose)
    with pytest.raises(CarbError, match="finished run"):
        run(config)


def test_adapters_are_merged_into_a_whole_model(config, tiny_folder):
    from safetensors.torch import load_file

    result = run(config, overrides={"lora": {"r": 2}, "grpo": {"save_strategy": "no"}})
    base, trained = (load_file(f"{folder}/model.safetensors") for folder in (tiny_folder, result.model))
    assert {name: w.shape for name, w in trained.items()} == {name: w.shape for name, w in base.items()}
    moved = {name for name in base if not torch.equal(base[name], trained[name])}
    assert moved
    assert not any("embed" in name or "norm" in name for name in moved)  # adapters are on linear layers


def test_contaminated_training_data_stops_a_run_before_it_starts(config, tmp_path):
    rows = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    rows += [{**row, "source_item": f"again {n}"} for n, row in enumerate(rows)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(CarbError, match=r"training pairs repeat evaluation items.*contamination\.json"):
        run(config, overrides={"evaluation": {"on_contamination": "stop"}})
    assert not (tmp_path / "out" / "warmup").exists()
    assert json.loads((tmp_path / "out" / "contamination.json").read_text())["found"]


def test_a_run_without_steps_is_supervised_training_alone(config, tmp_path):
    result = run(config, overrides={"grpo": {"max_steps": 0}})
    assert result.model == str(tmp_path / "out" / "warmup")
    assert (result.steps, result.curve) == (0, ())
    assert [stage.accuracy for stage in result.stages[:1]] == [stage.accuracy for stage in result.stages[1:]]


def test_unfit_settings_and_models_are_named(config, tmp_path):
    with pytest.raises(CarbError, match=r"under \[grpo\]"):
        run(config, overrides={"grpo": {"no_such_setting": 1}})
    with pytest.raises(CarbError, match="Cannot load the tokenizer"):
        run(config, overrides={"model": str(tmp_path), "out": str(tmp_path / "other")})
    with pytest.raises(CarbError, match="no model folder"):
        run(config, overrides={"model": str(tmp_path / "nowhere"), "out": str(tmp_path / "other")})


def test_a_run_that_was_begun_is_taken_up_only_by_itself(config, tmp_path):
    with pytest.raises(CarbError, match=r"under \[grpo\]"):
        run(config, overrides={"grpo": {"no_such_setting": 1}})
    assert (tmp_path / "out" / "warmup" / "think.json").is_file()
    with pytest.raises(CarbError, match="was begun"):
        run(config)
    with pytest.raises(CarbError, match="other settings"):
        run(config, resume=True)


ROW = both_orders(
    Pair(id="p", source_item="p", prompt="q", chosen="ri|ce\n", rejected="tea", culture="x", language="en")
)[0]


@pytest.mark.parametrize("settings", [{"quote": True}, {"criteria": 1}, {"criteria": 4}])
def test_warm_up_targets_are_judgements(settings):
    config = WarmupConfig(steps=1, **settings)
    for verdict in ("A", "B"):
        judgement = parse_judgement(warmup_target(ROW, verdict, random.Random(0), config))
        assert isinstance(judgement, Judgement)
        assert judgement.verdict == verdict
    assert warmup_target(ROW, "A", random.Random(0), config, direct=True) == "Verdict: A"


def test_some_warm_up_targets_are_flipped():
    rows = warmup_rows([ROW], WarmupConfig(steps=100, batch_size=4, flipped=0.2), seed=0)
    wrong = sum(parse_judgement(target).verdict != row.label for row, target in rows)
    assert len(rows) == 400
    assert wrong / 400 == pytest.approx(0.2, abs=0.06)


def test_estimates_and_differences():
    assert estimate([]).mean is None
    assert difference([], []).p is None
    same = difference([0.0, 1.0, 1.0], [0.0, 1.0, 1.0])
    assert (same.mean, same.p) == (0, 1)
    assert same.low < 0 < same.high
    # 10 of 10 items rise: of the 2**10 sign patterns 2 are as extreme, p = 2/1024
    gain = difference([0.0] * 10, [1.0] * 10)
    assert gain.mean == 1
    assert gain.p == pytest.approx(2 / 1024, abs=0.002)
    half = estimate([0.0, 1.0] * 50)
    assert half.mean == 0.5
    assert half.low == pytest.approx(0.5 - 1.96 * 0.05, abs=0.02)
    with pytest.raises(ValueError, match="pairs"):
        difference([1.0], [])


def test_the_module_runs_for_launchers(config, capsys):
    from tal_rlvr.__main__ import main

    assert main([str(config)]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 2
    assert main([str(config)]) == 2
    assert "finished run" in capsys.readouterr().err


def test_launch_files_are_yaml_for_accelerate():
    from accelerate.commands.config.config_args import load_config_from_file

    from tal_rlvr.prompts import prompt_folder

    files = sorted((prompt_folder().parent / "launch").glob("*.yaml"))
    assert [path.stem for path in files] == ["ddp", "fsdp", "zero2", "zero3"]
    for path in files:
        assert load_config_from_file(str(path)).num_processes == 8
