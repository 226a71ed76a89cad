"""Generative judges: a language model that picks an answer, with several kinds of prompts and
readings."""

from carb_scorers.judge.form import form_names, form_text, read_form
from carb_scorers.judge.judge import Form, JudgeOptions, JudgeScorer, form_of, planned
from carb_scorers.judge.order_and_prompt import Ask, Asker, shown_orders
from carb_scorers.judge.reading import Read, among_labels

__all__ = [
    "Ask",
    "Asker",
    "Form",
    "JudgeOptions",
    "JudgeScorer",
    "Read",
    "among_labels",
    "form_names",
    "form_of",
    "form_text",
    "planned",
    "read_form",
    "shown_orders",
]
