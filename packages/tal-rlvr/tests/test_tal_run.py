"""Whole runs of a tiny model, and what is refused before one begins."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import xml.etree.ElementTree as ElementTree
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from carb_data import CarbError
from carb_scorers import Candidate, ScoreRequest, open_scorer
from tal_rlvr import parse_judgement, train
from tal_rlvr.curve import progress_line
from tal_rlvr.judge_prompts import PromptConfig
from tal_rlvr.judgement import Judgement, write_judgement
from tal_rlvr.lengths import check_targets, fitting
from tal_rlvr.mix import Parts, ordered
from tal_rlvr.preferences import Pair, both_orders
from tal_rlvr.scorer import open_judge, read_think_settings
from tal_rlvr.train_config import load_config
from tal_rlvr.warmup import WarmupConfig, read_targets, repeated, warmup_rows, warmup_target

torch = pytest.importorskip("torch", reason="needs tal-rlvr[train]")
pytest.importorskip("trl", reason="needs tal-rlvr[train]")

# TRL sets the option by its old name.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*gradient_checkpointing.*is deprecated:FutureWarning"
)


ABSENT = {"form": "preference", "path": "absent.jsonl"}
WEIGHTS = ("correctness_weight", "criteria_weight", "format_weight")


@pytest.fixture
def config(tiny_folder, tmp_path):
    def word(n):
        return hashlib.sha256(str(n).encode()).hexdigest()[:20]

    rows = [
        {
            "prompt": word(n),
            "chosen": f"rice {n}",
            "rejected": f"tea {n}",
            "source_item": f"s{n}",
            "culture": "thai",
        }
        for n in range(30)
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    path = tmp_path / "run.toml"
    path.write_text(
        f"""
preset = "first-judge"
model = "{tiny_folder}"
out = "{tmp_path}/out"
max_new_tokens = 36
[mix]
sources = [{{ form = "preference", path = "{tmp_path}/pairs.jsonl" }}]
held_out_limit = 3
[warmup]
steps = 2
batch_size = 4
[grpo]
max_steps = 2
per_device_train_batch_size = 8
num_generations = 4
save_steps = 1
"""
    )
    return path


def test_a_run_leaves_a_model_that_scores_and_all_its_reports(config, tmp_path, backend, capsys):
    """With evaluation during training on pairs of their own, the best checkpoint at the end, one
    dtype throughout, and nothing but the result for standard output."""
    from carb_scorers.models.hf_language import HFOptions, open_language_model

    opened = []

    def watched(target, options):
        opened.append(options.dtype)
        return open_language_model(target, options)

    backend("hf", HFOptions, watched)
    during = {"eval_strategy": "steps", "eval_steps": 1, "per_device_eval_batch_size": 4}
    during |= {"load_best_model_at_end": True, "metric_for_best_model": "eval_reward"}
    during |= {"log_completions": True}
    logs = []
    overrides = {"mix": {"dev": 0.2, "held_out_limit": 2}, "grpo": during}
    result = train(
        config,
        overrides=overrides,
        on_log=lambda stage, step, values: logs.append((stage, step, values)),
    )
    assert capsys.readouterr().out == ""
    out = tmp_path / "out"
    assert [stage.name for stage in result.stages] == ["before", "after"]
    assert result.steps == len(result.curve) == 2
    assert result.held_out_pairs == 2
    rehearsed_and_evaluated = 3
    dtype = "bfloat16" if torch.cuda.is_available() else "float32"
    assert opened == [dtype] * rehearsed_and_evaluated
    assert json.loads((out / "result.json").read_text()) == result.model_dump(mode="json")
    assert [
        step for stage, step, values in logs if stage == "grpo" and "eval_reward" in values
    ] == [1, 2]
    assert [entry["eval_reward"] for entry in result.dev] == [
        values["eval_reward"] for _, _, values in logs if "eval_reward" in values
    ]
    lines = [progress_line(*entry) for entry in logs if "eval_reward" in entry[2]]
    assert all("reward on dev pairs" in line for line in lines)
    found = {step: values["eval_reward"] for _, step, values in logs if "eval_reward" in values}
    assert (out / "checkpoints" / f"checkpoint-{max(found, key=found.get)}").is_dir()
    report = json.loads((out / "contamination.json").read_text())
    assert (report["repeated"], report["train_pairs"]) == ([], result.train_pairs)
    assert len(json.loads((out / "held-out" / "after-sample.json").read_text())["outcomes"]) == 4
    scorer = open_scorer(f"think:{result.model}")
    assert scorer.spec.parameters["prompts"]["style"] == "compact"
    candidates = (Candidate(id="1", text="rice"), Candidate(id="2", text="tea"))
    request = ScoreRequest(
        request_id="i", prompt="q", candidates=candidates, culture="thai", language="en"
    )
    (scored,) = anyio.run(scorer.score, [request])
    assert scored.scores or scored.error.kind == "parse"
    anyio.run(scorer.aclose)
    with pytest.raises(CarbError, match="finished run"):
        train(config)


def test_an_interrupted_warm_up_says_that_it_begins_anew(config, tmp_path):
    (tmp_path / "out" / "warmup").mkdir(parents=True)
    (tmp_path / "out" / "config.json").write_text(load_config(config).model_dump_json())
    notes = []
    with pytest.raises(CarbError, match="no form"):
        train(
            config,
            resume=True,
            on_note=notes.append,
            on_log=lambda *_: (_ for _ in ()).throw(CarbError("no form")),
        )
    assert any("2 steps begin anew" in note for note in notes)


@pytest.mark.parametrize("tracker", ["wandb", "trackio"])
def test_a_tracker_that_is_not_installed_is_refused_before_data_are_read(
    config, tmp_path, tracker, monkeypatch
):
    monkeypatch.setattr(f"transformers.integrations.integration_utils.is_{tracker}_available", bool)
    (tmp_path / "pairs.jsonl").unlink()
    with pytest.raises(CarbError, match=rf"tal-rlvr\[{tracker}\]"):
        train(config, overrides={"grpo": {"report_to": tracker}})


def test_a_tracker_hears_of_the_run_and_not_of_its_rehearsal(config, tmp_path, monkeypatch):
    from transformers import TrainerCallback
    from transformers.integrations import integration_utils

    folders = []

    class Tracker(TrainerCallback):
        def on_train_begin(self, args, state, control, **_):
            folders.append(Path(args.output_dir))

    monkeypatch.setitem(integration_utils.INTEGRATION_TO_CALLBACK, "tracker", Tracker)
    train(config, overrides={"grpo": {"report_to": "tracker", "max_steps": 1}})
    assert folders == [tmp_path / "out" / "checkpoints"]


def test_what_does_not_fit_is_refused_before_weights_are_read(config, tmp_path, monkeypatch):
    with pytest.raises(CarbError, match=r"needs about \d.* GB.*has \d.* GB.*warmup.batch_size"):
        train(config, overrides={"warmup": {"batch_size": 10**6}})
    assert not (tmp_path / "out" / "warmup").exists()
    assert not (tmp_path / "out" / "config.json").exists()
    monkeypatch.setattr(torch.cuda, "is_available", bool)
    with pytest.raises(CarbError, match=r"8 GPUs of 80 GB.*demo-cpu"):
        train(config, overrides={"needs": {"gpus": 8, "memory_gb": 80}})


def test_a_timeout_reaches_the_process_group_of_gpus_and_is_refused_on_a_cpu(config, monkeypatch):
    begun = {}

    def init(**given):
        begun.update(given)
        raise CarbError("a group")

    monkeypatch.setattr(torch.distributed, "init_process_group", init)
    for name, value in {"LOCAL_RANK": 0, "RANK": 0, "WORLD_SIZE": 2, "MASTER_PORT": 9}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # older accelerate warns where it is not set
    with pytest.raises(CarbError, match="a group"):
        train(config, overrides={"grpo": {"ddp_timeout": 77, "use_cpu": False}})
    assert begun["timeout"] == timedelta(seconds=77)
    for name in ("LOCAL_RANK", "RANK", "WORLD_SIZE", "MASTER_PORT", "MASTER_ADDR"):
        monkeypatch.delenv(name)
    with pytest.raises(CarbError, match=r"ddp_timeout.*CPU"):
        train(config, overrides={"grpo": {"ddp_timeout": 77}})


def test_contaminated_training_data_stops_a_run_before_it_starts(config, tmp_path):
    rows = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    rows += [{**row, "source_item": f"again {n}"} for n, row in enumerate(rows)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(
        CarbError, match=r"training pairs repeat evaluation items.*contamination\.json"
    ):
        train(config, overrides={"evaluation": {"on_contamination": "stop"}})
    assert not (tmp_path / "out" / "warmup").exists()
    assert json.loads((tmp_path / "out" / "contamination.json").read_text())["repeated"]


def test_unfit_settings_and_models_are_named_and_a_begun_run_is_taken_up_only_by_itself(
    config, tmp_path
):
    with pytest.raises(CarbError, match="Cannot load the configuration"):
        train(config, overrides={"model": str(tmp_path), "out": str(tmp_path / "other")})
    with pytest.raises(CarbError, match="no model folder"):
        train(
            config, overrides={"model": str(tmp_path / "nowhere"), "out": str(tmp_path / "other")}
        )
    begun = tmp_path / "out" / "config.json"
    begun.parent.mkdir()
    begun.write_text(load_config(config, {"seed": 1}).model_dump_json())
    with pytest.raises(CarbError, match="was begun"):
        train(config)
    with pytest.raises(CarbError, match="other settings"):
        train(config, resume=True)
    for text in ('{"of another version": 1}', '{"model": "half', ""):
        begun.write_text(text)
        with pytest.raises(CarbError, match=r"config\.json"):
            train(config, resume=True)


def test_an_output_folder_that_cannot_be_made_is_refused_before_pairs_are_read(config, tmp_path):
    (tmp_path / "pairs.jsonl").unlink()
    for out in (config, config / "below"):
        with pytest.raises(CarbError, match=r"Cannot write into .*run\.toml"):
            train(config, overrides={"out": str(out)})


ROW = both_orders(
    Pair(
        id="p",
        source_item="p",
        prompt="q",
        chosen="ri|ce\n",
        rejected="tea",
        culture="x",
        language="en",
    )
)[0]


@pytest.mark.parametrize("settings", [{"quote": True}, {}])
def test_warm_up_targets_are_judgements(settings):
    config = WarmupConfig(steps=1, **settings)
    for verdict in ("A", "B"):
        judgement = parse_judgement(warmup_target(ROW, verdict, random.Random(0), config))
        assert isinstance(judgement, Judgement)
        assert judgement.verdict == verdict
    assert warmup_target(ROW, "A", random.Random(0), config, direct=True) == "Verdict: A"
    rows = warmup_rows([ROW], WarmupConfig(steps=100, batch_size=4, flipped=0.2), seed=0)
    wrong = sum(parse_judgement(target).verdict != row.label for row, target in rows)
    assert len(rows) == 400
    assert wrong / 400 == pytest.approx(0.2, abs=0.06)


def written(n, **changes):
    text = write_judgement(
        [("respect", f"elders {n} are greeted first", 4, "B")], "B greets them.", "B"
    )
    return {
        "prompt": f"q{n}",
        "first": f"tea {n}",
        "second": f"rice {n}",
        "judgement": text,
        **changes,
    }


def test_real_judgements_are_learned_in_the_warm_up(config, tmp_path):
    path = tmp_path / "targets.jsonl"
    path.write_text(
        "\n".join(json.dumps(written(n, culture="thai", language="th")) for n in range(5))
    )
    targets = read_targets(str(path))
    assert [(row.label, row.pair.chosen, row.pair.culture) for row, _ in targets[:1]] == [
        ("B", "rice 0", "thai")
    ]
    once = repeated(targets, WarmupConfig(targets=str(path), batch_size=2), seed=0)
    assert len(once) == 6
    assert {text for _, text in once} == {text for _, text in targets}
    settings = {"targets": str(path), "steps": 0, "batch_size": 5}
    long = {"max_new_tokens": 64, "grpo": {"max_steps": 0}, "warmup": settings}
    result = train(config, overrides=long)
    assert result.model == str(tmp_path / "out" / "warmup")
    assert (result.steps, result.curve) == (0, ())
    assert [stage.accuracy for stage in result.stages[:1]] == [
        stage.accuracy for stage in result.stages[1:]
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"judgement": "Verdict: B"},
            "row 2 holds no well-formed judgement: there is a verdict alone",
        ),
        ({"first": None}, r"row 2 is not valid.*first"),
    ],
)
def test_a_target_that_teaches_no_form_is_named(tmp_path, row, message):
    (tmp_path / "t.jsonl").write_text(
        "\n".join(json.dumps(one) for one in (written(0), written(1, **row)))
    )
    with pytest.raises(CarbError, match=message):
        read_targets(str(tmp_path / "t.jsonl"))


def test_an_empty_file_of_targets_is_not_taken_for_none(tmp_path):
    (tmp_path / "t.jsonl").write_text("")
    with pytest.raises(CarbError, match=r"t\.jsonl.*no judgement"):
        read_targets(str(tmp_path / "t.jsonl"))


def sized(n):
    return ROW.pair.model_copy(update={"id": str(n), "source_item": str(n), "prompt": "w " * n})


PARTS = Parts([sized(n) for n in range(1, 101)], [sized(n) for n in (10, 200)], [])


def count(rows):
    return [len(row.pair.prompt.split()) for row in rows]


def test_too_few_that_fit_are_refused_with_the_numbers():
    with pytest.raises(
        CarbError, match=r"30 of 100 training pairs fit in 30 tokens .*40 tokens less .* = 10.* 200"
    ):
        fitting(PARTS, count, max_new_tokens=10, context=40)
    with pytest.raises(CarbError, match=r"0 of 100 .*max_prompt_tokens = 0"):
        fitting(PARTS, count, max_new_tokens=10, context=None, max_prompt_tokens=0)
    check_targets([10] * 90 + [500] * 10, 10)
    check_targets([], 10)
    with pytest.raises(
        CarbError,
        match=r"89 of 100 warm-up targets fit in max_new_tokens = 10.*median is 10 .*500",
    ):
        check_targets([10] * 89 + [500] * 11, 10)


@pytest.mark.parametrize(
    ("grpo", "fact"),
    [
        ({"learning_rat": 1e-5}, "learning_rat"),
        ({"learning_rate": "fast"}, "learning_rate"),
        ({"loss_type": "grop"}, "loss_type"),
        ({"output_dir": "elsewhere"}, "output_dir"),
        ({"reward_weights": [1.0]}, "reward_weights"),
        ({"num_generations": 3}, "num_generations|generation_batch_size"),
        ({"num_generations": 1}, "num_generations|generation"),
        ({"lr_scheduler_type": "wavy"}, "wavy"),
        ({"save_strategy": "sometimes"}, "sometimes"),
        ({"optim": "none"}, "none"),
        ({"report_to": 3}, "report_to"),
        ({"report_to": "notebook"}, "notebook"),
        ({"temperature": "hot"}, "temperature"),
        ({"beta": "some"}, "beta"),
        ({"model_init_kwargs": 3}, "model_init_kwargs"),
        ({"learning_rate": "1e-4"}, "learning_rate.*number"),
        ({"max_steps": True}, "max_steps.*integer"),
        ({"mask_truncated_completions": 1}, "mask_truncated_completions"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"mask_truncated_completions": "yes"}, "mask_truncated_completions"),
        ({"beta": float("inf")}, "beta"),
        ({"temperature": 0}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"min_p": 2.0}, "min_p"),
        ({"adam_beta1": 2.0}, "beta parameter"),
        ({"repetition_penalty": 0.0}, "penalty"),
        ({"max_steps": -5}, "max_steps"),
        ({"epsilon_high": -1}, "epsilon_high"),
        ({"delta": 0}, "delta"),
        ({"top_entropy_quantile": 2.0}, "top_entropy_quantile"),
        ({"vllm_gpu_memory_utilization": 3}, "vllm_gpu_memory_utilization"),
        ({"generation_kwargs": {"max_new_tokens": 4}}, "generation_kwargs.*max_new_tokens"),
        ({"push_to_hub": True}, "push_to_hub"),
        ({"label_smoothing_factor": 0.1}, "label_smoothing_factor"),
        ({"adam_epsilon": -1}, "epsilon"),
        ({"optim": "adamw_bnb_8bit"}, "bitsandbytes"),
        ({"optim_args": "x"}, "fails"),
        ({"lr_scheduler_type": "polynomial", "lr_scheduler_kwargs": {"nope": 1}}, "nope"),
        ({"lr_scheduler_type": "cosine_with_min_lr"}, "min_lr"),
        ({"dataloader_num_workers": -1}, "num_workers"),
        ({"fsdp": "full_shard"}, "fsdp"),
        ({"use_liger_kernel": True}, "liger"),
        ({"sync_ref_model": True}, "sync_ref_model"),
        ({"save_strategy": "best"}, "metric_for_best_model"),
        ({"multi_objective_aggregation": "mean"}, "multi_objective_aggregation"),
        ({"model_init_kwargs": {"dtype": "float8"}}, "dtype"),
        ({"model_init_kwargs": {"nope": 1}}, "nope"),
        ({"model_init_kwargs": "{}"}, "object"),
        ({"model_init_kwargs": {"dtype": "bfloat16"}}, "dtype.*outside"),
        ({"model_init_kwargs": {"revision": "main"}}, "revision.*outside"),
        ({"model_init_kwargs": {"attn_implementation": "flash_9"}}, "attn_implementation"),
        ({"gradient_accumulation_steps": 0}, "gradient_accumulation_steps"),
        ({"per_device_train_batch_size": 0}, "per_device_train_batch_size"),
        ({"save_steps": 0}, "save_steps"),
        ({"save_total_limit": 0}, "save_total_limit"),
        ({"importance_sampling_level": "word"}, "importance_sampling_level"),
        ({"scale_rewards": "std"}, "scale_rewards"),
        ({"vllm_mode": "local"}, "vllm_mode"),
        ({"eval_strategy": "steps", "eval_steps": 2}, "eval_strategy.*dev"),
        ({"num_train_epochs": 3, "max_steps": 5}, "num_train_epochs.*max_steps"),
        ({"resume_from_checkpoint": "x"}, "resume_from_checkpoint.*--resume"),
        ({"do_train": False}, "do_train"),
        ({"remove_unused_columns": True}, "remove_unused_columns"),
        ({"steps_per_generation": 0}, "steps_per_generation"),
        ({"ignore_data_skip": True}, "ignore_data_skip"),
        ({"eval_on_start": True}, "dev"),
    ],
)
def test_a_wrong_setting_of_trl_is_refused_before_data_and_weights_are_read(
    config, tmp_path, grpo, fact
):
    (tmp_path / "pairs.jsonl").unlink()
    with pytest.raises(CarbError, match=rf"(?s)\[grpo\].*(?:{fact})"):
        train(config, overrides={"grpo": grpo})
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("given", "fact"),
    [
        ({"lora": {"target_modules": "q_proj"}}, "target_modules.*q_proj"),
        ({"lora": {"target_modules": ["v_proj", "q_projj"]}}, "target_modules.*q_projj"),
        ({"lora": {"target_modules": []}}, "target_modules"),
        ({"warmup": {"targets": "nowhere.jsonl"}}, "nowhere"),
        ({"warmup": {"learning_rate": float("inf")}}, "learning_rate.*finite"),
        ({"rewards": {"criteria_weight": float("inf")}}, "criteria_weight.*finite"),
        ({"rewards": {"clip": float("inf")}}, "clip"),
        ({"rewards": {"clip": 0}}, "clip.*more than 0"),
        ({"rewards": dict.fromkeys(WEIGHTS, 0)}, "rewards.*weight"),
        ({"grpo": {"use_vllm": True}}, "vllm"),
        ({"prompts": {"style": "compcat"}}, "compcat"),
        ({"prompts": {"style": "full", "language": "xx"}}, "'xx'"),
        ({"evaluation": {"sets": ["carb-sed"]}}, "carb-seed"),
        ({"mix": {"held_out": 0.6, "dev": 0.4}}, "held_out.*dev"),
        ({"mix": {"sources": [ABSENT | {"languages": ["english"]}]}}, "english.*'en'"),
        ({"mix": {"sources": [ABSENT | {"language": "jp"}]}}, "jp"),
        ({"direct": True, "rewards": dict.fromkeys(WEIGHTS, 0) | {WEIGHTS[1]: 1}}, "direct"),
        ({"out": ""}, "folder of the run's own"),
        ({"max_new_tokens": 512}, "512 tokens: max_new_tokens = 512"),
        ({"max_prompt_tokens": 500}, "512 tokens.* = 36 and .* = 500"),
        *(
            ({"evaluation": {"options": {name: value}}}, rf"\[evaluation\] options.*{fact}")
            for name, value, fact in (
                ("device", "cudaa", "cudaa"),
                ("attention", "flash_9", "flash_9"),
                ("device_map", "autoo", "autoo"),
                ("chat_template", "nowhere.jinja", "nowhere"),
                ("chat_template_kwargs", '{"nope": 1}', "nope"),
                ("max_length", "9", "not answered"),
                ("style", "full", "style"),
                ("max_new_tokens", "8", "max_new_tokens"),
                ("backend", "vllm", "backend"),
                ("revision", "main", "revision"),
            )
        ),
        ({"revision": "main"}, "folder.*revision"),
        ({"warmup": {"learning_rate": "3e-3"}}, "learning_rate.*number"),
        ({"warmup": {"batch_size": True}}, "batch_size.*whole number"),
        ({"seed": "1"}, "seed.*whole number"),
        ({"direct": "yes"}, "direct.*true or false"),
        ({"mix": {"sources": [ABSENT | {"weight": "2"}]}}, "weight.*number"),
        (
            {
                "mix": {"dev": 0.2},
                "grpo": {"eval_strategy": "steps", "metric_for_best_model": "eval_accuracy"},
            },
            "eval_accuracy",
        ),
    ],
)
def test_a_run_that_could_not_end_is_refused_before_pairs_and_weights_are_read(
    config, tmp_path, given, fact, monkeypatch
):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    (tmp_path / "pairs.jsonl").unlink()
    with pytest.raises(CarbError, match=f"(?s){fact}"):
        train(config, overrides=given)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("part", ["held_out", "dev"])
def test_a_share_that_leaves_no_pair_is_refused_before_the_warm_up(config, tmp_path, part):
    with pytest.raises(CarbError, match=rf"\[mix\] {part} = 1e-09"):
        train(config, overrides={"mix": {part: 1e-9}})
    assert not (tmp_path / "out" / "warmup").exists()


def halved(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def without_a_shard(folder):
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


TORN = {
    "a shard is missing": without_a_shard,
    "a state of nothing": lambda folder: (folder / "trainer_state.json").write_text("{}"),
    "a list as state": lambda folder: (folder / "trainer_state.json").write_text("[]"),
    "the state of another step": lambda folder: (folder / "trainer_state.json").write_text(
        '{"global_step": 1}'
    ),
    "empty": lambda folder: [file.unlink() for file in folder.iterdir() if file.is_file()],
    "no state": lambda folder: (folder / "trainer_state.json").unlink(),
    "half a state": lambda folder: halved(folder / "trainer_state.json"),
    "half of the weights": lambda folder: halved(folder / "model.safetensors"),
    "no optimizer": lambda folder: (folder / "optimizer.pt").unlink(),
    "half an optimizer": lambda folder: halved(folder / "optimizer.pt"),
    "no random state": lambda folder: (folder / "rng_state.pth").unlink(),
}


def points_of(picture):
    """How far to the right and how high up each step's point is."""
    (line,) = ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}polyline")
    points = [point.split(",") for point in line.get("points").split()]
    # in a picture y counts from the top
    return [(float(x), -float(y)) for x, y in points]


def test_a_run_goes_on_from_its_last_whole_checkpoint(config, tmp_path):
    from tal_rlvr.training_setup import last_whole_checkpoint

    grpo = {"max_steps": 3, "save_total_limit": 3}
    settings = {"grpo": grpo, "evaluation": {"decoding": []}, "direct": True}
    settings["warmup"] = {"steps": 40, "batch_size": 8, "learning_rate": 3e-3}
    out = tmp_path / "out"
    whole = train(config, overrides=settings)
    assert min(step["grad_norm"] for step in whole.curve) > 0, "where rewards tie, nothing changes"
    rewards = [step["reward"] for step in whole.curve]
    across, heights = zip(*points_of(out / "curve.svg"), strict=True)
    assert across == tuple(sorted(set(across)))
    shares = [(reward - min(rewards)) / (max(rewards) - min(rewards)) for reward in rewards]
    drawn = [(height - min(heights)) / (max(heights) - min(heights)) for height in heights]
    assert drawn == pytest.approx(shares, abs=0.001), "the higher a reward, the higher its point"
    weights = (out / "model" / "model.safetensors").read_bytes()
    last = out / "checkpoints" / "checkpoint-2"
    assert last_whole_checkpoint(out / "checkpoints") == last
    for name, tear in TORN.items():
        copies = tmp_path / name
        shutil.copytree(out / "checkpoints", copies)
        tear(copies / last.name)
        assert last_whole_checkpoint(copies) == copies / "checkpoint-1", name
    (out / "result.json").unlink()
    (out / "curve.svg").unlink()
    shutil.rmtree(out / "model")
    notes: list[str] = []
    again = train(config, overrides=settings, resume=True, on_note=notes.append)
    assert any("checkpoint-2" in note for note in notes)
    assert len(again.curve) == again.steps == 3, "killed after its last checkpoint"
    assert len(points_of(out / "curve.svg")) == 3, "steps before the kill count"
    assert (out / "model" / "model.safetensors").read_bytes() == weights
    TORN["half of the weights"](last)
    (out / "result.json").unlink()
    shutil.rmtree(out / "model")
    pairs = tmp_path / "pairs.jsonl"
    begun_with = pairs.read_text()
    pairs.write_text(begun_with.replace("tea 1", "tea one", 1))
    with pytest.raises(CarbError, match=r"other pairs.*\[mix\]"):
        train(config, overrides=settings, resume=True)
    with pytest.raises(CarbError, match="other settings"):
        train(config, overrides=settings | {"seed": 5}, resume=True)
    pairs.write_text(begun_with)
    notes.clear()
    logs = []
    train(
        config,
        overrides=settings,
        resume=True,
        on_note=notes.append,
        on_log=lambda _, step, values: logs.append((step, values)),
    )
    assert any("checkpoint-1" in note for note in notes)
    (after,) = (values for step, values in logs if step == 2 and "tokens_per_second" in values)
    here = after["num_tokens"] - whole.curve[0]["num_tokens"]
    # with one step done and one to come, the seconds left are those that have passed
    assert after["tokens_per_second"] * after["seconds_left"] == pytest.approx(here, rel=0.05)
    assert (out / "model" / "model.safetensors").read_bytes() == weights


@pytest.mark.parametrize(
    "grpo",
    [
        {"num_iterations": 2},
        {"steps_per_generation": 2},
        {"steps_per_generation": 2, "save_strategy": "epoch"},
        {"save_only_model": True},
    ],
)
def test_a_run_that_could_not_be_resumed_as_itself_is_refused(config, grpo):
    with pytest.raises(CarbError, match=r"\[grpo\]"):
        train(config, overrides={"grpo": {"save_steps": 3, **grpo}})


def rewritten(change):
    from safetensors.torch import load_file, save_file

    def rewrite(folder):
        file = folder / "model.safetensors"
        save_file(change(load_file(file)), file, metadata={"format": "pt"})

    return rewrite


UNFIT = {
    "half of the file": (lambda folder: halved(folder / "model.safetensors"), "weights of"),
    "a layer is missing": (
        rewritten(
            lambda kept: {name: kept[name] for name in kept if "layers.1.mlp.up" not in name}
        ),
        r"layers\.1\.mlp\.up_proj.*config\.json",
    ),
    "another shape": (
        rewritten(lambda kept: kept | {"lm_head.weight": kept["lm_head.weight"][:9].clone()}),
        r"lm_head\.weight.*config\.json",
    ),
    "no numbers": (
        rewritten(lambda kept: {name: kept[name] * float("nan") for name in kept}),
        "finite",
    ),
}


@pytest.mark.parametrize(
    "stages",
    [{}, {"warmup": {"steps": 0}}, {"warmup": {"steps": 0}, "evaluation": {"decoding": []}}],
)
@pytest.mark.parametrize("name", UNFIT)
def test_weights_that_cannot_be_trained_are_refused(config, tiny_folder, tmp_path, name, stages):
    """Whichever stage reads them first."""
    spoil, fact = UNFIT[name]
    folder = tmp_path / "unfit"
    shutil.copytree(tiny_folder, folder)
    spoil(folder)
    logs = []
    with pytest.raises(CarbError, match=fact):
        train(
            config,
            overrides={"model": str(folder), **stages},
            on_log=lambda *log: logs.append(log),
        )
    assert logs == []


LATER = {"learning_rate": 1e39, "lr_scheduler_type": "constant_with_warmup", "warmup_steps": 1}


@pytest.mark.parametrize(
    ("settings", "stage"),
    [
        ({"warmup": {"learning_rate": 1e39}}, "warm-up"),
        ({"warmup": {"steps": 0}, "grpo": LATER | {"max_steps": 2}}, "grpo"),
        ({"warmup": {"steps": 0}, "grpo": LATER | {"max_steps": 4}}, "grpo"),
    ],
)
def test_a_stage_that_ends_in_numbers_that_are_not_finite_says_so(
    config, tmp_path, settings, stage
):
    """With rewards that differ where no output has the form, so that there is a gradient."""
    settings = settings | {"rewards": {"base": "paper"}, "evaluation": {"decoding": []}}
    with pytest.raises(CarbError, match=rf"weights.*{stage}.* finite.*learning_rate"):
        train(config, overrides=settings)
    assert not (tmp_path / "out" / "result.json").exists()


def test_variables_of_the_chat_template_reach_every_prompt(config, tiny_folder, tmp_path):
    """Rollouts and R_appr read the tokenizer of the run; evaluation and ``think:`` open the
    judge."""
    from transformers import AutoTokenizer

    from tal_rlvr.training_stages import TrainingRun
    from tal_rlvr.verdict_tokens import encode_prompt

    folder = tmp_path / "switch"
    shutil.copytree(tiny_folder, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template += "{% if thinking %}<think>{% else %}No thoughts.{% endif %}"
    tokenizer.save_pretrained(folder)
    prompts = PromptConfig(chat="yes", template={"thinking": False})
    changed = load_config(config).model_copy(update={"model": str(folder), "prompts": prompts})
    run = TrainingRun(changed)
    message = [{"role": "user", "content": "rice"}]
    ids = encode_prompt(run.tokenizer, message)
    assert run.tokenizer.decode(ids).endswith("No thoughts.")
    judge, read = open_judge("j", str(folder), {}, changed.judge)
    anyio.run(judge.aclose)
    assert json.loads(read.chat_template_kwargs) == {"thinking": False}
    unknown = changed.model_copy(update={"prompts": PromptConfig(template={"nothing": 1})})
    with pytest.raises(CarbError, match="nothing"):
        TrainingRun(unknown)


def test_a_merged_model_keeps_the_change_of_its_adapters(
    config, tiny_folder, tmp_path, monkeypatch, backend
):
    """Adapters of a model in bfloat16; rounded to it, the merge would lose most of the change. Nor
    does a judge or an evaluation open it in bfloat16."""
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    from carb_scorers.models.hf_language import HFOptions
    from tal_rlvr.training_stages import TrainingRun

    lines = f"{config.read_text()}\n[lora]\nr = 4\nalpha = 8\n"
    config.write_text(
        lines.replace("max_new_tokens = 36", 'max_new_tokens = 36\ndtype = "bfloat16"')
    )
    train(load_config(config, {"warmup": {"steps": 4, "learning_rate": 1e-2}}))
    changes = 0
    out, warm = tmp_path / "out" / "model", tmp_path / "out" / "warmup"
    for folder, start in ((warm, tiny_folder), (out, warm)):
        base = AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32).state_dict()
        merged = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").state_dict()
        assert {weight.dtype for weight in merged.values()} == {torch.float32}
        adapter = load_file(folder / "adapter" / "adapter_model.safetensors")
        for name in (name for name in adapter if ".lora_A." in name):
            down, up = adapter[name].float(), adapter[name.replace("lora_A", "lora_B")].float()
            change = (up @ down) * 2  # alpha / r
            weight = name.removeprefix("base_model.model.").replace(".lora_A", "")
            kept = merged[weight] - base[weight]
            assert float((kept - change).norm()) <= 1e-3 * float(change.norm())
            changes += float(change.norm()) > 0
    assert changes > 0
    opened = []

    def opens(_target, options):
        opened.append(options.dtype)
        raise CarbError("enough")

    for name in ("vllm", "hf"):
        backend(name, HFOptions, opens)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    settings = read_think_settings(str(out))
    for folder, options in (
        (out, {"backend": "vllm"}),  # which would take bfloat16
        (out, {"backend": "vllm", "dtype": "bfloat16"}),
        (tiny_folder, {"backend": "vllm"}),
        (out, {}),  # transformers takes the dtype of the weights
    ):
        with pytest.raises(CarbError, match="enough"):
            open_judge("j", str(folder), options, settings)
    assert opened == ["float32", "bfloat16", "auto", "auto"]
    rows = ordered([ROW.pair], shuffle=False)
    for lora, dtype in (({}, "float32"), (None, "bfloat16")):
        run = TrainingRun(load_config(config, {"lora": lora, "out": str(tmp_path / dtype)}))
        with pytest.raises(CarbError, match="enough"):
            run.evaluate("before", tiny_folder, rows)
        assert opened[-1] == dtype
