"""The analyses of the registered experiments, on the raw results that are kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RAW = ROOT / "docs" / "experiments" / "raw"


def printed(script, *arguments):
    command = [sys.executable, str(ROOT / "benchmarks" / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_the_comparison_of_facts_repeats_what_the_page_says():
    out = printed("references.py", "analyse", "--file", RAW / "references.csv")
    assert "| others | 35 | 136 | 25.7% |" in out
    assert "| all | 63 | 136 | 46.3% |" in out
    assert "| all − others | +20.6 | [+9.9, +30.6] | 0.0001 | 30 | 2 |" in out
    page = (RAW.parent / "think-as-locals.md").read_text(encoding="utf-8")
    again = printed("references.py", "analyse", "--file", RAW / "references-again.csv").splitlines()
    assert [line for line in again if line not in page] == []


def test_the_page_says_what_the_runs_of_the_method_came_to():
    page = (RAW.parent / "think-as-locals.md").read_text(encoding="utf-8")
    lines = printed("think_as_locals.py", "analyse", "--file", RAW / "think-as-locals.csv").splitlines()
    assert [line for line in lines if line not in page] == []
    assert "| C+A − C | accuracy | 3 | 26 | +0.037 | [-0.026, +0.100] | 0.217 |" in lines
    second = ("analyse", "--file", RAW / "think-as-locals-second.csv")
    five, three = (printed("think_as_locals.py", *second, *more).splitlines() for more in ((), ("--seeds", "3")))
    assert [line for line in five + three if line not in page] == []
    assert "| C+A − C | accuracy | 3 | 17 | -0.013 | [-0.163, +0.138] | 0.752 |" in three
    assert "| C+A − C | accuracy | 5 | 17 | +0.002 | [-0.061, +0.066] | 0.914 |" in five


@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", "--file", RAW / "think-as-locals.csv", "--again", RAW / "think-as-locals-again.csv"),
        ("sensitivity", "--file", RAW / "think-as-locals-perturbed.csv"),
        ("sensitivity", "--file", RAW / "think-as-locals-second-perturbed.csv"),
    ],
    ids=["compare", "sensitivity", "sensitivity-second"],
)
def test_the_page_says_how_far_runs_repeat_and_what_perturbations_moved(arguments):
    page = (RAW.parent / "think-as-locals.md").read_text(encoding="utf-8")
    lines = printed("think_as_locals.py", *arguments).splitlines()
    assert len(lines) > 4
    assert [line for line in lines if line not in page] == []


def test_a_seed_that_lacks_an_arm_is_named_and_not_analysed(tmp_path):
    kept = (RAW / "think-as-locals.csv").read_text(encoding="utf-8").splitlines()
    file = tmp_path / "raw.csv"
    file.write_text("\n".join(line for line in kept if not line.startswith("2,control,")), encoding="utf-8")
    lines = printed("think_as_locals.py", "analyse", "--file", file).splitlines()
    assert lines[-1] == "Left out, since an arm is not finished: seed 2 (C, C+A, C+P, supervised)."
    assert not any(line.startswith("| C | 2 |") for line in lines)
    assert "| C+P | 0 | 2 of 80 | 1 | 0.500 |" in lines  # outcome 5: most of its verdicts cannot be read
    assert {line.split(" | ")[2] for line in lines if " − " in line} == {"2"}


def test_the_perturbed_sets_are_scored_by_the_start_and_the_arms_that_are_asked_for(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from think_as_locals import judge_folders

    for run in ("seed-0/C", "seed-0/C+A", "seed-0/C+P", "seed-1/C"):
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "result.json").touch()
    (tmp_path / "seed-1/C+A").mkdir()  # not finished
    assert judge_folders(tmp_path, ["C", "C+A"]) == {
        "start": tmp_path / "start/warmup",
        "C, seed 0": tmp_path / "seed-0/C/model",
        "C+A, seed 0": tmp_path / "seed-0/C+A/model",
        "C, seed 1": tmp_path / "seed-1/C/model",
    }


def test_the_page_says_what_the_distillation_came_to():
    page = (RAW.parent / "distillation.md").read_text(encoding="utf-8")
    lines = printed("distillation.py", "analyse", "--file", RAW / "distillation.csv").splitlines()
    assert [line for line in lines if line not in page] == []
    assert "| teacher − labels | -0.037 | [-0.091, +0.017] | 0.174 |" in lines


@pytest.fixture
def distillation(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import distillation

    return distillation


def test_the_students_of_the_distillation_learn_what_their_arm_says(distillation, tmp_path):
    """States that show what is right: labels and a teacher who is right teach it, labels by lot do not."""
    import json

    import numpy as np

    rng = np.random.default_rng(0)
    states, lines = {}, []
    for number in range(80):
        right = number % 4
        state = rng.normal(size=(4, 6)).astype(np.float32)
        state[right, 0] += 6
        states[f"s{number}"] = state
        lines.append({"id": f"s{number}", "family": f"f{number // 4}", "right": right,
                      "scores": [3.0 * (place == right) for place in range(4)]})  # fmt: skip
    np.savez(tmp_path / "states.npz", **states)
    (tmp_path / "sets.jsonl").write_text("\n".join(map(json.dumps, lines)))
    distillation.SEEDS, distillation.STEPS = 2, 100
    distillation.run(tmp_path, tmp_path / "raw.csv")
    table = distillation.analyse(tmp_path / "raw.csv")
    means = {line.split("|")[1].strip(): float(line.split("|")[2]) for line in table.splitlines()
             if line.startswith("|") and "[" in line and "−" not in line}  # fmt: skip
    assert min(means["teacher"], means["labels"]) > 0.75
    assert means["shuffled"] < 0.6
    assert "| teacher − labels |" in table


def test_the_teacher_arm_of_the_distillation_sees_no_label(distillation):
    entry = {"id": "s", "family": "f", "scores": [0.5, -1.0, 2.0, 0.0]}
    for seed in (0, 1):
        assert distillation.preferences({**entry, "right": 0}, "teacher", seed) == distillation.preferences(
            {**entry, "right": 3}, "teacher", seed
        )
