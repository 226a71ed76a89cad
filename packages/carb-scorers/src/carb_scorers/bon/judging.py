"""A scorer as the judge of a task that compares answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from carb_data.tasks import AnswerPair, Judge
from carb_scorers.evaluation import score_all
from carb_scorers.run.score_journal import JournalHead, ScoreJournal
from carb_scorers.scorer import Candidate, Scorer, ScoreRequest, ScoreResult
from carb_scorers.spec import identity
from carb_scorers.waiting import wait_for


def judge_from(scorer: Scorer, folder: Path | None = None) -> Judge:
    """The judge that prefers what a scorer scores higher, of two answers shown in the given order.

    Meant for a pairwise or listwise judge that shows the candidates as they come (``orders=one``); a comparison
    whose scoring failed is null.

    Args:
        scorer: any scorer; left open.
        folder: the folder of the journal that keeps every verdict, so that none is asked for twice; null keeps nothing.
    """

    def judge(comparisons: Sequence[AnswerPair]) -> list[float | None]:
        requests = {request.request_id: request for request in map(_request, comparisons)}
        head = JournalHead(
            fingerprint="comparisons",
            seed=0,
            spec=identity(scorer.spec),
            version=f"carb-scorers {version('carb-scorers')}",
        )
        with ScoreJournal(folder, head) as journal:
            missing = [request for key, request in requests.items() if key not in journal.results]
            wait_for(score_all, scorer, missing, journal.append)
            return [_share(journal.results[_name(one)]) for one in comparisons]

    return judge


def _name(one: AnswerPair) -> str:
    content = json.dumps([one.prompt.id, one.prompt.text, one.first, one.second])
    return f"comparison-{hashlib.sha256(content.encode()).hexdigest()[:32]}"


def _request(one: AnswerPair) -> ScoreRequest:
    return ScoreRequest(
        request_id=_name(one),
        prompt=one.prompt.text,
        candidates=(Candidate(id="1", text=one.first), Candidate(id="2", text=one.second)),
        culture=one.prompt.culture,
        language=one.prompt.language,
    )


def _share(result: ScoreResult) -> float | None:
    if not result.complete:
        return None
    first, second = result.scores["1"], result.scores["2"]
    return 0.5 if first == second else float(first > second)
