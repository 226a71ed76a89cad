"""Tasks for Inspect, found by it as ``carb_scorers/listwise`` through the entry-point group ``inspect_ai``."""

from __future__ import annotations

from typing import Any

from carb_data import load
from carb_data.extras import require
from carb_scorers.integrations.questions import listwise_questions
from carb_scorers.judge.form_files import read_form
from carb_scorers.judge.verdicts import VerdictError, parse_pick

__all__ = ["listwise"]

_inspect = require("inspect_ai", package="carb-scorers", extra="inspect")
_dataset = require("inspect_ai.dataset", package="carb-scorers", extra="inspect")
_model = require("inspect_ai.model", package="carb-scorers", extra="inspect")
_scorer = require("inspect_ai.scorer", package="carb-scorers", extra="inspect")
_solver = require("inspect_ai.solver", package="carb-scorers", extra="inspect")


# Inspect is imported when first used, so mypy does not see its decorators' types.
@_inspect.task  # type: ignore[untyped-decorator]
def listwise(
    data: str = "carb-seed@2", form: str = "culture", language: str = "en", max_tokens: int = 512, seed: int = 0
) -> Any:
    """Which answer is right for the culture? The question of ``judge:MODEL?mode=listwise&read=generate``.

    Args:
        data: a data set: ``carb-seed@2``, a file, or ``hf://owner/name``.
        form: The name of a judge's form (``carb scorers list``), or the path of a form file.
        language: The language of the instructions, or ``item`` for each item's own.
        max_tokens: The longest answer in tokens.
        seed: The seed of the order of answers, as for ``carb run``.
    """
    samples = [
        _dataset.Sample(
            id=question.item_id,
            input=[
                (_model.ChatMessageSystem if turn["role"] == "system" else _model.ChatMessageUser)(
                    content=turn["content"]
                )
                for turn in question.messages
            ],
            target=question.letters[question.right],
            metadata={"culture": question.culture, "domain": question.domain, "letters": question.letters},
        )
        for question in listwise_questions(load(data), form=form, reads=False, language=language, seed=seed)
    ]
    return _inspect.Task(
        dataset=_dataset.MemoryDataset(samples, name=data),
        solver=_solver.generate(),
        scorer=_verdict(form),
        config=_model.GenerateConfig(max_tokens=max_tokens, temperature=0.0),
        name="carb_listwise",
    )


# As above.
@_scorer.scorer(metrics=[_scorer.accuracy(), _scorer.stderr()], name="carb_verdict")  # type: ignore[untyped-decorator]
def _verdict(form: str) -> Any:
    """Whether the verdict that the model wrote names the right answer. A text without a verdict is unscored."""
    wording = read_form(form).wording("listwise")

    async def score(state: Any, target: Any) -> Any:
        letters, text = state.metadata["letters"], state.output.completion
        try:
            pick = letters[parse_pick(text, letters, wording)]
        except VerdictError as error:
            return _scorer.Score.unscored(reason="grader_failed", answer=text, explanation=f"parse: {error}")
        return _scorer.Score(value="C" if pick == target.text else "I", answer=pick, explanation=text)

    return score
