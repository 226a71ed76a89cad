"""GRPO and DPO of a tiny policy against a scorer with a known taste."""

import csv
import json
import shutil

import anyio
import pytest

pytest.importorskip("trl", reason="needs the extra tal-rlvr[train]")

from carb_data import CarbError
from tal_rlvr.policy import PolicyConfig, train_policy
from tal_rlvr.policy.divergence import answer_divergences


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
        "limits": {"window": 4},
    }
    return PolicyConfig(**{**fields, **changes})


@pytest.mark.parametrize("method", ["grpo", "dpo"])
def test_a_run_says_what_moved(tmp_path, tiny_folder, task, method):
    seen, told = [], {}

    def log(what, done, total, detail):
        seen.append(what)
        if what == method:
            assert total == 2
            told[done] = detail

    result = train_policy(config(tmp_path, tiny_folder, task, method=method), log)
    assert (tmp_path / "out" / "policy.json").exists()
    assert json.loads((tmp_path / "out" / "policy.json").read_text())["config"]["method"] == method
    assert {"before", "after", method} <= set(seen)
    assert [point.step for point in result.curve] == [1, 2]
    assert all(point.loss is not None for point in result.curve)
    assert result.before.prompts == result.after.prompts == 12 - result.train_prompts
    assert result.before.reward is not None
    assert result.before.grade is not None
    assert (result.pairs is None) == (method == "grpo")
    assert all(point.kl is not None and point.kl >= 0 for point in result.curve)
    assert result.before.kl is None
    assert result.after.kl > 0.001  # a step at this rate is felt
    if method == "grpo":
        assert all(point.stats.answers == 4 for point in result.curve)
        assert result.curve[0].reward == pytest.approx(result.curve[0].stats.length, abs=1e-4)
        assert "reward" in told[1]
        assert "KL" in told[1]
    else:
        assert all(point.margin is not None and point.reward is not None for point in result.curve)
        assert "margin" in told[1]
    assert result.change.value == pytest.approx(result.after.grade - result.before.grade)
    items = {f"blend:q{n}" for n in range(12)}
    assert len(result.train_items) == result.train_prompts
    assert set(result.train_items) < items
    with pytest.raises(CarbError, match="holds a finished run"):
        train_policy(config(tmp_path, tiny_folder, task, method=method))


@pytest.mark.parametrize("method", ["grpo", "dpo"])
def test_it_can_be_called_where_an_event_loop_runs(tmp_path, tiny_folder, task, method):
    """As in a notebook; the numbers are the same."""

    async def cell():
        return train_policy(config(tmp_path, tiny_folder, task, method=method, out=tmp_path / "within"))

    within = anyio.run(cell).model_dump(exclude={"model", "config"})
    without = train_policy(config(tmp_path, tiny_folder, task, method=method, out=tmp_path / "without"))
    assert within == without.model_dump(exclude={"model", "config"})


def test_alarms_are_raised_in_a_run(tmp_path, tiny_folder, task):
    """A high rate, and a limit that any move passes: the divergence rings in training and after it."""
    limits = {"window": 4, "kl": 1e-6, "length": 1e9, "repetition": 9, "same": 9, "empty": 9, "language": 9}
    result = train_policy(config(tmp_path, tiny_folder, task, limits=limits, steps=3, learning_rate=1e-2))
    rung = [(alarm.kind, alarm.step) for alarm in result.alarms]
    assert ("kl", None) in rung
    assert any(kind == "kl" and step in (2, 3) for kind, step in rung)
    assert [a["kind"] for a in json.loads((tmp_path / "out" / "policy.json").read_text())["alarms"]] == [
        kind for kind, _ in rung
    ]


def test_the_divergence_is_that_of_whole_sequences(tiny_folder, tiny_tokenizer, tiny_model):
    """Against passes over each whole sequence alone, from the log-probabilities."""
    import torch
    from transformers import AutoModelForCausalLM

    other = AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(torch.randn_like(parameter, generator=None) * 0.02)
    model = tiny_model.eval()
    prompt, answers, places = [5, 6, 7], [[8, 9, 10], [11], []], [4, 1, 1]
    found = answer_divergences(model, other, prompt, answers, places, 0.7)
    for kl, answer, count in zip(found, answers, places, strict=True):
        ids = torch.tensor([[*prompt, *answer]])
        with torch.no_grad():
            p, q = (torch.log_softmax(one(input_ids=ids).logits[0, 2:] / 0.7, -1) for one in (model, other))
        assert kl == pytest.approx(float((p.exp() * (p - q)).sum(-1)[:count].sum()), rel=1e-4)
        assert kl > 0
    assert answer_divergences(model, model, prompt, answers, places) == pytest.approx([0, 0, 0], abs=1e-6)


def test_further_tasks_are_evaluated_before_and_after(tmp_path, tiny_folder, task):
    further = f"{task}&match=exact"
    result = train_policy(config(tmp_path, tiny_folder, task, eval_tasks=[further], steps=1))
    (change,) = result.tasks
    assert change.task == further
    assert change.before.prompts == change.after.prompts == 12 - result.train_prompts
    assert change.after.grade is not None
    assert (change.after.reward, change.after.kl) == (None, None)


def test_an_interrupted_run_does_not_train_again(tmp_path, tiny_folder, task, monkeypatch):
    from tal_rlvr.policy import grpo, run

    evaluate = run.evaluate

    def stops(*given, **options):
        if given[3] == "after":
            raise KeyboardInterrupt
        return evaluate(*given, **options)

    monkeypatch.setattr(run, "evaluate", stops)
    with pytest.raises(KeyboardInterrupt):
        train_policy(config(tmp_path, tiny_folder, task))
    monkeypatch.setattr(run, "evaluate", evaluate)
    monkeypatch.setattr(grpo, "optimise", None)
    assert len(train_policy(config(tmp_path, tiny_folder, task)).curve) == 2
    (tmp_path / "out" / "policy.json").unlink()
    with pytest.raises(CarbError, match="other settings"):
        train_policy(config(tmp_path, tiny_folder, task, steps=3))


def test_a_base_model_keeps_its_own_ends(tmp_path, tiny_folder, task):
    """In training the end of a line ends its answers; afterwards it may write several lines again."""
    from transformers import AutoTokenizer, GenerationConfig

    base = tmp_path / "base"
    shutil.copytree(tiny_folder, base)
    (base / "chat_template.jinja").unlink()
    assert AutoTokenizer.from_pretrained(base).chat_template is None
    result = train_policy(config(tmp_path, base, task, steps=1))
    was, now = (GenerationConfig.from_pretrained(folder).eos_token_id for folder in (base, result.model))
    assert was == now
    assert result.after.kl is not None


@pytest.mark.parametrize("method", ["grpo", "dpo"])
def test_lora_is_merged(tmp_path, tiny_folder, task, method):
    result = train_policy(config(tmp_path, tiny_folder, task, lora_rank=2, steps=1, method=method))
    assert result.curve[-1].kl is not None
    from transformers import AutoModelForCausalLM

    assert "adapter" not in str(sorted(path.name for path in (tmp_path / "out" / "model").glob("*")))
    assert AutoModelForCausalLM.from_pretrained(result.model) is not None
