"""A scorer as the judge of a task that compares answers."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from carb_data.tasks import Comparison, Judge
from carb_scorers.contract import Candidate, Scorer, ScoreRequest, ScoreResult
from carb_scorers.evaluation import score_all


def judge_from(scorer: Scorer) -> Judge:
    """The judge that prefers what a scorer scores higher, of two answers shown in the given order.

    Meant for a pairwise or listwise judge that shows the candidates as they come (``orders=one``); a comparison
    whose scoring failed is null. Must not be called from within an event loop.
    """

    def judge(comparisons: Sequence[Comparison]) -> list[float | None]:
        requests = [
            ScoreRequest(
                item_id=f"comparison-{number}",
                prompt=one.prompt.text,
                candidates=(Candidate(id="1", text=one.first), Candidate(id="2", text=one.second)),
                culture=one.prompt.culture,
                language=one.prompt.language,
            )
            for number, one in enumerate(comparisons)
        ]
        found: dict[str, ScoreResult] = {}

        async def run() -> None:
            await score_all(scorer, requests, lambda part: found.update((r.item_id, r) for r in part))

        anyio.run(run)
        return [_share(found[request.item_id]) for request in requests]

    return judge


def _share(result: ScoreResult) -> float | None:
    if result.error is not None:
        return None
    first, second = result.scores["1"], result.scores["2"]
    return 0.5 if first == second else float(first > second)
