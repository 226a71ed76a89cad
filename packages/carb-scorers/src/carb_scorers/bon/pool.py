"""Scoring a pool: each distinct answer once, in a seeded order, labels there are none."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from carb_data.models import Frozen
from carb_data.tasks import Task
from carb_scorers.bon.samples import SamplePool
from carb_scorers.evaluation import WINDOW, OnProgress, ProgressCounter, score_all
from carb_scorers.run.score_journal import JournalHead, ScoreJournal
from carb_scorers.scorer import Candidate, Scorer, ScoreRequest, ScoreResult, ScorerSpec
from carb_scorers.spec import identity, kinds, provider


class PoolScores(Frozen):
    """What a scorer says about the samples of a pool."""

    scorer: ScorerSpec
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
    window: int = WINDOW,
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
        window: the number of requests handed to the scorer at once.
        on_progress: the function that is called after each window.

    Raises:
        CarbError: the scorer met a user's mistake, or the journal is of something else.
    """
    texts = {key: _distinct(key, [s.text for s in row], seed) for key, row in pool.samples.items()}
    prompts = {prompt.id: prompt for prompt in task.prompts}
    requests = [
        ScoreRequest(
            request_id=key,
            prompt=prompts[key].text,
            candidates=tuple(Candidate(id=str(place), text=text) for place, text in enumerate(shown, 1)),
            culture=prompts[key].culture,
            language=prompts[key].language,
        )
        for key, shown in texts.items()
        if len(shown) > 1
    ]
    results = await _results(scorer, requests, pool.fingerprint, folder, seed, window, on_progress)
    scores: dict[str, tuple[float, ...]] = {}
    errors: dict[str, str] = {}
    for key, row in pool.samples.items():
        result = results.get(key)
        if result is not None and not result.complete:
            error = result.error or next(iter(result.errors.values()))
            errors[key] = f"{error.kind}: {error.message}"
            continue
        by_text = dict.fromkeys(texts[key], 0.0)
        if result is not None:
            by_text = {text: result.scores[str(place)] for place, text in enumerate(texts[key], 1)}
        scores[key] = tuple(by_text.get(sample.text, float("-inf")) for sample in row)
    return PoolScores(scorer=scorer.spec, scores=scores, errors=errors)


async def _results(
    scorer: Scorer,
    requests: Sequence[ScoreRequest],
    fingerprint: str,
    folder: Path | None,
    seed: int,
    window: int,
    on_progress: OnProgress | None,
) -> dict[str, ScoreResult]:
    tally = ProgressCounter(scorer.spec.name, len(requests), on_progress)
    own = f"carb-scorers {version('carb-scorers')}"
    other = provider(scorer.spec.kind) if scorer.spec.kind in kinds() else own
    head = JournalHead(
        fingerprint=fingerprint,
        seed=seed,
        spec=identity(scorer.spec),
        version=own if other == own else f"{own}, {other}",
    )
    with ScoreJournal(folder, head) as journal:
        tally.add([journal.results[r.request_id] for r in requests if r.request_id in journal.results], spent=False)

        def write(part: Sequence[ScoreResult]) -> None:
            journal.append(part)
            tally.add(part)

        await score_all(scorer, [r for r in requests if r.request_id not in journal.results], write, window=window)
        return {request.request_id: journal.results[request.request_id] for request in requests}


def _distinct(prompt_id: str, texts: Sequence[str], seed: int) -> list[str]:
    """The different non-empty texts in an order that depends on the seed, the prompt and the texts alone."""

    def place(text: str) -> bytes:
        return hashlib.sha256(f"{seed}\0{prompt_id}\0{text}".encode("utf-8", "surrogatepass")).digest()

    return sorted({text for text in texts if text.strip()}, key=place)
