"""The listwise question in lm-evaluation-harness and in Inspect: item by item what ``carb run`` says of the same model.

Runs where both are installed: ``nox -s harnesses``.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lm_eval", reason="needs lm-evaluation-harness; run nox -s harnesses")
pytest.importorskip("inspect_ai", reason="needs the extra carb-scorers[inspect]; run nox -s harnesses")
pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")

import tiny_models
from carb_data import Dataset, load
from carb_scorers import evaluate
from carb_scorers.integrations.questions import listwise_questions, write_lm_eval_tasks

pytestmark = pytest.mark.filterwarnings("default")

FORM = (
    "title = 'any letter'\n[listwise]\nverdict = '([A-Da-d])'\ntake = 'last'\n"
    "user = '{{ prompt }}{% for c in candidates %} ({{ c.letter }}) {{ c.text }}{% endfor %}'\n"
)


@pytest.fixture(scope="module")
def sets() -> Dataset:
    return Dataset([item.model_copy(update={"perturbed": ()}) for item in list(load("carb-seed"))[::20]])


def model_folder(paths: Any, *, chat: bool) -> Path:
    """A tiny model that every question fits: lm-evaluation-harness cuts a longer one, ``carb run`` refuses it."""
    base = paths.getbasetemp() / "tiny"
    return tiny_models.folder(base, "llama", "CausalLM", chat=chat, pad="<pad>", max_position_embeddings=4096)


def ours(sets: Dataset, spec: str) -> dict[str, dict[str, float | None]]:
    """Item to response id to score."""
    found: dict[str, dict[str, float | None]] = {}
    for row in evaluate(sets, [spec]).frame.to_dicts():
        found.setdefault(row["item_id"], {})[row["response_id"]] = row["score"]
    return found


def right(sets: Dataset, scores: dict[str, dict[str, float | None]]) -> dict[str, bool | None]:
    """Whether the right answer has the highest score; ``None`` without scores."""
    out: dict[str, bool | None] = {}
    for item in sets:
        own = scores[item.id]
        known = [value for value in own.values() if value is not None]
        chosen = own[item.chosen.id]
        out[item.id] = None if chosen is None or len(known) < len(own) else chosen == max(known)
    return out


@pytest.mark.parametrize("chat", [True, False], ids=["chat", "base"])
def test_lm_evaluation_harness_agrees_item_by_item(
    chat: bool, sets: Dataset, tmp_path: Path, tmp_path_factory: Any
) -> None:
    from lm_eval.evaluator import simple_evaluate
    from lm_eval.tasks import TaskManager

    model = model_folder(tmp_path_factory, chat=chat)
    task = write_lm_eval_tasks(sets, tmp_path / "tasks")[0 if chat else 1]
    done = simple_evaluate(
        model="hf",
        model_args={"pretrained": str(model), "dtype": "float32", "add_bos_token": not chat},
        tasks=[task],
        task_manager=TaskManager(include_path=str(tmp_path / "tasks"), include_defaults=False),
        apply_chat_template=chat,
        batch_size=1,
        device="cpu",
        log_samples=True,
        bootstrap_iters=0,
    )
    scores = ours(sets, f"judge:{model}?mode=listwise&read=logprob")
    judged = right(sets, scores)
    samples = done["samples"][task]
    assert len(samples) == len(sets)
    for sample in samples:
        document = sample["doc"]
        assert bool(sample["acc"]) == judged[document["item_id"]]
        theirs = [float(value[0][0] if isinstance(value[0], list | tuple) else value[0]) for value in sample["resps"]]
        total = math.log(sum(math.exp(value) for value in theirs))
        own = sorted(value for value in scores[document["item_id"]].values() if value is not None)
        assert own == pytest.approx(sorted(value - total for value in theirs), abs=1e-4)
    assert done["results"][task]["acc,none"] == pytest.approx(sum(map(bool, judged.values())) / len(sets))


def test_inspect_agrees_item_by_item(
    sets: Dataset, tmp_path: Path, tmp_path_factory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from inspect_ai import eval as evaluate_task
    from inspect_ai.model import get_model

    from carb_scorers.integrations.inspect_tasks import listwise

    model = model_folder(tmp_path_factory, chat=True)
    form = tmp_path / "any.toml"
    form.write_text(FORM)
    data = tmp_path / "sets.jsonl"
    sets.save(data)
    asked = get_model(f"hf/{model.name}", model_path=str(model), device="cpu", do_sample=False)
    task = listwise(data=str(data), form=str(form), max_tokens=40)
    (log,) = evaluate_task(task, model=asked, log_dir=str(tmp_path / "logs"), display="none", max_samples=1)
    assert log.status == "success", log.error
    judged = right(sets, ours(sets, f"judge:{model}?form={form}&max_tokens=40"))
    said: dict[str, bool | None] = {}
    for sample in log.samples:
        (score,) = sample.scores.values()
        said[sample.id] = score.value == "C" if score.value in ("C", "I") else None
    assert said == judged
    assert len({*said.values()} - {None}) == 2, "the model answers some rightly and some wrongly"


def test_inspect_finds_the_task_by_its_name() -> None:
    from inspect_ai._util.entrypoints import ensure_entry_points
    from inspect_ai._util.registry import registry_find, registry_info

    ensure_entry_points("carb_scorers")
    names = [registry_info(found).name for found in registry_find(lambda info: info.type == "task")]
    assert "carb_scorers/listwise" in names


def test_the_questions_are_those_of_a_run(sets: Dataset, tmp_path: Path) -> None:
    write_lm_eval_tasks(sets, tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "carb.jsonl").read_text().splitlines()]
    for row, question, item in zip(rows, listwise_questions(sets, reads=True), sets, strict=True):
        assert row["item_id"] == item.id
        assert row["question"] == question.messages[0]["content"]
        line = f"({row['letters'][row['right']]}) {item.chosen.text}"
        assert line in row["question"]
