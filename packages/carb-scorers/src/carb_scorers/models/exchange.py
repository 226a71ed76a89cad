"""One attempt at a request: what goes over the line, and what an answer means."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import anyio

from carb_data import CarbError
from carb_data.extras import require
from carb_scorers.models.answers import (
    SHOWN,
    Secret,
    code_of,
    from_json,
    is_this_machine,
    message_of,
    retry_after,
    text_of,
    to_json,
)

_LARGEST_ANSWER = 32 * 2**20
"""Bytes. More than any judge writes; a server must not fill the memory."""
_OVERLOADED = {429, 502, 503, 504, 529}
"""Statuses by which a server, or what stands before it, says that it can answer nobody now."""


class TransientError(Exception):
    """Worth trying again."""

    def __init__(self, kind: str, message: str, *, after: float = 0.0, gone: bool = False) -> None:
        """Args:
        kind: the kind of the error row.
        message: what happened.
        after: the seconds that the server asks to wait.
        gone: the server, not the request, is at fault: nobody listens, or it is overloaded.
        """
        super().__init__(message)
        self.kind, self.message, self.after, self.gone = kind, message, after, gone


class FinalError(Exception):
    """Not worth trying again."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


class Connection:
    """The way to a server."""

    def __init__(self, url: str, key: str | None, timeout: float, connections: int, wall: Callable[[], float]) -> None:
        """Args:
        url: the server's base URL.
        key: the key that is sent in the header ``Authorization``; ``None`` sends none.
        timeout: the limit of one attempt, in seconds.
        connections: the number of connections that are kept open at once.
        wall: the clock in seconds since 1970, for servers that say until when to wait.
        """
        self._key = Secret(key)
        self._httpx = require("httpx", package="carb-scorers", extra="api")
        self._url = url
        self._timeout = timeout
        self._connections = connections
        self._wall = wall

    def connect(self) -> Any:
        """A client of httpx; whoever gets it closes it."""
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "carb-scorers"}
        headers["Accept-Encoding"] = "gzip, deflate"
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
        try:
            with anyio.fail_after(self._timeout):
                async with client.stream("POST", f"{self._url}{path}", content=to_json(body)) as response:
                    content = await _read(response)
        except httpx.ConnectTimeout:
            raise TransientError("connection", "no connection in time", gone=True) from None
        except (TimeoutError, httpx.TimeoutException):
            raise TransientError("timeout", f"no answer within {self._timeout:g} seconds") from None
        except (httpx.TransportError, httpx.StreamError) as error:
            message = self._clean(str(error) or type(error).__name__)
            raise TransientError("connection", message, gone=isinstance(error, httpx.ConnectError)) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:  # such as an answer that cannot be decompressed
            raise FinalError("http", self._clean(str(error))) from None
        return self._judge(response, content, proven=proven)

    def _judge(self, response: Any, content: bytes, *, proven: bool) -> dict[str, Any]:
        status = response.status_code
        if 300 <= status < 400:
            where = self._clean(str(response.headers.get("location", "nowhere")))
            raise FinalError("http", f"{status}: the server redirects to {where}; redirects are not followed")
        try:
            answer = self._key.masked(from_json(content))
        except RecursionError:  # decoded, and deeper than anything that a server has to say
            answer = None
        if status >= 400:
            self._refused(response, answer, content, proven=proven)
        if not isinstance(answer, dict):
            raise FinalError("http", f"the answer is not a JSON object: {self._clean(text_of(content))}")
        if "error" in answer and answer["error"] and "choices" not in answer:
            raise FinalError("http", self._clean(message_of(answer)))
        return answer

    def _refused(self, response: Any, answer: Any, content: bytes, *, proven: bool) -> None:
        status: int = response.status_code
        message = self._clean(message_of(answer) or text_of(content) or "no message")
        code = code_of(answer)
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
            after = retry_after(response.headers, self._wall())
            raise TransientError("http", f"{status}: {message}", after=after, gone=status in _OVERLOADED)
        too_long = larger or code == "context_length_exceeded" or "context length" in message or status == 413
        raise FinalError("too-long" if too_long else "http", f"{status}: {message}")

    def _clean(self, text: str) -> str:
        return " ".join(self._key.hidden(text.encode()).decode("utf-8", "replace").split())[:SHOWN]


async def _read(response: Any) -> bytes:
    """The body, decompressed a piece at a time, so that a small answer cannot become a large one unseen."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in {"", "identity", "gzip", "x-gzip", "deflate"}:
        raise FinalError("http", f"the answer is compressed as '{encoding[:SHOWN]}', which was not asked for")
    unpack = None if encoding in {"", "identity"} else zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    out = bytearray()
    async for part in response.aiter_raw():
        rest = part
        while rest:
            room = _LARGEST_ANSWER - len(out) + 1
            try:
                out += rest[:room] if unpack is None else unpack.decompress(rest, room)
            except zlib.error as error:
                raise FinalError("http", f"the answer cannot be decompressed: {error}") from None
            if len(out) > _LARGEST_ANSWER:
                raise FinalError("http", f"the answer is larger than {_LARGEST_ANSWER // 2**20} MiB")
            rest = b"" if unpack is None else unpack.unconsumed_tail
    return bytes(out)
