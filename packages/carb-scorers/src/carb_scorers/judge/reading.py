"""From a model's output to an ``Answer``: probabilities of the allowed answers, or a verdict that it wrote."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from carb_scorers.judge.modes import Answer, Ask
from carb_scorers.judge.verdicts import VerdictError, parse_pick, parse_rating
from carb_scorers.models.protocol import Choices, Failure, Generation, LanguageModel, Writing
from carb_scorers.scorer import ScoreError, Usage


@dataclass(frozen=True, slots=True)
class Read:
    """An answer with what it cost and what the model wrote."""

    answer: Answer
    usage: Usage
    text: str | None = None


async def read_probabilities(model: LanguageModel, asks: Sequence[Ask]) -> list[Read | Failure]:
    """Answers from one forward pass each; prompts that allow the same answers go together."""
    out: dict[int, Read | Failure] = {}
    by_labels: dict[tuple[str, ...], list[int]] = {}
    for index, ask in enumerate(asks):
        by_labels.setdefault(ask.labels, []).append(index)
    for labels, indices in by_labels.items():
        found = await model.next_logprobs([asks[i].prompt for i in indices], labels)
        for index, choices in zip(indices, found, strict=True):
            out[index] = choices if isinstance(choices, Failure) else _from_choices(asks[index], choices)
    return [out[index] for index in range(len(asks))]


async def read_verdicts(model: LanguageModel, asks: Sequence[Ask], writing: Writing) -> list[Read | Failure]:
    """Answers from what the model writes."""
    found = await model.generate([ask.prompt for ask in asks], writing)
    return [
        written if isinstance(written, Failure) else _from_text(ask, written)
        for ask, written in zip(asks, found, strict=True)
    ]


def normalised(choices: Choices, labels: Sequence[str]) -> dict[str, float] | str:
    """Log-probabilities among the labels, which sum to 1; or a text that says why there are none.

    A label that a server does not report counts with the least probability that it did report: an upper bound.
    """
    known = {label: choices.logprobs.get(label, choices.floor) for label in labels}
    missing = [label for label, value in known.items() if value is None]
    if missing or not any(label in choices.logprobs for label in labels):
        return f"the model's most probable tokens hold no {', '.join(missing or labels)}"
    values = {label: value for label, value in known.items() if value is not None}
    top = max(values.values())
    if not math.isfinite(top) or any(math.isnan(value) for value in values.values()):
        return "the model gave NaN or infinity"
    total = top + math.log(sum(math.exp(value - top) for value in values.values()))
    return {label: value - total for label, value in values.items()}


def _from_choices(ask: Ask, choices: Choices) -> Read | Failure:
    found = normalised(choices, ask.labels)
    if isinstance(found, str):
        kind = "non-finite" if "NaN" in found else "logprobs"
        return Failure(ScoreError(kind=kind, message=found), choices.usage)
    if ask.kind == "rating":
        values: tuple[float, ...] = (_expected(found, ask.wording.ratings),)
    else:
        values = tuple(found[label] for label in ask.labels)
    if not all(map(math.isfinite, values)):
        return Failure(ScoreError(kind="non-finite", message="an answer has probability 0"), choices.usage)
    return Read(Answer(values), choices.usage)


def _expected(logprobs: Mapping[str, float], ratings: Mapping[str, float]) -> float:
    return sum(ratings[label] * math.exp(value) for label, value in logprobs.items())


def _from_text(ask: Ask, written: Generation) -> Read | Failure:
    try:
        if ask.kind == "rating":
            values: tuple[float, ...] = (parse_rating(written.text, ask.wording),)
        else:
            pick = parse_pick(written.text, ask.labels, ask.wording)
            values = tuple(float(place == pick) for place in range(len(ask.labels)))
    except VerdictError as error:
        cut = "" if written.finished else "; the text was cut off, raise max_tokens"
        return Failure(ScoreError(kind="parse", message=f"{error}{cut}"), written.usage)
    return Read(Answer(values), written.usage, written.text)
