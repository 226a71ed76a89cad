"""Scorers in other projects: as reward of a trainer, as scorer of an evaluation, as picker among samples."""

from carb_scorers.integrations.inspect import as_inspect_scorer
from carb_scorers.integrations.picking import Pick, best_of_n, best_of_n_async, score
from carb_scorers.integrations.trl import as_trl_reward
from carb_scorers.integrations.verl import as_verl_reward

__all__ = ["Pick", "as_inspect_scorer", "as_trl_reward", "as_verl_reward", "best_of_n", "best_of_n_async", "score"]
