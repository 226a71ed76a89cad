"""Every kind of reward model behind one blind, batch-invariant scorer contract."""

from carb_scorers.blind import in_order, request_name
from carb_scorers.evaluation import Progress
from carb_scorers.integrations import as_inspect_scorer, as_trl_reward, as_verl_reward
from carb_scorers.known import KnownModel, known_model, known_models
from carb_scorers.run import RunRecord, ScorerRecord, read_presentations
from carb_scorers.run.one_call import evaluate, evaluate_async
from carb_scorers.run.score_journal import read_journal
from carb_scorers.scorer import (
    Candidate,
    ScoreError,
    Scorer,
    ScoreRequest,
    ScoreResult,
    ScorerSpec,
    Usage,
    told_culture,
)
from carb_scorers.spec import (
    Kind,
    ParsedSpec,
    Planned,
    kinds,
    open_scorer,
    parse_spec,
    plan_of,
    provider,
    using,
)
from carb_scorers.texts import best_of_n, score
from carb_scorers.waiting import wait_for

__all__ = [
    "Candidate",
    "Kind",
    "KnownModel",
    "ParsedSpec",
    "Planned",
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
    "in_order",
    "kinds",
    "known_model",
    "known_models",
    "open_scorer",
    "parse_spec",
    "plan_of",
    "provider",
    "read_journal",
    "read_presentations",
    "request_name",
    "score",
    "told_culture",
    "using",
    "wait_for",
]
