"""Every kind of reward model behind one blind, batch-invariant scorer contract."""

from carb_scorers.evaluation import Progress, evaluate, evaluate_async
from carb_scorers.integrations import as_inspect_scorer, as_trl_reward, as_verl_reward
from carb_scorers.run import RunRecord, ScorerRecord
from carb_scorers.scorer import (
    Candidate,
    ScoreError,
    Scorer,
    ScoreRequest,
    ScoreResult,
    ScorerSpec,
    Usage,
)
from carb_scorers.spec import ParsedSpec, open_scorer, parse_spec, provider
from carb_scorers.texts import best_of_n, score

__all__ = [
    "Candidate",
    "ParsedSpec",
    "Progress",
    "RunRecord",
    "ScoreError",
    "ScoreRequest",
    "ScoreResult",
    "Scorer",
    "ScorerRecord",
    "ScorerSpec",
    "Usage",
    "as_inspect_scorer",
    "as_trl_reward",
    "as_verl_reward",
    "best_of_n",
    "evaluate",
    "evaluate_async",
    "open_scorer",
    "parse_spec",
    "provider",
    "score",
]
