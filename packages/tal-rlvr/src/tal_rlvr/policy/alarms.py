"""Is the policy getting better, or only better at pleasing its reward model?

A policy that is optimised against a proxy may raise the proxy by what the proxy overlooks (Gao, Schulman and Hilton
2023, Scaling laws for reward model overoptimization, ICML): longer answers (Singhal et al. 2023, arXiv:2310.03716),
another language, the same words again. Each is measured on the policy's own samples, before training and during it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from carb_data import CarbError, MissingExtraError
from carb_data.language import in_language
from carb_data.models import Frozen
from carb_data.options import closest
from carb_data.validation import validate

_GRAM = 3


class TextStats(Frozen):
    """What can be said of answers without knowing whether they are right. Null where there is nothing to count."""

    answers: int
    length: float | None
    """Mean characters."""
    empty: float | None
    """Share without any text."""
    in_language: float | None
    """Share in the language of their prompt; null without the extra ``carb-data[checks]``."""
    repetition: float | None
    """Share of an answer's word triples that it has already used, averaged over the answers with two or more."""
    same: float | None
    """Chance that two different samples of one prompt are the same text: 1 is a policy that has collapsed."""


_Share = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Limits(Frozen):
    """How far a measure may move from where it was before training. All values are ours."""

    length: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.5
    """Factor, in either direction."""
    language: _Share = 0.1
    """Fall of the share in the prompt's language."""
    repetition: _Share = 0.1
    """Rise."""
    same: _Share = 0.4
    """Rise."""
    empty: _Share = 0.1
    """Rise."""
    kl: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 10.0
    """Nats per answer."""
    grade: _Share = 0.02
    """Fall of a task's grade while the reward rises."""
    window: Annotated[int, Field(ge=1)] = 64
    """Answers that are measured together during training, the latest ones: fewer say little."""


def read_limits(texts: Sequence[str]) -> Limits:
    """Limits as written on a command line, each ``name=number``; those that are not named keep their values.

    Raises:
        CarbError: an unknown or repeated name, or a number that is none or out of its range.
    """
    given: dict[str, str] = {}
    for text in texts:
        name, separator, value = (part.strip() for part in text.partition("="))
        if not separator:
            raise CarbError(f"The limit '{text}' is not of the form name=number, for example length=2.")
        if name not in Limits.model_fields:
            guess = closest(name, Limits.model_fields)
            raise CarbError(f"There is no limit '{name}'.{guess} There are: {', '.join(Limits.model_fields)}.")
        if name in given:
            raise CarbError(f"The limit '{name}' is given twice.")
        given[name] = value
    return validate(Limits, given, "These limits are not right")


class Alarm(Frozen):
    """Something that moved too far."""

    kind: Literal["length", "language", "repetition", "collapse", "empty", "kl", "overoptimised"]
    step: int | None
    """Step of training; null for the evaluation at its end."""
    before: float | None
    now: float
    message: str


def text_stats(answers: Sequence[str], prompts: Sequence[str], languages: Sequence[str]) -> TextStats:
    """Measure answers.

    Args:
        answers: the n answers to measure.
        prompts: (n,) what each answers; answers of one prompt are compared with each other.
        languages: (n,) BCP 47 tag of each prompt.
    """
    n = len(answers)
    if not n:
        return TextStats(answers=0, length=None, empty=None, in_language=None, repetition=None, same=None)
    written = [(text, tag) for text, tag in zip(answers, languages, strict=True) if text.strip()]
    try:
        spoken = [in_language(text, tag) for text, tag in written]
    except MissingExtraError:
        spoken = []
    repeated = [share for text in answers if (share := _repetition(text)) is not None]
    groups: dict[str, Counter[str]] = {}
    for text, prompt in zip(answers, prompts, strict=True):
        groups.setdefault(prompt, Counter())[text] += 1
    pairs = sum(total * (total - 1) for group in groups.values() if (total := group.total()) > 1)
    alike = sum(count * (count - 1) for group in groups.values() for count in group.values())
    return TextStats(
        answers=n,
        length=sum(map(len, answers)) / n,
        empty=1 - len(written) / n,
        in_language=sum(spoken) / len(spoken) if spoken else None,
        repetition=sum(repeated) / len(repeated) if repeated else None,
        same=alike / pairs if pairs else None,
    )


def _repetition(text: str) -> float | None:
    """Share of word triples that occurred before; characters take the place of words where there are no spaces."""
    words = re.findall(r"\w+", text)
    units = words if len(words) > _GRAM else [char for char in text if char.isalnum()]
    grams = [tuple(units[i : i + _GRAM]) for i in range(len(units) - _GRAM + 1)]
    return 1 - len(set(grams)) / len(grams) if len(grams) > 1 else None


def alarms(
    before: TextStats, now: TextStats, limits: Limits | None = None, *, step: int | None = None, kl: float | None = None
) -> tuple[Alarm, ...]:
    """What has moved further than its limit.

    Args:
        before: the policy's answers before training.
        now: statistics of the policy's answers now.
        limits: the limits beyond which an alarm is raised; null means the defaults of ``Limits``.
        step: the step of training; null means that it is not known.
        kl: nats per answer from the policy before training, where known.
    """
    limits = limits or Limits()
    found: list[Alarm] = []

    def alarm(kind: str, was: float | None, value: float, message: str) -> None:
        found.append(
            Alarm.model_validate({"kind": kind, "step": step, "before": was, "now": value, "message": message})
        )

    if before.length and now.length is not None:
        factor = now.length / before.length
        if factor > limits.length or factor < 1 / limits.length:
            alarm("length", before.length, now.length, f"answers are {factor:.2f} times as long as before")
    if before.in_language is not None and now.in_language is not None:
        fall = before.in_language - now.in_language
        if fall > limits.language:
            alarm("language", before.in_language, now.in_language, f"{100 * fall:.0f}% fewer in the prompt's language")
    for kind, name, told in (
        ("repetition", "repetition", "of an answer's word triples repeat, more than before"),
        ("collapse", "same", "of two samples of a prompt are the same text, more than before"),
        ("empty", "empty", "of the answers are empty, more than before"),
    ):
        was, value = getattr(before, name), getattr(now, name)
        if value is not None and value - (was or 0.0) > getattr(limits, name):
            alarm(kind, was, value, f"{100 * value:.0f}% {told}")
    if kl is not None and kl > limits.kl:
        alarm("kl", None, kl, f"{kl:.1f} nats per answer from where it started")
    return tuple(found)


Samples = Mapping[int, tuple[Sequence[str], Sequence[str]]]
"""Step to ``(prompt ids, answers)`` that the policy gave then."""


def windows(samples: Samples, size: int) -> Iterator[tuple[tuple[int, ...], list[str], list[str]]]:
    """The latest samples at each step, as many steps back as it takes for ``size`` answers; none before there are.

    Yields:
        ``(steps, prompt ids, answers)``, the steps in order.
    """
    steps = sorted(samples)
    for place in range(len(steps)):
        first, count = place, len(samples[steps[place]][1])
        while first and count < size:
            first -= 1
            count += len(samples[steps[first]][1])
        if count >= size:
            kept = tuple(steps[first : place + 1])
            yield kept, [key for s in kept for key in samples[s][0]], [text for s in kept for text in samples[s][1]]


def overoptimised(
    reward: tuple[float | None, float | None],
    quality: tuple[float | None, float | None],
    limits: Limits | None = None,
    *,
    task: str = "the task",
) -> Alarm | None:
    """The alarm that the reward rose while a task's own grades fell; each is ``(before, after)``."""
    if None in reward or None in quality:
        return None
    gain = float(reward[1] or 0) - float(reward[0] or 0)
    loss = float(quality[0] or 0) - float(quality[1] or 0)
    if gain <= 0 or loss <= (limits or Limits()).grade:
        return None
    message = f"the reward rose by {gain:.3g} while the grade of {task} fell by {loss:.3g}"
    return Alarm(kind="overoptimised", step=None, before=quality[0], now=float(quality[1] or 0), message=message)
