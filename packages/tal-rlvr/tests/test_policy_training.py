"""GRPO and DPO of a tiny policy against a scorer with a known taste."""

import csv
import json

import pytest

pytest.importorskip("trl", reason="needs the extra tal-rlvr[train]")
pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*is deprecated:FutureWarning")

from carb_data import CarbError  # noqa: E402
from tal_rlvr.policy import PolicyConfig, train_policy  # noqa: E402


@pytest.fixture
def task(tmp_path):
    """Twelve questions in BLEnD's form."""
    (tmp_path / "blend" / "annotations").mkdir(parents=True)
    (tmp_path / "blend" / "questions").mkdir()
    items = {
        f"q{n}": {
            "question": f"What {n}?",
            "en_question": f"What {n}?",
            "annotations": [{"answers": ["tea"], "en_answers": ["tea"], "count": 3}],
            "idks": {},
        }
        for n in range(12)
    }
    (tmp_path / "blend" / "annotations" / "UK_data.json").write_text(json.dumps(items))
    with (tmp_path / "blend" / "questions" / "UK_questions.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["ID", "Topic"], *([key, "Food"] for key in items)])
    return f"blend:{tmp_path / 'blend'}?places=UK"


def config(tmp_path, tiny_folder, task, **changes):
    fields = {
        "policy": str(tiny_folder),
        "scorer": "baseline:length",
        "task": task,
        "out": tmp_path / "out",
        "steps": 2,
        "generations": 4,
        "prompts_per_step": 1,
        "max_new_tokens": 8,
        "learning_rate": 1e-3,
        "eval_samples": 2,
        "shots": False,
    }
    return PolicyConfig(**{**fields, **changes})


@pytest.mark.parametrize("method", ["grpo", "dpo"])
def test_a_run_says_what_moved(tmp_path, tiny_folder, task, method):
    seen = []
    result = train_policy(config(tmp_path, tiny_folder, task, method=method), lambda *what: seen.append(what[0]))
    assert (tmp_path / "out" / "policy.json").exists()
    assert json.loads((tmp_path / "out" / "policy.json").read_text())["config"]["method"] == method
    assert {"before", "after", method} <= set(seen)
    assert [point.step for point in result.curve] == [1, 2]
    assert all(point.loss is not None for point in result.curve)
    assert result.before.prompts == result.after.prompts == 12 - result.train_prompts
    assert result.before.reward is not None
    assert result.before.grade is not None
    assert (result.pairs is None) == (method == "grpo")
    if method == "grpo":
        assert all(point.kl is not None and point.stats.answers == 4 for point in result.curve)
        assert result.curve[0].reward == pytest.approx(result.curve[0].stats.length, abs=1e-4)
    with pytest.raises(CarbError, match="holds a finished run"):
        train_policy(config(tmp_path, tiny_folder, task, method=method))


def test_lora_is_merged(tmp_path, tiny_folder, task):
    result = train_policy(config(tmp_path, tiny_folder, task, lora_rank=2, steps=1))
    from transformers import AutoModelForCausalLM

    assert "adapter" not in str(sorted(path.name for path in (tmp_path / "out" / "model").glob("*")))
    assert AutoModelForCausalLM.from_pretrained(result.model) is not None
