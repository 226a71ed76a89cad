"""Options written after a question mark, ``key=value&...``: what is wrong with them is said in one sentence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from urllib.parse import parse_qsl

from carb_data.errors import CarbError

__all__ = ["closest", "read_query"]


def closest(name: str, known: Iterable[str]) -> str:
    """`` Did you mean 'X'?`` for the known name nearest to ``name``, or nothing."""
    found = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean '{found[0]}'?" if found else ""


def read_query(query: str | None, owner: str) -> dict[str, str]:
    """The names and values of ``key=value&...``; ``owner`` says in an error whose they are: ``Scorer 'judge:x'``.

    Raises:
        CarbError: it does not have that form, or gives an option twice.
    """
    try:
        pairs = parse_qsl(query or "", keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise CarbError(f"{owner}: the part after '?' must be key=value pairs joined by '&'.") from None
    if len(dict(pairs)) != len(pairs):
        raise CarbError(f"{owner} gives an option twice.")
    return dict(pairs)
