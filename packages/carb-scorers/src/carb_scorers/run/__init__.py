"""Runs: scorers over a data set into a folder that records how to repeat it, and goes on after any
interruption."""

from carb_scorers.run.execute import run
from carb_scorers.run.record import DatasetRecord, Machine, RunRecord, ScorerRecord
from carb_scorers.run.score_journal import read_presentations

__all__ = ["DatasetRecord", "Machine", "RunRecord", "ScorerRecord", "read_presentations", "run"]
