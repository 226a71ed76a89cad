"""Scorers in other projects: as reward of a trainer, as scorer of an evaluation."""

from carb_scorers.integrations.inspect import as_inspect_scorer
from carb_scorers.integrations.trl import as_trl_reward
from carb_scorers.integrations.verl import as_verl_reward

__all__ = ["as_inspect_scorer", "as_trl_reward", "as_verl_reward"]
