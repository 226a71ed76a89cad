"""Chat templates that ask for today's date, which decides a score as the template's words do."""

import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from carb_data import CarbError
from carb_scorers.models.chat_tokens import rendered_turns

_CLOCK = re.compile(r"""strftime_now\s*\(\s*(?P<quote>["'])(?P<form>.*?)(?P=quote)\s*\)""")
"""How chat templates of transformers ask for the date."""
_UNREAD = re.compile(r"strftime_now\s*\(|[=:,(\[]\s*strftime_now\b(?!\s+is\b)")
"""Other ways to ask: by a format that is no text, or by another name for the clock."""
_NAMED = re.compile(rf"set\s+(\w+)\s*=\s*{_CLOCK.pattern}")
_OTHER_TIMES = (
    datetime(1999, 12, 31, 23, 59, 59, 9, tzinfo=UTC),
    datetime(2011, 1, 17, 12, 30, tzinfo=UTC),
    datetime(2032, 6, 5, 4, 3, 2, 1, tzinfo=UTC),
)
"""Times of other years, months, weekdays and parts of a day. A template's output at each shows
whether it uses the clock."""
_COPY = "a copy of the template with the date in it, given as chat_template="
_log = logging.getLogger(__name__)


def stop_clock(tokenizer: Any) -> str:
    """Write the date into a chat template that asks the clock, so that it is the same for a whole
    run.

    Returns:
        The addition of the date to the model's revision.

    Raises:
        CarbError: the template asks in a way in which the date cannot be written into it.
    """
    given = tokenizer.chat_template
    texts = given if isinstance(given, dict) else {"": given or ""}
    whole = "\n".join(texts.values())
    if _UNREAD.search(_CLOCK.sub("", whole)):
        raise CarbError(
            f"The chat template asks the clock in a way that is not read. Give {_COPY}."
        )
    today = datetime.now().astimezone()
    now = {match["form"]: today.strftime(match["form"]) for match in _CLOCK.finditer(whole)}

    def stand(dates: Mapping[str, str]) -> None:
        made = {
            name: _CLOCK.sub(lambda asked: repr(dates[asked["form"]]), text)
            for name, text in texts.items()
        }
        tokenizer.chat_template = made if isinstance(given, dict) else made[""]

    def used(form: str, **variables: str) -> bool:
        rendered = set()
        for date in (now[form], *(time.strftime(form) for time in _OTHER_TIMES)):
            stand({**now, form: date})
            rendered.add(rendered_turns(tokenizer, **variables))
        return len(rendered) > 1

    shown = ", ".join(sorted(date for form, date in now.items() if used(form)))
    # A template may set a variable whatever is given, so that the option is tried.
    pins = {match[1]: now[match["form"]] for match in _NAMED.finditer(whole)}
    pinned = bool(pins) and not any(used(form, **pins) for form in now)
    if now:
        stand(now)
    if not shown:  # pinned by a variable
        return ""
    _log.warning(
        "The chat template asks the clock (%s): scores of another day are scores of another "
        "prompt, and a run is not continued then. To pin it: %s.",
        shown,
        f"chat_template_kwargs={json.dumps(pins)}" if pinned else _COPY,
    )
    return f"+clock:{shown}"
