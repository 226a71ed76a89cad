"""Rewards and preferences from any scorer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from carb_data.tasks import TaskPrompt
from carb_data.waiting import wait_for
from carb_scorers import Candidate, Scorer, ScoreRequest, ScoreResult
from carb_scorers.bon import PoolScores, SamplePool
from carb_scorers.bon.policies import tidy
from carb_scorers.evaluation import score_all

OnAnswers = Callable[[int, Sequence[str], Sequence[str]], None]
"""``(step, prompt ids, answers)``: called with every batch that was sampled."""


class ScorerReward:
    """A scorer as a reward function of TRL.

    All different answers of a prompt in the batch go to the scorer in one request, in an order that depends on their
    texts alone, so that a scorer that compares answers sees the whole group. An answer that cannot be scored has no
    reward (``None``), and so no part in the update; an empty one has the lowest of its group.

    Args:
        scorer: The scorer, which must be open.
        prompts: the task's prompts by id; rows of the training set have a column ``prompt_id``.
        one_line: whether only the first line of a completion is the answer.
        on_answers: the function that gets every batch of answers.
    """

    __name__ = "scorer"

    def __init__(
        self, scorer: Scorer, prompts: Mapping[str, TaskPrompt], *, one_line: bool, on_answers: OnAnswers | None = None
    ) -> None:
        self._scorer = scorer
        self._prompts = dict(prompts)
        self._one_line = one_line
        self._on_answers = on_answers
        self.failed = 0
        """Answers that could not be scored so far."""

    def __call__(self, completions: Sequence[Any], prompt_id: Sequence[str], **given: Any) -> list[float | None]:
        """Rewards of completions, texts or conversations, in order."""
        answers = [tidy(_text(completion), one_line=self._one_line) for completion in completions]
        state = given.get("trainer_state")
        if self._on_answers is not None:
            self._on_answers(int(getattr(state, "global_step", 0) or 0), prompt_id, answers)
        return self.rewards(prompt_id, answers)

    def rewards(self, prompt_ids: Sequence[str], answers: Sequence[str]) -> list[float | None]:
        """Rewards of answers."""
        groups: dict[str, set[str]] = {}
        for key, answer in zip(prompt_ids, answers, strict=True):
            groups.setdefault(key, set())
            if answer:
                groups[key].add(answer)
        shown = {key: sorted(texts, key=_place) for key, texts in groups.items() if texts}
        requests = [
            ScoreRequest(
                request_id=key,
                prompt=self._prompts[key].text,
                candidates=tuple(Candidate(id=str(place), text=text) for place, text in enumerate(texts, 1)),
                culture=self._prompts[key].culture,
                language=self._prompts[key].language,
            )
            for key, texts in shown.items()
        ]
        results: dict[str, ScoreResult] = {}

        async def run() -> None:
            await score_all(self._scorer, requests, lambda part: results.update((r.request_id, r) for r in part))

        wait_for(run)
        rewards: list[float | None] = []
        for key, answer in zip(prompt_ids, answers, strict=True):
            result = results.get(key)
            if result is None or result.error is not None:
                rewards.append(None)
            elif answer:
                rewards.append(result.scores.get(str(shown[key].index(answer) + 1)))
            else:
                rewards.append(min(result.scores.values()))
        self.failed += sum(reward is None for reward in rewards)
        return rewards


def _text(completion: Any) -> str:
    return completion if isinstance(completion, str) else str(completion[-1]["content"])


def _place(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def preference_pairs(pool: SamplePool, scores: PoolScores) -> list[tuple[str, str, str]]:
    """Of each prompt the sample with the highest score against the one with the lowest.

    Prompts whose scoring failed, whose samples all score the same, or whose best or worst sample is empty give no
    pair. Of several equal scores the first sample counts.

    Returns:
        ``(prompt id, chosen, rejected)``
    """
    found = []
    for key, row in pool.samples.items():
        values = scores.scores.get(key)
        if values is None or any(sample.error is not None for sample in row):
            continue
        usable = [i for i, sample in enumerate(row) if sample.text.strip()]
        if not usable:
            continue
        best, worst = max(usable, key=lambda i: (values[i], -i)), min(usable, key=lambda i: (values[i], i))
        if values[best] > values[worst]:
            found.append((key, row[best].text, row[worst].text))
    return found
