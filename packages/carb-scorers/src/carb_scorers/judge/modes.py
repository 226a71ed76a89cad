"""Listwise, pairwise and pointwise: which prompts an item needs, and what their answers amount to.

Each mode is a generator: it yields rounds of ``Ask``s, is sent their ``Answer``s, and returns an ``Outcome``. So one
call of a model serves the same round of many items.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from carb_scorers.judge.asking import Asker
from carb_scorers.judge.bradley_terry import strengths
from carb_scorers.judge.form_files import IN_BRACKETS, Wording
from carb_scorers.models.protocol import Prompt
from carb_scorers.scorer import Candidate, Presentation, ScoreRequest

LETTERS = string.ascii_uppercase

Kind = Literal["pick", "rating"]
Orders = Literal["one", "both", "rotated"]


@dataclass(frozen=True, slots=True)
class Ask:
    """One prompt, and the answers that it allows."""

    prompt: Prompt
    labels: tuple[str, ...]
    kind: Kind
    note: str = ""
    """Text that stands before what is written, in the result's rationale."""
    wording: Wording = IN_BRACKETS
    """How a written verdict is found."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of an ``Ask``.

    ``pick``: per label its log-probability among the labels, or 1 for the pick and 0 for the rest.
    ``rating``: one number on the scale.
    """

    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Scores by candidate, and what each presentation said."""

    scores: dict[str, float]
    presentations: tuple[Presentation, ...]


Round = Generator[list[Ask], Sequence[Answer], Outcome]

AskPair = Callable[[ScoreRequest, Candidate, Candidate], Ask]


def presented_orders(ids: tuple[str, ...], orders: Orders) -> list[tuple[str, ...]]:
    """``one``: as given. ``both``: as given and reversed. ``rotated``: every candidate once in every position."""
    if orders == "both" and len(ids) > 1:
        return [ids, ids[::-1]]
    return [ids[turn:] + ids[:turn] for turn in range(len(ids) if orders == "rotated" else 1)]


def listwise(request: ScoreRequest, asker: Asker, *, reads: bool, orders: Orders) -> Round:
    """All candidates at once.

    A score is the mean over the orders shown of: the natural log-probability of the candidate's letter among the
    letters shown (read from the model), or 1 if it was picked and else 0 (written).
    """
    texts = {candidate.id: candidate.text for candidate in request.candidates}
    shown = presented_orders(tuple(texts), orders)
    letters = LETTERS[: len(texts)]
    answers = yield [
        Ask(
            asker.ask(request, [texts[key] for key in order], letters, reads=reads),
            tuple(letters),
            "pick",
            wording=asker.wording,
        )
        for order in shown
    ]
    presentations = tuple(
        Presentation(order=order, scores=dict(zip(order, answer.values, strict=True)))
        for order, answer in zip(shown, answers, strict=True)
    )
    return Outcome(_means(presentations, list(texts)), presentations)


def pairwise(request: ScoreRequest, ask: AskPair, *, reads: bool, orders: Orders) -> Round:
    """All pairs; strengths by Bradley and Terry from the probabilities (or counts) of winning.

    Args:
        request: The request that holds the item's prompt and candidates.
        ask: the prompt about two candidates, the first shown as A.
        reads: whether answers are natural log-probabilities of A and B, and not 1 for the pick and 0 for the other.
        orders: The orders in which a pair is shown.
    """
    by_id = {candidate.id: candidate for candidate in request.candidates}
    ids = list(by_id)
    place = {key: i for i, key in enumerate(ids)}
    wins = [[0.0] * len(ids) for _ in ids]
    presentations: list[Presentation] = []
    shown = [order for pair in combinations(ids, 2) for order in presented_orders(pair, orders)]
    asks = [ask(request, by_id[first], by_id[second]) for first, second in shown]
    answers = (yield asks) if asks else []  # a candidate without an opponent
    for (first, second), answer in zip(shown, answers, strict=True):
        share = math.exp(answer.values[0]) if reads else answer.values[0]
        wins[place[first]][place[second]] += share
        wins[place[second]][place[first]] += 1.0 - share
        presentations.append(Presentation(order=(first, second), scores={first: share, second: 1.0 - share}))
    return Outcome(dict(zip(ids, strengths(wins), strict=True)), tuple(presentations))


def pointwise(request: ScoreRequest, asker: Asker, *, reads: bool, orders: Orders) -> Round:
    """A candidate alone, rated from 1 to 10.

    A score is the expected rating Σ r P(r) over the ratings' probabilities (Liu et al. 2023, "G-Eval", EMNLP), or
    the written number. Nothing stands beside a candidate; what can be shown in both orders is the scale.
    """
    (candidate,) = request.candidates
    scales = (False,) if orders == "one" else (False, True)
    answers = yield [
        Ask(
            asker.ask(request, [candidate.text], "A", reads=reads, falling=falling),
            tuple(asker.wording.ratings),
            "rating",
            wording=asker.wording,
        )
        for falling in scales
    ]
    key = candidate.id
    presentations = tuple(Presentation(order=(key,), scores={key: answer.values[0]}) for answer in answers)
    return Outcome(_means(presentations, [key]), presentations if len(scales) > 1 else ())


def _means(presentations: Sequence[Presentation], ids: Sequence[str]) -> dict[str, float]:
    found: dict[str, list[float]] = {key: [] for key in ids}
    for presentation in presentations:
        for key, value in presentation.scores.items():
            found[key].append(value)
    return {key: sum(values) / len(values) for key, values in found.items()}
