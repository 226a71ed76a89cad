"""Best-of-n from one pool of N samples: exact, over all subsets, without drawing any.

With samples ordered by score, a sample is the pick of a random subset of n exactly when it is in it and none of those
above it is. Of the C(N, n) subsets, C(N−b, n) hold none of the b samples above a group of g equal scores, and
C(N−b−g, n) hold none of the group either; the difference is the number in which the group wins, and each of its
members is picked in an equal share of them. The mean over subsets is an unbiased estimate of the worth of the pick of
n fresh samples. Without ties it is the weighting of Nakano et al. 2021 (WebGPT, arXiv:2112.09332, appendix I),
and for the best of n the pass@k estimator of Chen et al. 2021 (arXiv:2107.03374, section 2.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, isnan
from pathlib import Path

from carb_data import CarbError
from carb_data.models import Frozen
from carb_data.tasks import Task
from carb_scorers.bon.samples import Grades, Samples
from carb_scorers.evaluation import OnProgress
from carb_scorers.generate.writers import sha256
from carb_scorers.run.score_journal import ScoreJournal, journal_head, score_missing
from carb_scorers.scorer import Scorer
from carb_scorers.texts import request_about

__all__ = ["BonResult", "CurvePoint", "Scores", "bon_curve", "expected_pick", "pick_weights", "score_samples"]

Scores = dict[str, tuple[float, ...]]
"""Prompt id to a score for each sample, in their order. Equal texts have equal scores; an empty answer has minus
infinity, since no scorer is shown it. Prompts with an answer whose scoring failed are missing, since any answer could
have been the pick."""


async def score_samples(
    samples: Samples,
    task: Task,
    scorer: Scorer,
    folder: Path | None = None,
    *,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> Scores:
    """Score every distinct answer.

    The scorer sees the question and the answers alone: no grade, and no number of times that an answer was given. A
    prompt with one distinct answer leaves nothing to choose; its scorer is not asked.

    Args:
        samples: one policy's samples for ``task``.
        task: the task whose prompts they answer.
        scorer: any scorer; left open.
        folder: the folder of the journal that keeps the results and from which a run resumes; null keeps nothing.
        seed: seed of the order in which candidates are presented.
        on_progress: the function that is called whenever results have come.

    Raises:
        CarbError: the scorer met a user's mistake, or the journal is of something else.
    """
    texts = {key: sorted({one.text for one in row if one.text.strip()}) for key, row in samples.items()}
    requests = {
        prompt.id: request_about(
            f"{prompt.id}~{sha256(prompt.text, texts[prompt.id])[:16]}",  # new answers make it another request
            prompt.text,
            prompt.culture,
            prompt.language,
            texts[prompt.id],
            seed,
        )
        for prompt in task.prompts
        if len(texts[prompt.id]) > 1
    }
    with ScoreJournal(folder, journal_head(scorer.spec, fingerprint="samples", seed=seed)) as journal:
        results = await score_missing(scorer, list(requests.values()), journal, on_progress=on_progress)
    values = {key: dict.fromkeys(found, 0.0) for key, found in texts.items()}
    for (key, request), result in zip(requests.items(), results, strict=True):
        if result.complete:
            values[key] = {c.text: result.scores[c.id] for c in request.candidates}
        else:
            del values[key]
    return {
        key: tuple(values[key].get(one.text, float("-inf")) for one in row)
        for key, row in samples.items()
        if key in values
    }


def pick_weights(scores: Sequence[float], n: int) -> list[float]:
    """How often each sample is the pick of a random subset of n of the pool.

    Args:
        scores: (N,) the scores; higher is better; equal scores share their win.
        n: number of samples from which the best is picked, from 1 to the pool's size.

    Returns:
        (N,) shares that sum to 1.

    Raises:
        CarbError: n is not within 1 to N, or a score is NaN.
    """
    total = len(scores)
    if any(isnan(score) for score in scores):
        raise CarbError("A score is NaN, so no sample is the best; score the pool again, or leave that sample out.")
    if not 1 <= n <= total:
        raise CarbError(f"Best-of-{n} needs a pool of at least {max(n, 1)} samples; this one has {total}.")
    weights = [0.0] * total
    order = sorted(range(total), key=lambda i: -scores[i])
    above = 0
    while above < total:
        group = [i for i in order[above:] if scores[i] == scores[order[above]]]
        wins = comb(total - above, n) - comb(total - above - len(group), n)
        for i in group:
            weights[i] = wins / (len(group) * comb(total, n))
        above += len(group)
    return weights


def expected_pick(scores: Sequence[float], qualities: Sequence[float], n: int) -> float:
    """Mean quality of the pick over all subsets of n of the pool.

    Args:
        scores: (N,) the scores by which the pick is made.
        qualities: (N,) what each sample is worth.
        n: number of samples from which the best is picked, from 1 to the pool's size.
    """
    return sum(w * q for w, q in zip(pick_weights(scores, n), qualities, strict=True))


class CurvePoint(Frozen):
    """Means over prompts at one n."""

    n: int
    picked: float
    """Quality of the pick; at n = 1 that of a random sample."""
    best: float
    """Quality of the best available."""
    regret: float
    """``best − picked``."""


class BonResult(Frozen):
    """Best-of-n of one scorer on one policy's samples for one task."""

    curve: tuple[CurvePoint, ...]
    """Points of the curve at n = 1, 2, 4, … and the pool's size; empty if no prompt counts."""
    picked: dict[str, float]
    """Prompt id to the quality of the pick from the whole pool, of the prompts that count."""
    errors: int
    """Prompts whose scoring failed; they do not count."""
    short: int
    """Prompts with a failed sample; they do not count, so that every n is judged on the same prompts."""
    ungraded: int
    """Prompts with an answer that the task could not grade; they do not count."""


def bon_curve(samples: Samples, scores: Scores, grades: Grades) -> BonResult:
    """The curve of one scorer.

    Exact over all subsets of each pool (``expected_pick``); for a scorer that compares answers, the scores within a
    subset are those that it gave within the whole pool.

    Args:
        samples: the samples, the same number for each prompt.
        scores: the scores of the samples, from ``score_samples``.
        grades: the grades of the samples, from ``grade``.
    """
    counted: dict[str, tuple[Sequence[float], Sequence[float]]] = {}
    short = ungraded = errors = 0
    for key, row in samples.items():
        quality = [grade for grade in grades[key] if grade is not None]
        if any(sample.error is not None for sample in row):
            short += 1
        elif key not in scores:
            errors += 1
        elif len(quality) < len(row):
            ungraded += 1
        else:
            counted[key] = scores[key], quality
    size = min((len(row) for row in samples.values()), default=0)
    sizes = sorted({2**power for power in range(size.bit_length())} | {size})
    return BonResult(
        curve=tuple(_point(list(counted.values()), n) for n in sizes) if counted else (),
        picked={key: expected_pick(values, quality, size) for key, (values, quality) in counted.items()},
        errors=errors,
        short=short,
        ungraded=ungraded,
    )


def _point(pools: Sequence[tuple[Sequence[float], Sequence[float]]], n: int) -> CurvePoint:
    picked = sum(expected_pick(values, quality, n) for values, quality in pools) / len(pools)
    best = sum(expected_pick(quality, quality, n) for _, quality in pools) / len(pools)
    return CurvePoint(n=n, picked=picked, best=best, regret=best - picked)
