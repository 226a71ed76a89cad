"""Short names of scorers for tables and charts."""

from __future__ import annotations

from collections.abc import Iterable

from carb_cli.display import safe, short

LONGEST = 48


def labels(names: Iterable[str]) -> dict[str, str]:
    """A short label for each name, different for different names: paths cut to their last part, then numbered."""
    found: dict[str, str] = {}
    for name in names:
        text = safe(short(name))
        if len(text) > LONGEST:
            text = f"{text[: LONGEST - 1]}…"
        label, number = text, 2
        while label in found.values():
            label, number = f"{text} #{number}", number + 1
        found[name] = label
    return found
