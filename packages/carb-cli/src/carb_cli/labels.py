"""Short names of scorers for tables and charts."""

import re
from collections.abc import Iterable

from carb_cli.display import safe

LONGEST = 48
_GENERIC = re.compile(r"(?:best|checkpoint(?:-\d+)?|final|last|latest|model|output)")
"""Folder names that say nothing about the model in them."""


def labels(names: Iterable[str]) -> dict[str, str]:
    """A short label for each name, different for different names.

    A path is cut to as many of its last parts as tell it from the others. These say more than
    ``checkpoint`` or ``model``: ``run-a/checkpoint`` and ``run-b/checkpoint``. Labels that are
    still alike, such as two long names that are cut to the same text, are numbered.

    Args:
        names: The scorers' names, as a run records them.
    """
    wanted = list(dict.fromkeys(names))
    labelled: dict[str, str] = {}
    for name in wanted:
        for parts in range(1, name.count("/") + 1):
            text = _cut(name, parts)
            target = text.partition(":")[2].partition("?")[0]
            generic = parts == 1 and _GENERIC.fullmatch(target)
            if not generic and not any(
                _cut(other, parts) == text for other in wanted if other != name
            ):
                break
        else:
            text = name
        text = safe(text)
        if len(text) > LONGEST:
            text = f"{text[: LONGEST - 1]}…"
        label = text
        number = 2
        while label in labelled.values():
            label, number = f"{text} #{number}", number + 1
        labelled[name] = label
    return labelled


def _cut(name: str, parts: int) -> str:
    """A spec string whose target keeps only the last parts of its path."""
    kind, separator, rest = name.partition(":")
    target, question, query = rest.partition("?")
    kept = "/".join(target.rstrip("/").split("/")[-parts:]) or target
    return f"{kind}{separator}{kept}{question}{query}"
