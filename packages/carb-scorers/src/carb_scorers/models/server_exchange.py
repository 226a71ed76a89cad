"""One attempt at a request: what goes over the line, what an answer means, and a key that nobody sees."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import anyio

from carb_data import CarbError
from carb_data.extras import require
from carb_scorers.models.server_options import is_this_machine

_LARGEST_ANSWER = 32 * 2**20
"""Bytes. More than any judge writes; a server must not fill the memory."""
_SHOWN = 300
"""Characters of a server's message that are kept."""
_CAN_BE_A_SECRET = 8
"""Characters; local servers are given keys such as ``none``, which are words."""
_OVERLOADED = {429, 502, 503, 504, 529}
"""Statuses by which a server, or what stands before it, says that it can answer nobody now."""


class TransientError(Exception):
    """Worth trying again."""

    def __init__(self, kind: str, message: str, *, after: float = 0.0, overloaded: bool = False) -> None:
        """Args:
        kind: the kind of the error row.
        message: what happened.
        after: the seconds that the server asks to wait.
        overloaded: the server, not the request, is at fault: nobody listens, or it has too much to do.
        """
        super().__init__(message)
        self.kind, self.message, self.after, self.overloaded = kind, message, after, overloaded


class FinalError(Exception):
    """Not worth trying again."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


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

    def hidden(self, text: str) -> str:
        """The text with every occurrence of the key struck out, as it is or escaped."""
        if self._spelled is None:
            return text
        return self._spelled.sub(b"***", text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def masked(self, answer: Any) -> Any:
        """A decoded answer with the key struck out of its texts, however JSON spelled it."""
        if isinstance(answer, str):
            return self.hidden(answer)
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


class Connection:
    """The way to a server."""

    def __init__(self, url: str, key: str | None, timeout: float, connections: int) -> None:
        """Args:
        url: the server's base URL.
        key: the key that is sent in the header ``Authorization``; ``None`` sends none.
        timeout: the limit of one attempt, in seconds.
        connections: the number of connections that are kept open at once.
        """
        self._key = Secret(key)
        self._httpx = require("httpx", package="carb-scorers", extra="api")
        self._url = url
        self._timeout = timeout
        self._connections = connections

    def connect(self) -> Any:
        """A client of httpx; whoever gets it closes it."""
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "carb-scorers"}
        return self._httpx.AsyncClient(
            headers={**headers, **self._key.header()},
            timeout=self._httpx.Timeout(self._timeout, pool=None),
            limits=self._httpx.Limits(max_connections=self._connections, max_keepalive_connections=self._connections),
            follow_redirects=False,  # the key would go along
            trust_env=not is_this_machine(self._url),  # a proxy has no business between a machine and itself
        )

    async def send(self, client: Any, path: str, body: Mapping[str, Any], *, proven: bool) -> dict[str, Any]:
        """Send a request once.

        Args:
            client: The client that ``connect`` gives.
            path: the path below the server's URL.
            body: The content that is sent as JSON.
            proven: whether the server has answered before, so that URL, key and model are right.

        Raises:
            TransientError: it is worth trying again.
            FinalError: it is not.
            CarbError: no request will be answered.
        """
        httpx = self._httpx
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        try:
            with anyio.fail_after(self._timeout):
                async with client.stream("POST", f"{self._url}{path}", content=content) as response:
                    found = await _read(response)
        except httpx.ConnectTimeout:
            raise TransientError("connection", "no connection in time", overloaded=True) from None
        except (TimeoutError, httpx.TimeoutException):
            raise TransientError("timeout", f"no answer within {self._timeout:g} seconds") from None
        except (httpx.TransportError, httpx.StreamError) as error:
            message = self._clean(str(error) or type(error).__name__)
            raise TransientError("connection", message, overloaded=isinstance(error, httpx.ConnectError)) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise FinalError("http", self._clean(str(error))) from None
        return self._answer(response, found, proven=proven)

    def _answer(self, response: Any, content: bytes, *, proven: bool) -> dict[str, Any]:
        if 300 <= response.status_code < 400:
            where = self._clean(str(response.headers.get("location", "nowhere")))
            raise FinalError(
                "http", f"{response.status_code}: the server redirects to {where}; redirects are not followed"
            )
        try:
            answer = self._key.masked(json.loads(content))
        except (ValueError, RecursionError):  # no JSON, or deeper than anything that a server has to say
            answer = None
        shown = content[: 4 * _SHOWN].decode("utf-8", "replace")
        if response.status_code >= 400:
            self._refused(response, answer, shown, proven=proven)
        if not isinstance(answer, dict):
            raise FinalError("http", f"the answer is not a JSON object: {self._clean(shown)}")
        if "error" in answer and answer["error"] and "choices" not in answer:
            raise FinalError("http", self._clean(_message_of(answer)))
        return answer

    def _refused(self, response: Any, answer: Any, shown: str, *, proven: bool) -> None:
        status: int = response.status_code
        message = self._clean(_message_of(answer) or shown or "no message")
        error = answer.get("error") if isinstance(answer, dict) else None
        code = str(error.get("code", "")) if isinstance(error, dict) else ""
        if code == "insufficient_quota" or status == 402:
            raise CarbError(f"{self._url}: the account has no credit left ({status}: {message}).")
        if status == 401:
            raise CarbError(
                f"{self._url} does not accept the key ({status}: {message}). Name its variable in key_env=."
            )
        if status in {403, 404, 405, 501} and not proven:
            hint = "Are the key and what it permits" if status == 403 else "Are url= and the model's name"
            raise CarbError(f"{self._url} answers {status}: {message}. {hint} right?")
        larger = status == 429 and "request too large" in message.lower()  # than the limit on tokens, as OpenAI says it
        if not larger and (status in {408, 409, 425, 429} or (status >= 500 and status != 501)):
            after = retry_after(response.headers)
            raise TransientError("http", f"{status}: {message}", after=after, overloaded=status in _OVERLOADED)
        too_long = larger or code == "context_length_exceeded" or "context length" in message or status == 413
        raise FinalError("too-long" if too_long else "http", f"{status}: {message}")

    def _clean(self, text: str) -> str:
        return " ".join(self._key.hidden(text).split())[:_SHOWN]


async def _read(response: Any) -> bytes:
    """The body, which must not be larger than any answer."""
    out = bytearray()
    async for part in response.aiter_bytes():
        out += part
        if len(out) > _LARGEST_ANSWER:
            raise FinalError("http", f"the answer is larger than {_LARGEST_ANSWER // 2**20} MiB")
    return bytes(out)


def _message_of(answer: Any) -> str:
    """The message of an error answer, in the several forms that servers give it."""
    if not isinstance(answer, dict):
        return ""
    error = answer.get("error", answer)
    if isinstance(error, dict):
        error = error.get("message", error.get("detail", ""))
    return error if isinstance(error, str) else json.dumps(error)[: 4 * _SHOWN]


def retry_after(headers: Any) -> float:
    """Seconds that a server asks to wait: ``retry-after-ms``, or ``Retry-After`` as seconds or a date (RFC 9110).

    A date is compared with the date of the answer, since clocks differ; without that it says nothing.
    """
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "").strip()) * unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        until, now = (parsedate_to_datetime(headers.get(name, "")) for name in ("retry-after", "date"))
        return max(0.0, (until - now).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return 0.0
