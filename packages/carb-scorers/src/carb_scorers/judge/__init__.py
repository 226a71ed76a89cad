"""Generative judges: a language model that says which answer is right, in several ways of asking and reading."""

from carb_scorers.judge.scorer import JudgeOptions, JudgeScorer, open_judge

__all__ = ["JudgeOptions", "JudgeScorer", "open_judge"]
