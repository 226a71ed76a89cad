"""Chat templates that ask for today's date, which decides a score as the template's words do."""

from __future__ import annotations

import json
import logging
import re
from datetime import datetime
from typing import Any

from carb_data import CarbError
from carb_scorers.models.chat_tokens import rendered_turns

_CLOCK = re.compile(r"""strftime_now\s*\(\s*(?P<quote>["'])(?P<form>.*?)(?P=quote)\s*\)""")
"""How chat templates of transformers ask for the date."""
_NAMED = re.compile(rf"set\s+(\w+)\s*=\s*{_CLOCK.pattern}")
_MARK = "\ue000"
"""A character of no text, which shows where a date is rendered."""
_COPY = "a copy of the template with the date in it, given as chat_template="
_log = logging.getLogger(__name__)


def stop_clock(tokenizer: Any) -> str:
    """Write the date into a chat template that asks the clock, so that it is the same for a whole
    run.

    Returns:
        What the date adds to the model's revision.

    Raises:
        CarbError: the template asks in a way in which the date cannot be written into it.
    """
    given = tokenizer.chat_template
    texts = given if isinstance(given, dict) else {"": given or ""}
    whole = "\n".join(texts.values())
    forms = {match["form"] for match in _CLOCK.finditer(whole)}
    if re.search(r"strftime_now\s*\(", _CLOCK.sub("", whole)):
        raise CarbError(
            "The chat template asks the clock in a way that is not read here. Give a copy of it "
            "with the date written in as chat_template=."
        )
    now = datetime.now().astimezone()

    def dated(mark: str) -> Any:
        made = {
            name: _CLOCK.sub(lambda match: repr(mark + now.strftime(match["form"])), text)
            for name, text in texts.items()
        }
        return made if isinstance(given, dict) else made[""]

    if not forms:
        return ""
    tokenizer.chat_template = dated(_MARK)
    dates = {now.strftime(form) for form in forms}

    shown = ", ".join(_written(tokenizer, dates))
    # A template may set a variable whatever is given, so that the option is tried.
    pins = {match[1]: now.strftime(match["form"]) for match in _NAMED.finditer(whole)}
    pinned = bool(pins) and not _written(tokenizer, dates, **pins)
    tokenizer.chat_template = dated("")
    if not shown:  # pinned by a variable
        return ""
    _log.warning(
        "The chat template asks the clock (%s): scores of another day are scores of another "
        "prompt, and a run is not continued then. To pin it: %s.",
        shown,
        f"chat_template_kwargs={json.dumps(pins)}" if pinned else _COPY,
    )
    return f"+clock:{shown}"


def _written(tokenizer: Any, dates: set[str], **variables: str) -> list[str]:
    """The marked dates that the chat template writes."""
    rendered = rendered_turns(tokenizer, **variables)
    return sorted(date for date in dates if _MARK + date in rendered)
