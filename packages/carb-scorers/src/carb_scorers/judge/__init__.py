"""Generative judges: a language model that says which answer is right, in several ways of asking and reading."""

from carb_scorers.judge.bradley_terry import strengths
from carb_scorers.judge.modes import Answer, Ask, Outcome, Round, pairwise
from carb_scorers.judge.reading import Read, normalised
from carb_scorers.judge.scorer import Form, JudgeOptions, JudgeScorer, form_of, open_judge

__all__ = [
    "Answer",
    "Ask",
    "Form",
    "JudgeOptions",
    "JudgeScorer",
    "Outcome",
    "Read",
    "Round",
    "form_of",
    "normalised",
    "open_judge",
    "pairwise",
    "strengths",
]
