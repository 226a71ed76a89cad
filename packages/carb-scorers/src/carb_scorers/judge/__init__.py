"""Generative judges: a language model that says which answer is right, in several ways of asking and reading."""

from carb_scorers.judge.form import FormFile, form_names, form_text, read_form
from carb_scorers.judge.judge import Form, JudgeOptions, JudgeScorer, form_of, open_judge
from carb_scorers.judge.order_and_prompt import Ask, Asker, shown_orders
from carb_scorers.judge.reading import Read, among_labels
from carb_scorers.judge.verdict import VerdictError, parse_pick, parse_rating

__all__ = [
    "Ask",
    "Asker",
    "Form",
    "FormFile",
    "JudgeOptions",
    "JudgeScorer",
    "Read",
    "VerdictError",
    "among_labels",
    "form_names",
    "form_of",
    "form_text",
    "open_judge",
    "parse_pick",
    "parse_rating",
    "read_form",
    "shown_orders",
]
