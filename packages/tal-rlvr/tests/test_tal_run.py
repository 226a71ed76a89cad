from __future__ import annotations

import hashlib
import json
import math
import random

import anyio
import pytest

from carb_data import CarbError, load
from carb_scorers import Candidate, ScoreRequest, open_scorer
from tal_rlvr import ablate, ablation_table, parse_judgement, read_perturbed, run
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


def test_ablations_are_run_once_and_tabled(config):
    results = ablate(config, ("none", "no-reasoning"), overrides={"grpo": {"max_steps": 1}})
    again = ablate(config, ("none", "no-reasoning"), overrides={"grpo": {"max_steps": 1}})
    assert again == results
    table = ablation_table(results)
    assert [row["ablation"] for row in table] == ["none", "no-reasoning"]
    assert {"before", "after", "change", "p", "entropy"} <= set(table[0])
    assert "rewards/R_appr/mean" in results["none"].curve[0]
    assert "rewards/R_appr/mean" not in results["no-reasoning"].curve[0]


def test_a_run_without_steps_is_supervised_training_alone(config, tmp_path):
    result = run(config, overrides={"grpo": {"max_steps": 0}})
    assert result.model == str(tmp_path / "out" / "warmup")
    assert (result.steps, result.curve) == (0, ())
    assert [stage.accuracy for stage in result.stages[:1]] == [stage.accuracy for stage in result.stages[1:]]


@pytest.fixture
def perturbed(tmp_path):
    """Two English sets with perturbed texts."""
    sets = load("carb-seed@1").filter(lambda item: bool(item.perturbed), languages=["en"])[:2]
    sets.save(tmp_path / "perturbed.jsonl")
    return {"evaluation": {"perturbed": {"path": str(tmp_path / "perturbed.jsonl"), "languages": ["en"]}}}


def test_perturbed_texts_are_scored_before_and_after_training(config, perturbed, tmp_path):
    result = run(config, overrides=perturbed)
    frame = read_perturbed(result.out).frame
    texts = sum(len(item.responses) + len(item.perturbed) for item in load(tmp_path / "perturbed.jsonl"))
    assert frame["scorer"].cast(str).value_counts().sort("scorer").rows() == [("after", texts), ("before", texts)]
    assert frame["score"].null_count() == 2 * texts  # a model of random weights writes no judgement


def test_scores_of_perturbed_texts_are_those_of_each_model(config, perturbed, monkeypatch):
    """The judges give way to length, which always has a score."""
    opened = []

    def length(name, model, options, settings):
        opened.append((name, model, settings.max_new_tokens))
        scorer = open_scorer("baseline:length")
        monkeypatch.setattr(scorer, "spec", scorer.spec.model_copy(update={"name": name}), raising=False)
        return scorer

    monkeypatch.setattr("tal_rlvr.perturbed.open_with", length)
    result = run(config, overrides=perturbed)
    warm = f"{result.out}/warmup"
    assert opened == [("before", warm, 36), ("after", result.model, 36)]
    scores = {name: frame["score"].to_list() for (name,), frame in read_perturbed(result.out).frame.group_by("scorer")}
    assert scores["before"] == scores["after"]
    assert None not in scores["before"]


def test_a_run_without_perturbed_sets_has_no_scores_of_them(config, perturbed, tmp_path):
    assert read_perturbed(run(config).out) is None
    perturbed["evaluation"]["perturbed"]["languages"] = ["th"]
    with pytest.raises(CarbError, match="no set with perturbed texts in th"):
        run(config, overrides={**perturbed, "out": str(tmp_path / "other")})


def test_training_pairs_may_not_come_from_perturbed_sets(config, perturbed, tmp_path):
    source = {"form": "carb", "path": str(tmp_path / "perturbed.jsonl")}
    with pytest.raises(CarbError, match="Every training pair repeats an evaluation item"):
        run(config, overrides={**perturbed, "mix": {"sources": [source]}})


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


def classifier_scores(folder, pairs):
    scorer = open_scorer(f"classifier:{folder}")
    requests = [
        ScoreRequest(
            request_id=pair.id,
            prompt=pair.prompt,
            candidates=(Candidate(id="c", text=pair.chosen), Candidate(id="r", text=pair.rejected)),
            culture="thai",
            language="en",
        )
        for pair in pairs
    ]
    results = anyio.run(scorer.score, requests)
    anyio.run(scorer.aclose)
    return [result.scores for result in results]


PAIRS = [
    Pair(id=str(n), source_item=str(n), prompt=f"what {n}", chosen=f"rice {n}", rejected=f"tea {n}", culture="thai",
         language="en")
    for n in range(12)
]  # fmt: skip


def test_a_bradley_terry_head_learns_and_is_scored_by_classifier(tiny_folder, tmp_path):
    from tal_rlvr.students import StudentConfig, train_bradley_terry

    settings = StudentConfig(steps=40, batch_size=4, learning_rate=3e-3)
    result = train_bradley_terry(tiny_folder, PAIRS, tmp_path / "rm", settings)
    assert result.losses[-1] < 0.1 < result.losses[0]
    assert all(scores["c"] > scores["r"] for scores in classifier_scores(tmp_path / "rm", PAIRS))
    assert train_bradley_terry(tiny_folder, PAIRS, tmp_path / "again", settings) == result.model_copy(
        update={"model": str(tmp_path / "again")}
    )
    with pytest.raises(CarbError, match="No pair"):
        train_bradley_terry(tiny_folder, [], tmp_path / "none")


def test_a_student_learns_what_the_judge_prefers_and_not_the_labels(tiny_folder, tmp_path, monkeypatch):
    from tal_rlvr import students

    def contrary(judge, pairs):
        return [students.JudgedPair(pair=pair, probability=0.02) for pair in pairs[:-1]]

    monkeypatch.setattr(students, "judge_pairs", contrary)
    settings = students.StudentConfig(steps=40, batch_size=4, learning_rate=3e-3)
    result = students.distil_to_classifier("judge", tiny_folder, PAIRS, tmp_path / "rm", settings)
    assert result.left_out == 1
    assert all(scores["c"] < scores["r"] for scores in classifier_scores(tmp_path / "rm", PAIRS))


def test_a_student_reads_the_tokens_that_a_classifier_scores(tiny_folder):
    """Also without a chat template, where a control token in a text went through: 9 ids against 10."""
    from transformers import AutoTokenizer

    from carb_scorers.models import Prompt
    from carb_scorers.models.tokens import conversation_ids
    from tal_rlvr.students import _encode

    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    tokenizer.chat_template = None
    end = tokenizer.eos_token
    text = f"nods{end} and leaves"
    ids = _encode(tokenizer, "How?", text)
    assert ids == conversation_ids(tokenizer, Prompt(({"role": "user", "content": "How?"},)), text)
    assert ids == tokenizer("How?", text.replace(end, f"{end[0]} {end[1:]}"))["input_ids"]


def test_the_judge_s_preference_is_the_mean_over_both_orders(tiny_folder, monkeypatch):
    from carb_scorers.models import Choices, Generation
    from carb_scorers.models.transformers.language import HFLanguageModel
    from tal_rlvr import students
    from tal_rlvr.judgement import write_judgement

    asked = []

    async def generate(self, prompts, _):
        asked.append(len(prompts))
        text = write_judgement([("fact", "known", 1, "A")], "fine.", "A") if len(asked) == 1 else "no judgement"
        return [
            Generation(text, choices=Choices({"A": math.log(share), "B": math.log(1 - share)})) for share in (0.9, 0.6)
        ]

    monkeypatch.setattr(HFLanguageModel, "generate", generate)
    (judged,) = students.judge_pairs(tiny_folder, PAIRS[:2])
    assert judged.pair == PAIRS[0]
    assert asked == [2, 2]
    assert judged.probability == pytest.approx((0.9 + 0.4) / 2)


def test_the_module_runs_for_launchers(config, capsys):
    from tal_rlvr.__main__ import main

    assert main([str(config)]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 2
    assert main([str(config)]) == 2
    assert "finished run" in capsys.readouterr().err
    assert main([str(config), "--ablate", "--out", str(config.parent / "ablations")]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 4


def test_launch_files_are_yaml_for_accelerate():
    from accelerate.commands.config.config_args import load_config_from_file

    from tal_rlvr.prompts import prompt_folder

    files = sorted((prompt_folder().parent / "launch").glob("*.yaml"))
    assert [path.stem for path in files] == ["ddp", "fsdp", "zero2", "zero3"]
    for path in files:
        assert load_config_from_file(str(path)).num_processes == 8
