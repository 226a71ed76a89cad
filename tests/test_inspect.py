"""The scorer for Inspect, in Inspect itself.

Runs where Inspect is installed: ``nox -s inspect``.
"""

import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "inspect_ai", reason="needs the extra carb-scorers[inspect]; run nox -s inspect"
)

from inspect_ai import Task
from inspect_ai import eval as evaluate_task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Scorer
from inspect_ai.solver import generate

from carb_scorers.integrations import as_inspect_scorer
from fake_scorer import FakeScorer

# What Inspect and its dependencies warn of is not ours to change.
pytestmark = [pytest.mark.inspect, pytest.mark.filterwarnings("ignore")]

PLACE = {"culture": "german", "language": "de"}


def run(scorer: Any, samples: list[Sample], outputs: list[str], folder: Path) -> Any:
    answers = [ModelOutput.from_content("mockllm/model", text) for text in outputs]
    for answer in answers:
        answer.usage = (
            ModelUsage()
        )  # or Inspect would count tokens, with a tokenizer from the network
    model = get_model("mockllm/model", custom_outputs=answers)
    task = Task(dataset=samples, solver=generate(), scorer=scorer)
    (log,) = evaluate_task(task, model=model, log_dir=str(folder), display="none", max_samples=1)
    return log


def values(log: Any) -> list[Any]:
    return [next(iter(sample.scores.values())) for sample in log.samples]


def test_a_rating_of_the_output(tmp_path: Path) -> None:
    scorer = as_inspect_scorer("baseline:length")
    assert isinstance(scorer, Scorer)
    samples = [
        Sample(input="Was?", target="", metadata=PLACE),
        Sample(input="Wer?", target="", metadata=PLACE),
    ]
    log = run(scorer, samples, ["vier", "sechs!"], tmp_path)
    assert log.status == "success"
    assert [score.value for score in values(log)] == [4.0, 6.0]
    metrics = log.results.scores[0].metrics
    assert metrics["mean"].value == 5.0
    assert "stderr" in metrics


def test_a_judge_compares_with_the_targets(tmp_path: Path) -> None:
    judge = FakeScorer()
    chat = [ChatMessageSystem(content="Kurz."), ChatMessageUser(content="Was?")]
    samples = [
        Sample(input="Was?", target=["eins", "zwölf"], metadata=PLACE),
        Sample(input=chat, target="eins", metadata=PLACE),
    ]
    log = run(as_inspect_scorer(judge), samples, ["am längsten", "ja"], tmp_path)
    assert [(score.value, score.explanation) for score in values(log)] == [
        (6.0, "why"),
        (-2.0, "why"),
    ]
    first, second = judge.requests
    assert sorted(c.text for c in first.candidates) == ["am längsten", "eins", "zwölf"]
    assert [(turn.role, turn.content) for turn in second.prompt] == [
        ("system", "Kurz."),
        ("user", "Was?"),
    ]


def test_what_could_not_be_scored_is_unscored(tmp_path: Path) -> None:
    samples = [
        Sample(input="Was?", target="eins", metadata=PLACE),
        Sample(input="Wer?", target="eins", metadata=PLACE),
    ]
    log = run(as_inspect_scorer(FakeScorer()), samples, ["bad", "zwei!"], tmp_path)
    assert log.status == "success"
    bad, good = values(log)
    assert math.isnan(bad.value)
    assert bad.explanation == "parse: no verdict"
    assert good.value == 1.0
    assert log.results.scores[0].metrics["mean"].value == 1.0


@pytest.mark.parametrize(
    ("scorer", "sample", "said"),
    [
        (
            "baseline:label",
            Sample(input="Was?", target=""),
            "culture of each prompt: add it to the metadata",
        ),
        (
            FakeScorer(),
            Sample(input="Was?", target="", metadata=PLACE),
            "no target to compare with",
        ),
    ],
)
def test_what_is_missing_is_said(tmp_path: Path, scorer: Any, sample: Sample, said: str) -> None:
    log = run(as_inspect_scorer(scorer), [sample], ["x"], tmp_path)
    assert log.status == "error"
    assert said in log.error.message
