"""From a model's output to a judge's answer: probabilities of the allowed answers, or a verdict
that it wrote."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from carb_scorers.judge.form import Mode, Wording
from carb_scorers.judge.order_and_prompt import Ask
from carb_scorers.judge.verdict import VerdictError, parse_pick, parse_rating
from carb_scorers.models.chat_tokens import groups_of
from carb_scorers.models.protocol import (
    Choices,
    Failure,
    Generation,
    LanguageModel,
    Writing,
    failure,
    log_sum,
)
from carb_scorers.scorer import Usage

MOST_MASS = 1.01
"""Probability that the allowed answers can hold together, with what rounding adds."""


@dataclass(frozen=True, slots=True)
class Read:
    """A judge's answer to one prompt."""

    values: tuple[float, ...]
    """A value for each candidate in the presented order.

    Listwise: its letter's natural log-probability among the letters, or 1 for the pick and 0 for
    the rest. Pairwise: the share with which it won, two shares that sum to 1. Pointwise: one number
    on the scale.
    """
    usage: Usage
    text: str | None = None
    """The model's text."""
    mass: float | None = None
    """How much probability the allowed answers hold together; ``None`` where it was not
    measured."""


async def read_probabilities(
    model: LanguageModel, asks: Sequence[Ask], *, mode: Mode, wording: Wording, least_mass: float
) -> list[Read | Failure]:
    """Answers from one forward pass each; prompts that allow the same answers are asked together.

    A rating is the expected one, Σ r P(r) over the ratings' probabilities (Liu et al. 2023,
    "G-Eval", EMNLP).
    """
    out: dict[int, Read | Failure] = {}
    for indices in groups_of([ask.labels for ask in asks]):
        labels = asks[indices[0]].labels
        prompts = [asks[i].prompt for i in indices]
        logprobs = await model.next_logprobs(prompts, labels)
        for i, choices in zip(indices, logprobs, strict=True):
            if isinstance(choices, Failure):
                out[i] = choices
            else:
                out[i] = _from_choices(choices, labels, mode, wording, least_mass)
    return [out[i] for i in range(len(asks))]


def _from_choices(
    choices: Choices, labels: Sequence[str], mode: Mode, wording: Wording, least_mass: float
) -> Read | Failure:
    logprobs = among_labels(choices, labels, least_mass)
    if isinstance(logprobs, Failure):
        return logprobs
    values = tuple(logprobs.values())
    if mode != "listwise":
        values = tuple(map(math.exp, values))
    if mode == "pointwise":
        rating = 0.0
        for label, share in zip(labels, values, strict=True):
            rating += wording.ratings[label] * share
        values = (rating,)
    if not all(map(math.isfinite, values)):
        return failure("non-finite", "an answer has probability 0", choices.usage)
    return Read(values, choices.usage, mass=choices.mass)


async def read_verdicts(
    model: LanguageModel, asks: Sequence[Ask], *, mode: Mode, wording: Wording, writing: Writing
) -> list[Read | Failure]:
    """Answers from the model's text. A text that was cut off counts only if the verdict is its last
    thing."""
    generations = await model.generate([ask.prompt for ask in asks], writing)
    out: list[Read | Failure] = []
    for ask, written in zip(asks, generations, strict=True):
        if isinstance(written, Failure):
            out.append(written)
        else:
            out.append(_from_text(written, ask, mode, wording))
    return out


def _from_text(written: Generation, ask: Ask, mode: Mode, wording: Wording) -> Read | Failure:
    try:
        if mode == "pointwise":
            rating = parse_rating(written.text, wording, finished=written.finished)
            return Read((rating,), written.usage, written.text)
        pick = parse_pick(written.text, ask.labels, wording, finished=written.finished)
    except VerdictError as error:
        cut = ""
        if not written.finished:
            cut = f"; the text was cut off: {written.reason or 'raise max_tokens'}"
        return failure("parse", f"{error}{cut}", written.usage)
    count = len(ask.labels)
    if pick is None:  # a tie is shared
        return Read((1 / count,) * count, written.usage, written.text)
    values = tuple(float(position == pick) for position in range(count))
    return Read(values, written.usage, written.text)


def among_labels(
    choices: Choices, labels: Sequence[str], least_mass: float = 0.0
) -> dict[str, float] | Failure:
    """Log-probabilities among the labels, which sum to 1.

    A label that a server does not report counts with an upper bound of its probability. Fewer than
    two reported ones would leave nothing but bounds to compare.

    Args:
        choices: the model's probabilities of the labels.
        labels: the allowed answers.
        least_mass: the share of the probability that the labels must hold together. Below it the
            model does not answer with a label there, and the rest is noise.
    """
    known = [(label, choices.logprobs.get(label, choices.floor)) for label in labels]
    values = {label: value for label, value in known if value is not None}
    read = choices.logprobs.keys() & values
    allowed = ", ".join(labels)
    if len(values) < len(labels) or len(read) < min(2, len(labels)):
        reported = ", ".join(choices.logprobs) or "none"
        message = f"of {allowed} the most probable tokens hold {reported} alone"
        return failure("logprobs", message, choices.usage)
    is_number = any(map(math.isfinite, values.values()))
    if not is_number or any(map(math.isnan, values.values())):
        return failure("non-finite", "the model gave NaN or infinity", choices.usage)
    if choices.mass is not None and choices.mass > MOST_MASS:
        message = (
            f"the answers {allowed} hold {choices.mass:.0%} of the probability: the server repeats "
            "tokens, or its numbers are no natural logarithms; use read=generate"
        )
        return failure("logprobs", message, choices.usage)
    if choices.mass is not None and choices.mass < least_mass:
        message = (
            f"the answers {allowed} hold {choices.mass:.2%} of the probability, so the model says "
            "something else here; use read=generate, or close its thinking with "
            "chat_template_kwargs="
        )
        return failure("logprobs", message, choices.usage)
    total = log_sum(values.values())
    return {label: value - total for label, value in values.items()}
