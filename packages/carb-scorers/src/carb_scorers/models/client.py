"""A server that is asked politely and persistently: limits, time-outs, retries, and a key that nobody sees."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio import CapacityLimiter

from carb_data import CarbError
from carb_data.extras import require
from carb_scorers.contract import ScoreError
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
    total_tokens,
)
from carb_scorers.models.limits import Clock, SystemClock, TokenBucket

_LARGEST_ANSWER = 32 * 2**20
"""Bytes. More than any judge writes; a server must not fill the memory."""
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
_OVERLOADED = {429, 502, 503, 504, 529}
"""Statuses by which a server, or what stands before it, says that it can answer nobody now."""


class EndpointError(Exception):
    """One request has no answer."""

    def __init__(self, error: ScoreError, attempts: int) -> None:
        super().__init__(error.message)
        self.error = error
        self.attempts = attempts


class _TransientError(Exception):
    """Worth trying again."""

    def __init__(self, kind: str, message: str, *, after: float = 0.0, gone: bool = False) -> None:
        """Args:
        kind: of the error row.
        message: what happened.
        after: seconds that the server asks to wait.
        gone: the server, not the request, is at fault: nobody listens, or it is overloaded.
        """
        super().__init__(message)
        self.kind, self.message, self.after, self.gone = kind, message, after, gone


class _FinalError(Exception):
    """Not worth trying again."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """How a server is asked."""

    concurrency: int = 8
    """Requests under way at once."""
    rpm: float | None = None
    """Requests a minute."""
    tpm: float | None = None
    """Tokens a minute."""
    timeout: float = 120.0
    """Seconds for one attempt, from connecting to the last byte."""
    retries: int = 6
    """Further attempts after a 408, 409, 425, 429 or 5xx, a time-out or a lost connection."""
    patience: float = 300.0
    """Seconds for which a server that has answered before may be gone or overloaded, before the run stops. With 0
    such requests become error rows after their retries, and the run goes on."""


@dataclass(slots=True)
class _Open:
    """What lives while calls are under way: connections belong to one event loop."""

    client: Any
    running: CapacityLimiter
    loop: object
    users: int = 0


class Endpoint:
    """JSON in, JSON out.

    Connections are kept while calls are under way and given back when none is, so that an endpoint can be used from
    one event loop after another.
    """

    def __init__(
        self,
        url: str,
        key: str | None,
        limits: ServerLimits,
        *,
        clock: Clock | None = None,
        seed: int | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._httpx = require("httpx", package="carb-scorers", extra="api")
        self._key = Secret(key)
        self._how = limits
        self._clock = clock or SystemClock()
        self._jitter = random.Random(seed)
        self._open: _Open | None = None
        self._requests = TokenBucket(limits.rpm, self._clock) if limits.rpm else None
        self._tokens = TokenBucket(limits.tpm, self._clock) if limits.tpm else None
        self._paused_until = self._clock.now()
        self._succeeded: float | None = None
        self._successes = 0

    async def post(self, path: str, body: Mapping[str, Any], *, tokens: int = 0) -> tuple[dict[str, Any], int]:
        """Send a request until it is answered.

        Args:
            path: below the endpoint's URL.
            body: to be sent as JSON.
            tokens: an estimate of what it costs, for the limit on tokens.

        Returns:
            The answer, and how many attempts it took.

        Raises:
            EndpointError: there is no answer to this request.
            CarbError: there will be no answer to any request: the key is wrong, or the server is gone.
        """
        async with AsyncExitStack() as stack:
            opened = await self._enter(stack)
            before: int | None = None
            attempt = 0
            while True:
                attempt += 1
                try:
                    async with opened.running:
                        await self._wait_for_turn(tokens)
                        answer = await self._once(opened, path, body)
                except _TransientError as error:
                    wait = self._wait(attempt, error)
                    self._give_up(error, attempt, wait, alone=before in (None, self._successes))
                    before = self._successes
                    self._paused_until = max(self._paused_until, self._clock.now() + error.after)
                    await self._clock.sleep(wait)
                except _FinalError as error:
                    raise EndpointError(ScoreError(kind=error.kind, message=error.message), attempt) from None
                else:
                    self._succeeded = self._clock.now()
                    self._successes += 1
                    if self._tokens is not None:
                        self._tokens.correct(total_tokens(answer, tokens) - tokens)
                    return answer, attempt

    def _wait(self, attempt: int, error: _TransientError) -> float:
        """Exponential with jitter over its upper half, and at least what the server asks for."""
        backoff = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(attempt - 1, 10))
        return max(error.after, backoff * self._jitter.uniform(0.5, 1.0))

    def _give_up(self, error: _TransientError, attempt: int, wait: float, *, alone: bool) -> None:
        """Raise where another attempt is pointless.

        After its retries a request is given up as an error row, if it is at fault itself: others have succeeded since
        its last attempt (``alone`` is false), or the server is there and answers. Where the server is at fault it is
        waited for, and then the run stops, to be continued, rather than fill up with errors.
        """
        if error.after > self._how.patience > 0:
            raise CarbError(
                f"{self.url} asks to wait {error.after:.0f} seconds ({error.message}). What was scored before is kept; "
                f"run the same command again then, or raise patience=."
            )
        if attempt <= self._how.retries:
            return
        if not error.gone or not alone or not self._how.patience:
            raise EndpointError(ScoreError(kind=error.kind, message=error.message), attempt)
        if self._succeeded is None:
            hint = "It answers that it gets too many requests; lower rpm=, tpm= or concurrency=, or wait"
            if not error.message.startswith("429"):
                hint = "Is the server running, and url= right?"
            raise CarbError(f"{self.url} cannot be used: {error.message}. {hint}")
        if self._clock.now() + wait - self._succeeded > self._how.patience:
            raise CarbError(
                f"{self.url} has not answered for {self._how.patience:.0f} seconds (last: {error.message}). What was "
                f"scored before is kept; run the same command again when the server is back."
            )

    async def _enter(self, stack: AsyncExitStack) -> _Open:
        loop = anyio.lowlevel.current_token()
        if self._open is None or self._open.loop != loop:
            self._open = self._connect(loop)
        opened = self._open
        opened.users += 1

        async def leave() -> None:
            opened.users -= 1
            if opened.users == 0:
                if self._open is opened:
                    self._open = None
                with anyio.CancelScope(shield=True):
                    await opened.client.aclose()

        stack.push_async_callback(leave)
        return opened

    def _connect(self, loop: object) -> _Open:
        how = self._how
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "carb-scorers"}
        headers["Accept-Encoding"] = "gzip, deflate"
        client = self._httpx.AsyncClient(
            headers={**headers, **self._key.header()},
            timeout=self._httpx.Timeout(how.timeout, pool=None),
            limits=self._httpx.Limits(max_connections=how.concurrency, max_keepalive_connections=how.concurrency),
            follow_redirects=False,  # the key would go along
            trust_env=not is_this_machine(self.url),  # a proxy has no business between a machine and itself
        )
        return _Open(
            client=client,
            running=CapacityLimiter(how.concurrency),
            loop=loop,
        )

    async def _wait_for_turn(self, tokens: int) -> None:
        while (pause := self._paused_until - self._clock.now()) > 0:
            await self._clock.sleep(pause)
        if self._requests is not None:
            await self._requests.take()
        if self._tokens is not None:
            await self._tokens.take(tokens)

    async def _once(self, opened: _Open, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        httpx = self._httpx
        try:
            with anyio.fail_after(self._how.timeout):
                async with opened.client.stream("POST", f"{self.url}{path}", content=to_json(body)) as response:
                    content = await _read(response)
        except httpx.ConnectTimeout:
            raise _TransientError("connection", "no connection in time", gone=True) from None
        except (TimeoutError, httpx.TimeoutException):
            raise _TransientError("timeout", f"no answer within {self._how.timeout:g} seconds") from None
        except (httpx.TransportError, httpx.StreamError) as error:
            message = self._clean(str(error) or type(error).__name__)
            raise _TransientError("connection", message, gone=isinstance(error, httpx.ConnectError)) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:  # such as an answer that cannot be decompressed
            raise _FinalError("http", self._clean(str(error))) from None
        return self._judge(response, content)

    def _judge(self, response: Any, content: bytes) -> dict[str, Any]:
        status = response.status_code
        if 300 <= status < 400:
            where = self._clean(str(response.headers.get("location", "nowhere")))
            raise _FinalError("http", f"{status}: the server redirects to {where}; redirects are not followed")
        try:
            answer = self._key.masked(from_json(content))
        except RecursionError:  # decoded, and deeper than anything that a server has to say
            answer = None
        if status >= 400:
            self._refused(response, answer, content)
        if not isinstance(answer, dict):
            raise _FinalError("http", f"the answer is not a JSON object: {self._clean(text_of(content))}")
        if "error" in answer and answer["error"] and "choices" not in answer:
            raise _FinalError("http", self._clean(message_of(answer)))
        return answer

    def _refused(self, response: Any, answer: Any, content: bytes) -> None:
        status: int = response.status_code
        message = self._clean(message_of(answer) or text_of(content) or "no message")
        code = code_of(answer)
        if code == "insufficient_quota" or status == 402:
            raise CarbError(f"{self.url}: the account has no credit left ({status}: {message}).")
        if status == 401:
            raise CarbError(f"{self.url} does not accept the key ({status}: {message}). Name its variable in key_env=.")
        if status in {403, 404, 405} and self._succeeded is None:
            hint = "Are the key and what it permits" if status == 403 else "Are url= and the model's name"
            raise CarbError(f"{self.url} answers {status}: {message}. {hint} right?")
        if status in {408, 409, 425, 429} or status >= 500:
            after = retry_after(response.headers, self._clock.wall())
            raise _TransientError("http", f"{status}: {message}", after=after, gone=status in _OVERLOADED)
        too_long = code == "context_length_exceeded" or "context length" in message or status == 413
        raise _FinalError("too-long" if too_long else "http", f"{status}: {message}")

    def _clean(self, text: str) -> str:
        return " ".join(self._key.hidden(text.encode()).decode("utf-8", "replace").split())[:SHOWN]

    async def aclose(self) -> None:
        """Nothing is held between calls."""


@dataclass(slots=True)
class _Gathered:
    values: dict[int, Any] = field(default_factory=dict)
    stopped: list[CarbError] = field(default_factory=list)


async def gather(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run calls at the same time; their values in order.

    Raises:
        CarbError: the first that a call raises, as it is; the others are cancelled.
    """
    gathered = _Gathered()

    async def run(place: int, call: Callable[[], Any]) -> None:
        try:
            gathered.values[place] = await call()
        except CarbError as error:
            gathered.stopped.append(error)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for place, call in enumerate(calls):
            group.start_soon(run, place, call)
    if gathered.stopped:
        raise gathered.stopped[0]
    return [gathered.values[place] for place in range(len(calls))]


async def _read(response: Any) -> bytes:
    """The body, decompressed a piece at a time, so that a small answer cannot become a large one unseen."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in {"", "identity", "gzip", "x-gzip", "deflate"}:
        raise _FinalError("http", f"the answer is compressed as '{encoding[:SHOWN]}', which was not asked for")
    unpack = None if encoding in {"", "identity"} else zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    out = bytearray()
    async for part in response.aiter_raw():
        rest = part
        while rest:
            room = _LARGEST_ANSWER - len(out) + 1
            try:
                out += rest[:room] if unpack is None else unpack.decompress(rest, room)
            except zlib.error as error:
                raise _FinalError("http", f"the answer cannot be decompressed: {error}") from None
            if len(out) > _LARGEST_ANSWER:
                raise _FinalError("http", f"the answer is larger than {_LARGEST_ANSWER // 2**20} MiB")
            rest = b"" if unpack is None else unpack.unconsumed_tail
    return bytes(out)
