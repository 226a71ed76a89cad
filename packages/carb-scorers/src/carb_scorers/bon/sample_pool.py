"""Pools of samples: drawn once, kept on disk, graded by a task, and scored by any number of scorers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from carb_data import CarbError
from carb_data.journal import OtherHeadError, Store
from carb_data.models import Frozen
from carb_data.tasks import Task
from carb_scorers.bon.policy import Policy, PolicySpec, Sample, policy_prompts
from carb_scorers.evaluation import WINDOW, OnProgress, ProgressCounter, score_all
from carb_scorers.run.score_journal import ScoreJournal, journal_head
from carb_scorers.scorer import Candidate, Scorer, ScoreRequest, ScoreResult, ScorerSpec

__all__ = ["PoolHead", "PoolScores", "SamplePool", "collect", "grade_pool", "score_pool"]

SAMPLED_AT_ONCE = 8
"""Prompts sampled between two writes."""

OnSamples = Callable[[int, int], None]
"""``(prompts done, prompts in all)``."""


class PoolHead(Frozen):
    """The first line of a pool: what the samples belong to."""

    format: Literal["carb.samples/2"] = "carb.samples/2"
    policy: PolicySpec
    task: str
    """Spec of the task."""
    prompts: str
    """sha256 of all prompts as the policy got them."""


class SamplePool(Frozen):
    """The samples of one policy for one task."""

    head: PoolHead
    samples: dict[str, tuple[Sample, ...]]
    """Prompt id to its samples by index, 0 to N-1; in the order of the task."""

    @property
    def fingerprint(self) -> str:
        """sha256 of what a scorer is shown: prompt ids and texts, whatever order they were drawn in."""
        content = [[key, [sample.text for sample in row]] for key, row in sorted(self.samples.items())]
        return hashlib.sha256(json.dumps(content, ensure_ascii=True).encode()).hexdigest()

    @property
    def errors(self) -> int:
        """Samples that failed."""
        return sum(sample.error is not None for row in self.samples.values() for sample in row)

    def first(self, n: int) -> SamplePool:
        """The pool of the first n samples of each prompt."""
        return self.model_copy(update={"samples": {key: row[:n] for key, row in self.samples.items()}})


async def collect(
    policy: Policy,
    task: Task,
    n: int,
    path: Path,
    *,
    shots: bool = True,
    retry_errors: bool = False,
    on_samples: OnSamples | None = None,
) -> SamplePool:
    """Draw n samples for every prompt of a task into a file; the same call goes on after any interruption.

    A file with fewer samples is extended, one with more is read. What is there is never drawn again.

    Args:
        policy: the policy that answers the prompts.
        task: the task whose prompts are asked.
        n: the number of samples for each prompt.
        path: the JSON Lines file of the samples; it is made where it does not exist.
        shots: whether to show the task's examples before the question.
        retry_errors: whether to ask again for samples that failed.
        on_samples: the function that is called after each write.

    Raises:
        CarbError: the file holds samples of another policy or other prompts, is no pool, or cannot be written.
    """
    if n < 1:
        raise CarbError(f"A pool needs at least one sample for each prompt; got {n}.")
    prompts = policy_prompts(task, shots=shots)
    described = [[p.id, list(p.prompt.messages), p.prompt.cue, p.one_line] for p in prompts]
    fingerprint = hashlib.sha256(json.dumps(described, ensure_ascii=True).encode()).hexdigest()
    head = PoolHead(policy=policy.spec, task=task.name, prompts=fingerprint)
    try:
        store = Store(path, head, Sample, lambda sample: (sample.prompt_id, sample.index))
    except OtherHeadError as error:
        named = {"policy": "another policy", "prompts": "other prompts", "task": "another task"}
        changed = " and ".join(named.get(name, name) for name in error.changed)
        raise CarbError(f"{path} holds samples of {changed}; choose another file, or remove it.") from None
    with store:
        have = {key for key, sample in store.values.items() if sample.error is None or not retry_errors}
        queue = [(prompt, [i for i in range(n) if (prompt.id, i) not in have]) for prompt in prompts]
        queue = [(prompt, wanted) for prompt, wanted in queue if wanted]
        told = on_samples or (lambda *_: None)
        told(len(prompts) - len(queue), len(prompts))
        while queue:
            wanted = queue[0][1]
            now = [prompt for prompt, lacking in queue[:SAMPLED_AT_ONCE] if lacking == wanted]
            store.append(await policy.sample(now, wanted))
            queue = [entry for entry in queue if entry[0] not in now]
            told(len(prompts) - len(queue), len(prompts))
        samples = {p.id: tuple(store.values[p.id, i] for i in range(n)) for p in prompts}
    return SamplePool(head=head, samples=samples)


def grade_pool(pool: SamplePool, task: Task) -> dict[str, tuple[float | None, ...]]:
    """The task's grade of every sample; each distinct text is graded once. An empty answer is worth 0."""
    grades: dict[str, tuple[float | None, ...]] = {}
    for key, row in pool.samples.items():
        worth = {text: task.grade(key, text) if text.strip() else 0.0 for text in {sample.text for sample in row}}
        grades[key] = tuple(worth[sample.text] for sample in row)
    return grades


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
    requests = [
        _request(prompt.id, prompt.text, texts[prompt.id], prompt.culture, prompt.language)
        for prompt in task.prompts
        if len(texts.get(prompt.id, ())) > 1
    ]
    tally = ProgressCounter(scorer.spec.name, len(requests), on_progress)
    with ScoreJournal(folder, journal_head(scorer.spec, fingerprint=pool.fingerprint, seed=seed)) as journal:
        missing = [request for request in requests if request.request_id not in journal.results]
        tally.add(journal.results.values(), spent=False)

        def keep(part: Sequence[ScoreResult]) -> None:
            journal.append(part)
            tally.add(part)

        await score_all(scorer, missing, keep, window=window)
        results = {request.request_id: journal.results[request.request_id] for request in requests}
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


def _distinct(prompt_id: str, texts: Sequence[str], seed: int) -> list[str]:
    """The different non-empty texts in an order that depends on the seed, the prompt and the texts alone."""

    def place(text: str) -> bytes:
        return hashlib.sha256(f"{seed}\0{prompt_id}\0{text}".encode("utf-8", "surrogatepass")).digest()

    return sorted({text for text in texts if text.strip()}, key=place)


def _request(name: str, prompt: str, texts: Sequence[str], culture: str, language: str) -> ScoreRequest:
    candidates = tuple(Candidate(id=str(place), text=text) for place, text in enumerate(texts, 1))
    return ScoreRequest(request_id=name, prompt=prompt, candidates=candidates, culture=culture, language=language)
