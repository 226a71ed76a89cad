"""Turns of a conversation that a table joins in one text: ``[Kunde] … [Berater] …``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from carb_data.packaged import resource
from carb_data.values import UnreadError

__all__ = ["refuse_turns"]

_SPEAKERS = "|".join(resource("headings")["speakers"])
_OPENING = re.compile(
    r"\s*(<\|[^<>|\n]{1,30}\|>|<(?:start|end)_of_turn>|\[/?[^\W\d_][^\]\n]{0,29}\]|【[^】\n]{1,30}】"
    r"|#{2,4} ?[^\n:：]{1,30}[:：]"
    rf"|</?(?:{_SPEAKERS})>:?|\**(?:{_SPEAKERS})\**\s*[:：]\**)",
    re.IGNORECASE,
)
"""A mark of a role: between brackets any word, and before a colon a known one."""
_TURN = re.compile(rf"(?:\A|\n){_OPENING.pattern}", re.IGNORECASE)
_OPEN = re.compile(f"(?:{_OPENING.pattern})+", re.IGNORECASE)
"""A last line of marks alone, behind which an answer is due."""
_REMEDY = "write the turns as messages of the user and the assistant, or take the marks off"


def refuse_turns(prompt: object, answers: Iterable[str]) -> None:
    """Refuse answers that all begin with a role, and a question of several turns.

    Raises:
        UnreadError: with the mark.
    """
    openings = {match[1] if (match := _OPENING.match(answer)) else "" for answer in answers}
    if len(openings) == 1 and (mark := openings.pop()):
        raise UnreadError(("chosen", f"all answers begin with the role '{mark}'; {_REMEDY}"))
    if not isinstance(prompt, str) or not _OPENING.match(prompt):
        return
    marks = [match[1] for match in _TURN.finditer(prompt)]
    last = prompt.rstrip().rpartition("\n")[2]
    if len(marks) > 1 and (len({*marks}) < len(marks) or _OPEN.fullmatch(last)):
        reason = f"holds turns of several roles ('{marks[0]}', '{marks[1]}'); {_REMEDY}"
        raise UnreadError(("prompt", reason))
