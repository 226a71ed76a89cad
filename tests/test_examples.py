"""The scripts under examples/, run small. What needs a library of its own skips where that library
is missing."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import subprocess
import sys
import tokenize
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

import tiny_models
from carb_data import Dataset, load
from carb_scorers import evaluate
from small_sets import write_blend
from tal_rlvr.judgement import write_judgement

EXAMPLES = Path(__file__).parents[1] / "examples"


def module(path: str) -> ModuleType:
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, EXAMPLES / path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def run(path: str, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / path), *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.fixture
def sets(tmp_path: Path) -> Path:
    """A few sets of the seed, without their perturbed texts."""
    kept = [item.model_copy(update={"perturbed": ()}) for item in list(load("carb-seed"))[::60]][:8]
    Dataset(kept).save(tmp_path / "sets.jsonl")
    return tmp_path / "sets.jsonl"


@pytest.fixture
def judge_config(tmp_path: Path) -> Path:
    rows = [
        {"prompt": f"q {n}", "chosen": f"rice {n}", "rejected": f"tea {n}", "source_item": f"s{n}"}
        for n in range(40)
    ]
    rows[0]["rejected"] = "Verdict: A"
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    file = tmp_path / "run.toml"
    file.write_text(
        f'preset = "demo-cpu"\nmodel = "none"\nout = "{tmp_path}/out"\n[mix]\nheld_out = 0.3\n'
        f'sources = [{{ form = "preference", path = "{tmp_path}/pairs.jsonl" }}]\n'
    )
    return file


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return tiny_models.folder(tmp_path / "models", "llama", "CausalLM", chat=True, pad="<pad>")


def test_every_example_has_a_line_and_is_read_in_a_sitting() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in EXAMPLES.iterdir():
        if path.name == "__pycache__":
            continue
        assert path.name == "README.md" or f"`{path.name}{'/' if path.is_dir() else ''}`" in page
    for script in EXAMPLES.rglob("*.py"):
        tokens = len(
            list(tokenize.generate_tokens(io.StringIO(script.read_text("utf-8")).readline))
        )
        assert tokens <= 3_500, script
    assert "Usage: python examples/demo.py MODEL" in run("demo.py").stderr  # and no traceback


@pytest.mark.real
def test_the_first_training_run_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    """Two steps of it; its curve is measured on the page of training."""
    pytest.importorskip("trl", reason="needs tal-rlvr[train]")
    folder = tmp_path / "first"
    done = run("first_judge.py", folder, "--warmup", 2, "--steps", 2)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads((folder / "judge" / "result.json").read_text())
    assert [step["format_rate"] >= 0 for step in result["curve"]] == [True, True]
    assert result["dropped_pairs"] == 0
    assert result["held_out_pairs"] == 60
    assert "entropy" in done.stdout


@pytest.mark.real
@pytest.mark.parametrize("method", ["grpo", "dpo"])
def test_a_policy_is_optimised_and_looked_at(
    method: str, tiny: Path, sets: Path, tmp_path: Path
) -> None:
    """A rate that breaks the policy raises the alarms."""
    pytest.importorskip("trl", reason="needs tal-rlvr[train]")
    pytest.importorskip("lingua", reason="needs carb-data[checks]")
    words = [
        "--policy",
        tiny,
        "--data",
        sets,
        "--scorer",
        "baseline:length",
        "--judge",
        "baseline:random",
    ]
    words += [
        "--out",
        tmp_path / "out",
        "--method",
        method,
        "--steps",
        3,
        "--generations",
        2,
        "--max-new-tokens",
        8,
    ]
    done = run(
        "optimise_policy.py", *words, "--looks", 3, "--learning-rate", 0.05, "--held-out", 0.5
    )
    assert done.returncode in (0, 1), done.stderr[-3000:]
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert done.returncode == bool(report["alarms"])
    assert {"reward", "judge", "length", "same", "empty"} <= set(report["before"])
    assert report["after"]["kl"] > 0
    assert (report["after"]["kl"] > 10) == any(told.startswith("kl") for told in report["alarms"])
    assert (tmp_path / "out" / "model" / "config.json").is_file()


def test_a_change_is_told_where_its_interval_leaves_out_zero() -> None:
    pytest.importorskip("trl", reason="needs tal-rlvr[train]")
    change = module("optimise_policy.py").change
    many = [f"item {number}" for number in range(60)]

    def shown(late: list[float | None], items: list[str]) -> str:
        return change([0.5] * len(items), late, items, "same")["shown"]

    assert shown([0.9] * 60, many) == "rose"
    assert shown([0.1] * 60, many) == "fell"
    assert shown([0.9, 0.2] * 30, many) == "not shown"
    assert shown([0.9] * 3, many[:3]) == "not shown"
    assert shown([0.9] * 60, ["one item"] * 60) == "not shown"
    assert shown([None] * 60, many) == "not shown"
    assert change([0.5] * 60, [None, 0.9] * 30, many, "same")["prompts"] == 30


def test_the_alarms_tell_what_moved_too_far_and_was_shown() -> None:
    pytest.importorskip("trl", reason="needs tal-rlvr[train]")
    script = module("optimise_policy.py")
    early = {"reward": 0.1, "judge": 0.2, "length": 80.0, "empty": 0.0, "language": 1.0}
    early |= {"repetition": 0.1, "same": 0.0}
    late = {"reward": 0.9, "judge": 0.1, "length": 200.0, "empty": 0.3, "language": 0.5}
    late |= {"repetition": 0.4, "same": 1.0}

    def told(late: dict[str, float], prompts: int, kl: float) -> list[str]:
        items = [f"item {number}" for number in range(prompts)]
        changes = {
            name: script.change([was] * prompts, [late[name]] * prompts, items, name)
            for name, was in early.items()
        }
        return [one.partition(":")[0] for one in script.alarms(early, late, changes, kl)]

    names = ["length", "language", "repetition", "same", "empty", "kl", "overoptimised"]
    assert told(late, 60, 12.0) == names
    assert told(late, 1, 12.0) == ["kl"]  # one prompt shows no change
    assert told(early, 60, 1.0) == []


def test_the_divergence_is_that_of_the_next_tokens(tiny: Path) -> None:
    pytest.importorskip("trl", reason="needs tal-rlvr[train]")
    import torch
    from transformers import AutoModelForCausalLM

    start = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32)
    policy = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32)
    with torch.no_grad():
        policy.lm_head.weight.mul_(1.5)
        own, other = (
            m(input_ids=torch.tensor([[5, 6, 7, 8]])).logits[0, 1:3].log_softmax(-1)
            for m in (policy, start)
        )
    by_hand = sum(float((p.exp() * (p - q)).sum()) for p, q in zip(own, other, strict=True))
    divergence = module("optimise_policy.py").divergence
    assert divergence(policy, start, [{"ids": ([5, 6], [7, 8])}], 1.0) == pytest.approx(
        by_hand, abs=1e-5
    )
    assert divergence(start, start, [{"ids": ([5, 6], [7, 8])}], 1.0) == 0


@pytest.mark.real
@pytest.mark.parametrize("teacher", ["labels", "baseline:length"])
def test_a_student_learns_what_its_teacher_prefers(
    teacher: str, tiny: Path, sets: Path, tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="needs tal-rlvr[train]")
    words = ["--teacher", teacher, "--student", tiny, "--data", sets, "--out", tmp_path / "rm"]
    words += ["--batch-size", 4, "--temperature", 0.1]
    done = run("distil_student.py", *words, "--steps", 100, "--learning-rate", 0.003)
    assert done.returncode == 0, done.stderr[-3000:]
    data = load(str(sets))
    scores = evaluate(data, [f"classifier:{tmp_path / 'rm'}", "baseline:length"]).frame
    wide = scores.pivot("scorer", index=["item_id", "response_id", "role"], values="score").sort(
        "item_id"
    )
    student, length = (wide[wide.columns[n]].to_list() for n in (3, 4))
    wanted = [row["role"] == "chosen" for row in wide.to_dicts()] if teacher == "labels" else length
    agree = [
        (student[i] > student[j]) == (wanted[i] > wanted[j])
        for i, j in combinations(range(len(wide)), 2)
        if wide["item_id"][i] == wide["item_id"][j] and wanted[i] != wanted[j]
    ]
    assert sum(agree) / len(agree) > 0.9


def test_a_language_model_harness_gets_the_question_of_carb_run(sets: Path, tmp_path: Path) -> None:
    pytest.importorskip("jinja2", reason="needs the extra carb-scorers[language]")
    written = run(
        "lm_eval/write_tasks.py", "--data", sets, "--out", tmp_path / "tasks"
    ).stdout.split()
    assert written == ["carb", "carb_base"]
    rows = [
        json.loads(line) for line in (tmp_path / "tasks" / "carb.jsonl").read_text().splitlines()
    ]
    data = load(str(sets))
    assert [row["item_id"] for row in rows] == [item.id for item in data]
    for row, item in zip(rows, data, strict=True):
        assert f"{row['letters'][row['right']]}" in "ABCD"
        assert all(response.text in row["question"] for response in item.responses)


@pytest.mark.real
@pytest.mark.parametrize("chat", [True, False], ids=["chat", "base"])
def test_lm_evaluation_harness_agrees_with_carb_run_item_by_item(
    chat: bool, sets: Path, tmp_path: Path
) -> None:
    pytest.importorskip(
        "lm_eval", reason="needs lm-evaluation-harness, in an environment of its own"
    )
    from lm_eval.evaluator import simple_evaluate
    from lm_eval.tasks import TaskManager

    model = tiny_models.folder(
        tmp_path / "models",
        "llama",
        "CausalLM",
        chat=chat,
        pad="<pad>",
        max_position_embeddings=4096,
    )
    assert (
        run("lm_eval/write_tasks.py", "--data", sets, "--out", tmp_path / "tasks").returncode == 0
    )
    done = simple_evaluate(
        model="hf",
        model_args={"pretrained": str(model), "dtype": "float32", "add_bos_token": not chat},
        tasks=["carb" if chat else "carb_base"],
        task_manager=TaskManager(include_path=str(tmp_path / "tasks"), include_defaults=False),
        apply_chat_template=chat,
        batch_size=1,
        device="cpu",
        log_samples=True,
        bootstrap_iters=0,
    )
    (samples,) = done["samples"].values()
    frame = evaluate(
        load(str(sets)), [f"judge:{model}?mode=listwise&read=logprob&least_mass=0"]
    ).frame
    for sample in samples:
        own = frame.filter(pl.col("item_id") == sample["doc"]["item_id"]).sort(
            "score", descending=True
        )
        assert bool(sample["acc"]) == (own["role"].cast(str)[0] == "chosen")


def test_the_judge_s_task_for_verl(judge_config: Path, tmp_path: Path) -> None:
    assert run("verl/judge_task.py", judge_config, tmp_path / "data").returncode == 0
    rows = pl.read_parquet(tmp_path / "data" / "train.parquet").to_dicts()
    held = pl.read_parquet(tmp_path / "data" / "held-out.parquet").to_dicts()
    assert not {r["extra_info"]["source_item"] for r in rows} & {
        r["extra_info"]["source_item"] for r in held
    }
    labels = [row["reward_model"]["ground_truth"] for row in rows]
    assert labels.count("A") == labels.count("B") > 10
    assert any(row["extra_info"]["strict"] for row in (*rows, *held))
    compute_score = module("verl/judge_task.py").compute_score
    right = write_judgement([("fact", "known there", 3, "A")], "It fits.", "A")
    assert compute_score("x", right, "A", {"strict": True}) == {
        "score": 1.0,
        "well_formed": 1.0,
        "readable": 1.0,
    }
    assert compute_score("x", "**Verdict: A**", "A", {"strict": False})["score"] == 1.0
    assert compute_score("x", "**Verdict: A**", "A")["score"] == -1.0


@pytest.mark.real
@pytest.mark.filterwarnings("ignore")
def test_verifiers_loads_and_scores_the_judge_s_task(
    judge_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vf: Any = pytest.importorskip(
        "verifiers.v1", reason="needs verifiers, in an environment of its own"
    )
    import anyio
    from verifiers.v1.utils.loaders import load_taskset

    monkeypatch.syspath_prepend(EXAMPLES / "verifiers")
    from tal_judge import JudgeConfig

    taskset = load_taskset(JudgeConfig(id="tal-judge", config_file=str(judge_config)))
    tasks = list(taskset)
    labels = [task.data.label for task in tasks]
    assert labels.count("A") == labels.count("B") > 10
    task = next(task for task in tasks if task.data.label == "B" and not task.data.strict)

    def scored(output: str) -> tuple[float, dict[str, float]]:
        agent = vf.AgentInfo(config=vf.AgentConfig())
        trace = vf.Trace(
            task=vf.TraceTask(type="JudgeTask", data=task.data), agent=agent, root_reply=output
        )
        anyio.run(task.score, trace)
        return trace.reward, trace.metrics

    right, wrong = (write_judgement([("fact", "known there", 3, v)], "It fits.", v) for v in "BA")
    assert scored(right) == (1.0, {"well_formed": 1.0, "readable": 1.0})
    assert scored(wrong)[0] == -1.0
    assert scored("**Verdict: B**") == (1.0, {"well_formed": 0.0, "readable": 1.0})
    assert scored("no idea") == (-1.0, {"well_formed": 0.0, "readable": 0.0})


def test_the_study_writes_what_validity_reads(tmp_path: Path) -> None:
    annotation = {"answers": ["tea"], "en_answers": ["tea"], "count": 3}
    items = {
        f"q{n}": {
            "question": f"{n}?",
            "en_question": f"{n}?",
            "annotations": [annotation],
            "idks": {},
        }
        for n in range(6)
    }
    write_blend(tmp_path / "blend", {"UK": items})
    answers = ["tea", "milk and tea", "beer", "water"]
    rows = [
        {"prompt_id": f"UK/{key}/en", "responses": answers[n % 4 :] + answers[: n % 4]}
        for n, key in enumerate(items)
    ]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words: list[object] = ["--out", tmp_path / "study", "--limit", 24, "--n", 4]
    words += [
        "--scorer",
        "long=baseline:length",
        *(f"luck{n}=baseline:random?seed={n}" for n in range(4)),
    ]
    words += ["--benchmark", "seed=carb-seed", "--policy", f"file=file:{tmp_path / 'r.jsonl'}"]
    words += ["--task", f"uk=blend:{tmp_path / 'blend'}?places=UK"]
    done = run("validity_study.py", *words)
    assert "5 reward models" in done.stdout, done.stderr
    points = sorted((tmp_path / "study" / "points").glob("*.csv"))
    assert [file.stem for file in points] == [
        "seed-accuracy--file-uk",
        "seed-place-win-rate--file-uk",
    ]
    assert set(pl.read_csv(points[0])["scorer"]) == {"long", "luck0", "luck1", "luck2", "luck3"}
