"""Generative judges: a language model that says which answer is right, in several ways of asking and reading."""

from carb_scorers.judge.bradley_terry import strengths
from carb_scorers.judge.form_files import FormFile, form_names, form_text, read_form
from carb_scorers.judge.modes import Answer, Ask, Outcome, Round, pairwise
from carb_scorers.judge.reading import Read, normalised
from carb_scorers.judge.scorer import Form, JudgeOptions, JudgeScorer, form_of, open_judge

__all__ = [
    "Answer",
    "Ask",
    "Form",
    "FormFile",
    "JudgeOptions",
    "JudgeScorer",
    "Outcome",
    "Read",
    "Round",
    "form_names",
    "form_of",
    "form_text",
    "normalised",
    "open_judge",
    "pairwise",
    "read_form",
    "strengths",
]
