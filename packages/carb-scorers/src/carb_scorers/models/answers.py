"""What servers answer, in the several forms that they give it, and the key that they must not show."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

SHOWN = 300
"""Characters of a server's message that are kept."""
_CAN_BE_A_SECRET = 8
"""Characters; local servers are given keys such as ``none``, which are words."""


class Secret:
    """A key that does not show itself: not in a repr, and not where a server repeats it."""

    __slots__ = ("_spelled", "_value")

    def __init__(self, value: str | None) -> None:
        self._value = value
        self._spelled: re.Pattern[bytes] | None = None
        if value is not None and len(value) >= _CAN_BE_A_SECRET:
            self._spelled = re.compile(b"".join(map(_spellings, value)))

    def header(self) -> dict[str, str]:
        return {} if self._value is None else {"Authorization": f"Bearer {self._value}"}

    def hidden(self, content: bytes) -> bytes:
        """``content`` with every occurrence of the key struck out, as it is or escaped."""
        return content if self._spelled is None else self._spelled.sub(b"***", content)

    def masked(self, answer: Any) -> Any:
        """A decoded answer with the key struck out of its texts, however JSON spelled it."""
        if isinstance(answer, str):
            return self.hidden(answer.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
        if isinstance(answer, dict):
            return {self.masked(name): self.masked(value) for name, value in answer.items()}
        return [self.masked(value) for value in answer] if isinstance(answer, list) else answer

    def __repr__(self) -> str:
        return "***"

    def __reduce__(self) -> str:
        raise TypeError("a key is not to be written anywhere")


def _spellings(character: str) -> bytes:
    """A pattern for a character as it is, and as JSON and URLs escape it."""
    number = ord(character)
    return rb"(?:\\?%b|(?i:\\u00%02x|%%%02x))" % (re.escape(character.encode()), number, number)


def to_json(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def from_json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def text_of(content: bytes) -> str:
    return content[: 4 * SHOWN].decode("utf-8", "replace")


def message_of(answer: Any) -> str:
    """The message of an error answer, in the several forms that servers give it."""
    if not isinstance(answer, dict):
        return ""
    error = answer.get("error", answer)
    if isinstance(error, dict):
        error = error.get("message", error.get("detail", ""))
    return error if isinstance(error, str) else json.dumps(error)[: 4 * SHOWN]


def code_of(answer: Any) -> str:
    error = answer.get("error") if isinstance(answer, dict) else None
    return str(error.get("code", "")) if isinstance(error, dict) else ""


def retry_after(headers: Any, wall: float) -> float:
    """Seconds that a server asks to wait: ``retry-after-ms``, or ``Retry-After`` as seconds or a date (RFC 9110)."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value) * unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - wall)
    except (ValueError, TypeError, OverflowError):
        return 0.0


def total_tokens(answer: Mapping[str, Any], otherwise: int) -> int:
    usage = answer.get("usage")
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    return total if isinstance(total, int) and total >= 0 else otherwise


def is_this_machine(url: str) -> bool:
    """Whether a URL's host is the machine itself."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
