"""What a scorer says about the samples of a pool."""

from __future__ import annotations

from pathlib import Path

from carb_data.models import Frozen
from carb_data.tasks import Task
from carb_scorers.bon.samples import SamplePool
from carb_scorers.evaluation import OnProgress
from carb_scorers.run.score_journal import ScoreJournal, journal_head, score_missing
from carb_scorers.scorer import Scorer
from carb_scorers.texts import request_about

__all__ = ["PoolScores", "score_pool"]


class PoolScores(Frozen):
    """What a scorer says about the samples of a pool."""

    scorer: str
    """Name of the scorer."""
    scores: dict[str, tuple[float, ...]]
    """Prompt id to a score for each sample, in the order of the pool. Equal texts have equal scores; an empty answer
    has minus infinity, since no scorer is shown it. Prompts with an answer whose scoring failed are
    missing, since any answer could have been the pick."""
    errors: dict[str, str]
    """Prompt id to why its scoring failed."""


async def score_pool(
    pool: SamplePool,
    task: Task,
    scorer: Scorer,
    folder: Path | None = None,
    *,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> PoolScores:
    """Score every distinct answer of a pool.

    The scorer sees the question and the answers alone: no grade, and no number of times that an answer was given. A
    prompt with one distinct answer leaves nothing to choose; its scorer is not asked.

    Args:
        pool: one policy's samples for ``task``.
        task: the same as of the pool.
        scorer: any scorer; left open.
        folder: the folder of the journal that keeps the results and from which a run resumes; null keeps nothing.
        seed: seed of the order in which candidates are presented.
        on_progress: the function that is called whenever results have come.

    Raises:
        CarbError: the scorer met a user's mistake, or the journal is of something else.
    """
    texts = {key: {s.text for s in row if s.text.strip()} for key, row in pool.samples.items()}
    requests = [
        request_about(prompt.id, prompt.text, prompt.culture, prompt.language, texts[prompt.id], seed)
        for prompt in task.prompts
        if len(texts[prompt.id]) > 1
    ]
    with ScoreJournal(folder, journal_head(scorer.spec, fingerprint=pool.fingerprint, seed=seed)) as journal:
        results = await score_missing(scorer, requests, journal, on_progress=on_progress)
    values = {key: dict.fromkeys(found, 0.0) for key, found in texts.items()}
    errors: dict[str, str] = {}
    for request, result in zip(requests, results, strict=True):
        error = result.error or next(iter(result.errors.values()), None)
        if error is not None:
            errors[request.request_id] = f"{error.kind}: {error.message}"
        else:
            values[request.request_id] = {c.text: result.scores[c.id] for c in request.candidates}
    scores = {
        key: tuple(values[key].get(sample.text, float("-inf")) for sample in row)
        for key, row in pool.samples.items()
        if key not in errors
    }
    return PoolScores(scorer=scorer.spec.name, scores=scores, errors=errors)
