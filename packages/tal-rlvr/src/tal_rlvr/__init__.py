"""Think-as-Locals: cultural judges trained by reinforcement learning from verifiable rewards.

Importing this package imports no torch; training needs ``pip install 'tal-rlvr[train]'``.
"""

from tal_rlvr.correctness import correctness_reward
from tal_rlvr.judgement import Criterion, FormatError, Judgement, Span, Verdict, parse_judgement
from tal_rlvr.prompts import render_plain, render_prompt

__all__ = [
    "Criterion",
    "FormatError",
    "Judgement",
    "Span",
    "Verdict",
    "correctness_reward",
    "parse_judgement",
    "render_plain",
    "render_prompt",
]
