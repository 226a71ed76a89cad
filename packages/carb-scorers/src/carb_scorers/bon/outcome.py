"""What the pick is worth: its quality, its regret, and the curve over N."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from carb_data import CarbError
from carb_data.models import Frozen
from carb_data.tasks import Task
from carb_scorers.bon.curve import expected_pick, pick_weights, sizes_up_to
from carb_scorers.bon.pool import PoolScores
from carb_scorers.bon.samples import SamplePool


class PromptOutcome(Frozen):
    """One prompt."""

    prompt_id: str
    source_item: str
    """Prompts that share it are not independent."""
    culture: str
    picked: tuple[float, ...]
    """Expected quality of the pick at each n of the curve."""
    best: tuple[float, ...]
    """Expected quality of the best of n."""
    mean: float
    """Mean quality of the pool."""
    pick: int
    """Index of the sample picked from the whole pool; the first of several with the highest score."""


class CurvePoint(Frozen):
    """Means over prompts at one n."""

    n: int
    picked: float
    """Quality of the pick."""
    best: float
    """Quality of the best available."""
    regret: float
    """``best − picked``."""
    gain: float
    """``picked`` minus the quality of a random sample."""


class BonResult(Frozen):
    """Best-of-N of one scorer on one policy's samples for one task."""

    scorer: str
    policy: str
    task: str
    n: int
    """Samples of each prompt."""
    curve: tuple[CurvePoint, ...]
    """Points of the curve at n = 1, 2, 4, … N; empty if no prompt counts."""
    prompts: tuple[PromptOutcome, ...]
    """Outcomes of the prompts that count."""
    errors: int
    """Prompts whose scoring failed; they do not count."""
    short: int
    """Prompts with a failed sample; they do not count, so that every n is judged on the same prompts."""
    ungraded: int
    """Prompts with an answer that the task could not grade; they do not count."""

    @property
    def quality(self) -> float | None:
        """Mean quality of the pick from the whole pool; null where no prompt counts."""
        return self.curve[-1].picked if self.curve else None


Grades = Mapping[str, tuple[float | None, ...]]
"""Prompt id to a grade for each sample."""


def grade_pool(pool: SamplePool, task: Task) -> dict[str, tuple[float | None, ...]]:
    """The task's grade of every sample; each distinct text is graded once. An empty answer is worth 0."""
    asked = [
        (key, text)
        for key, row in pool.samples.items()
        for text in dict.fromkeys(sample.text for sample in row if sample.text.strip())
    ]
    grades: dict[tuple[str, str], float | None] = dict(zip(asked, task.grade_all(asked), strict=True))
    return {
        key: tuple(grades[key, s.text] if s.text.strip() else 0.0 for s in row) for key, row in pool.samples.items()
    }


def bon_curve(
    pool: SamplePool, task: Task, scores: PoolScores, grades: Grades, sizes: Sequence[int] | None = None
) -> BonResult:
    """The curve of one scorer.

    Exact over all subsets of each pool (``curve``); for a scorer that compares answers, the scores within a subset
    are those that it gave within the whole pool.

    Args:
        pool: the samples, the same number N for each prompt.
        task: the task whose prompts the pool answers; it names each prompt's culture.
        scores: the scores of the pool's samples, from ``score_pool``.
        grades: the grades of the pool's samples, from ``grade_pool``.
        sizes: the n of the curve; 1, 2, 4, … N by default.

    Raises:
        CarbError: the pool is empty, or an n is larger than it.
    """
    n = min((len(row) for row in pool.samples.values()), default=0)
    wanted = tuple(sizes or sizes_up_to(max(n, 1)))
    if n < max(wanted):
        raise CarbError(f"Best-of-{max(wanted)} needs a pool of at least as many samples; this one has {n}.")
    outcomes: list[PromptOutcome] = []
    short = ungraded = errors = 0
    for prompt in task.prompts:
        row = pool.samples.get(prompt.id, ())
        if not row or any(sample.error is not None for sample in row):
            short += 1
            continue
        if prompt.id not in scores.scores:
            errors += 1
            continue
        quality = [grade for grade in grades[prompt.id] if grade is not None]
        if len(quality) < len(row):
            ungraded += 1
            continue
        values = scores.scores[prompt.id]
        outcomes.append(
            PromptOutcome(
                prompt_id=prompt.id,
                source_item=prompt.source_item,
                culture=prompt.culture,
                picked=tuple(expected_pick(values, quality, size) for size in wanted),
                best=tuple(expected_pick(quality, quality, size) for size in wanted),
                mean=sum(quality) / len(quality),
                pick=max(range(len(row)), key=lambda i: (values[i], -i)),
            )
        )
    return BonResult(
        scorer=scores.scorer.name,
        policy=pool.head.policy.name,
        task=task.name,
        n=n,
        curve=_curve(outcomes, wanted),
        prompts=tuple(outcomes),
        errors=errors,
        short=short,
        ungraded=ungraded,
    )


def _curve(outcomes: Sequence[PromptOutcome], sizes: Sequence[int]) -> tuple[CurvePoint, ...]:
    if not outcomes:
        return ()
    count = len(outcomes)
    mean = sum(outcome.mean for outcome in outcomes) / count
    points = []
    for place, n in enumerate(sizes):
        picked = sum(outcome.picked[place] for outcome in outcomes) / count
        best = sum(outcome.best[place] for outcome in outcomes) / count
        points.append(CurvePoint(n=n, picked=picked, best=best, regret=best - picked, gain=picked - mean))
    return tuple(points)


__all__ = ["BonResult", "CurvePoint", "Grades", "PromptOutcome", "bon_curve", "grade_pool", "pick_weights"]
