"""What a scorer says about samples."""

from __future__ import annotations

from pathlib import Path

from carb_data.models import Frozen
from carb_data.tasks import Task
from carb_scorers.bon.samples import Samples, sha256
from carb_scorers.evaluation import OnProgress
from carb_scorers.run.score_journal import ScoreJournal, journal_head, score_missing
from carb_scorers.scorer import Scorer
from carb_scorers.texts import request_about

__all__ = ["PoolScores", "score_samples"]


class PoolScores(Frozen):
    """What a scorer says about samples."""

    scorer: str
    """Name of the scorer."""
    scores: dict[str, tuple[float, ...]]
    """Prompt id to a score for each sample, in their order. Equal texts have equal scores; an empty answer
    has minus infinity, since no scorer is shown it. Prompts with an answer whose scoring failed are
    missing, since any answer could have been the pick."""
    errors: dict[str, str]
    """Prompt id to why its scoring failed."""


async def score_samples(
    samples: Samples,
    task: Task,
    scorer: Scorer,
    folder: Path | None = None,
    *,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> PoolScores:
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
            f"{prompt.id}~{sha256([prompt.text, texts[prompt.id]])[:16]}",  # new answers make it another request
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
    errors: dict[str, str] = {}
    for (key, request), result in zip(requests.items(), results, strict=True):
        error = result.error or next(iter(result.errors.values()), None)
        if error is not None:
            errors[key] = f"{error.kind}: {error.message}"
        else:
            values[key] = {c.text: result.scores[c.id] for c in request.candidates}
    scores = {
        key: tuple(values[key].get(sample.text, float("-inf")) for sample in row)
        for key, row in samples.items()
        if key not in errors
    }
    return PoolScores(scorer=scorer.spec.name, scores=scores, errors=errors)
