"""A server that is asked politely and persistently: how many requests at once, and the retry
policy."""

import json
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, TypeVar
from urllib.request import getproxies

import anyio
from anyio import CapacityLimiter

from carb_data import CarbError, require
from carb_scorers.models.protocol import Failure, failure
from carb_scorers.models.server_exchange import (
    Answer,
    RequestError,
    Secret,
    read_answer,
    shown,
)
from carb_scorers.models.server_options import ServerOptions, is_this_machine, key_of
from carb_scorers.scorer import Usage, before_call

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
_LARGEST_ANSWER = 32 * 2**20
"""Bytes. More than any judge writes; a server must not fill the memory."""
_MALFORMED = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError)

Json = Mapping[str, Any]
"""An object of a request or a reply."""
T = TypeVar("T")


Read = Callable[[Json, Usage], T | Failure]
"""Reads an answer and its cost."""


class Clock:
    """Time; tests put one in its place that need not be waited for."""

    now = staticmethod(time.monotonic)
    """Seconds on a clock that never goes back."""
    sleep = staticmethod(anyio.sleep)
    """Let others run for some seconds."""


@dataclass(slots=True)
class _Open:
    """State that lasts while requests are under way: connections belong to one event loop."""

    client: Any
    running: CapacityLimiter
    loop: object
    users: int = 0


class Endpoint:
    """JSON in, JSON out.

    Connections are kept while calls are under way and given back when none is. One event loop after
    another can then use an endpoint.

    Args:
        options: The options that hold the URL and the limits and say where the key is.
        clock: The clock; the system's by default.

    Raises:
        CarbError: the URL is not one, the key is missing, or httpx is not installed.
    """

    def __init__(self, options: ServerOptions, clock: Clock | None = None) -> None:
        self.url = options.url.rstrip("/")
        self.key = Secret(key_of(options))
        self._httpx = require("httpx", "carb-scorers[api]")
        self._options = options
        self._clock = clock or Clock()
        self._jitter = random.Random()
        self._open: _Open | None = None
        self._paused_until = self._clock.now()
        self._succeeded: float | None = None
        self._newer_name = False
        if not is_this_machine(self.url):
            check_proxies(self._httpx)
        # Read once, since that takes as long as many requests; plain http needs none.
        try:
            self._certificates = self.url.startswith("https") and self._httpx.create_ssl_context()
        except OSError as error:  # ssl's own errors, too
            named = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
            raise CarbError(
                f"The certificates of SSL_CERT_FILE or SSL_CERT_DIR ({named}) cannot be read: "
                f"{error}."
            ) from None

    async def ask(
        self,
        path: str,
        body: Json,
        read: Read[T],
    ) -> T | Failure:
        """Send a request until it is answered, and read the answer and its cost.

        A null in the body is left out. Where the answer has another form and ``read`` raises, the
        result is a failure.

        Raises:
            CarbError: there will be no answer to any request: the key is wrong, or the server is
                gone.
        """
        given = {name: value for name, value in body.items() if value is not None}
        attempt = 0
        began = self._clock.now()
        async with self._connected() as opened:
            while True:
                attempt += 1
                try:
                    answer = await self._answer(opened, path, given)
                    break
                except RequestError as error:
                    if not await self._comes_again(error, given, attempt, began):
                        return failure(error.kind, error.message, Usage(requests=attempt))
        usage = _usage(answer, attempt)
        try:
            return read(answer, usage)
        except _MALFORMED as error:
            named = f"{type(error).__name__}: {error}"[:100]
            message = f"the server's answer does not have the form of {path} ({named})"
            return failure("http", message, usage)

    async def _answer(self, opened: _Open, path: str, body: Answer) -> Answer:
        """Send a request once its turn has come, and read the answer."""
        async with opened.running:
            while (pause := self._paused_until - self._clock.now()) > 0:
                await self._clock.sleep(pause)
            response, content = await self._send(opened.client, path, self._renamed(body))
        proven = self._succeeded is not None
        answer = read_answer(self.url, self.key, response, content, proven=proven)
        self._succeeded = self._clock.now()
        return answer

    async def _comes_again(
        self, error: RequestError, body: Answer, attempt: int, began: float
    ) -> bool:
        """Whether a request that failed is to be sent again, once it has waited."""
        if error.parameter and attempt <= 2 and self._takes_without(error, body):
            return True
        backoff = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(attempt - 1, 10))
        wait = max(error.after, backoff * self._jitter.uniform(0.5, 1.0))
        if not (error.again and self._tries_again(error, attempt, began, wait)):
            return False
        self._paused_until = max(self._paused_until, self._clock.now() + error.after)
        await self._clock.sleep(wait)
        return True

    def _renamed(self, body: Answer) -> Answer:
        """A request with the newer name of its length, once the server has refused the older."""
        newer = {}
        if self._newer_name:
            newer = {"max_tokens": "max_completion_tokens"}
        return {newer.get(name, name): value for name, value in body.items()}

    def _takes_without(self, error: RequestError, body: Json) -> bool:
        """Whether a request can be sent again by itself, without a field that was refused.

        Raises:
            CarbError: leaving it out would change the prompt, so the user decides.
        """
        name = error.parameter
        if name not in body:
            return False
        if name == "max_tokens" and "max_completion_tokens" in error.message:
            self._newer_name = True
            return True
        if name in {"logprobs", "top_logprobs"}:
            raise CarbError(
                f"{self.url} reports no log-probabilities ({error.message}). Use read=generate."
            )
        remedy = json.dumps({name: None})
        raise CarbError(
            f"{self.url} does not take '{name}' ({error.message}). Leave it out with body={remedy}."
        )

    async def _send(self, client: Any, path: str, body: Json) -> tuple[Any, bytes]:
        """Send a request once; the response and its body, which must not be larger than any
        answer."""
        httpx = self._httpx
        timeout = self._options.timeout
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        received = bytearray()
        before_call.get()()
        try:
            with anyio.fail_after(timeout):
                async with client.stream("POST", f"{self.url}{path}", content=content) as response:
                    async for part in response.aiter_bytes():
                        received += part
                        if len(received) > _LARGEST_ANSWER:
                            raise RequestError(
                                "http", f"the answer is larger than {_LARGEST_ANSWER // 2**20} MiB"
                            )
        except httpx.ConnectTimeout:
            raise RequestError(
                "connection", "no connection in time", again=True, overloaded=True
            ) from None
        except (TimeoutError, httpx.TimeoutException):
            raise RequestError(
                "timeout", f"no answer within {timeout:g} seconds", again=True
            ) from None
        except (httpx.TransportError, httpx.StreamError) as error:
            gone = isinstance(error, httpx.ConnectError)
            message = shown(self.key, str(error) or type(error).__name__)
            raise RequestError("connection", message, again=True, overloaded=gone) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise RequestError("http", shown(self.key, str(error))) from None
        return response, bytes(received)

    def _tries_again(
        self,
        error: RequestError,
        attempt: int,
        began: float,
        wait: float,
    ) -> bool:
        """The retry policy: whether a request that failed is tried again.

        A request at fault (500, a timeout, a lost connection) is given up after its retries. Where
        the server is overloaded or gone, the request is tried for ``patience`` seconds. Then it is
        given up if others were answered meanwhile.

        Raises:
            CarbError: nobody was answered, so that a run stops, to be continued, rather than fill
                up with errors.
        """
        patience = self._options.patience
        if error.after > patience > 0:
            raise CarbError(
                f"{self.url} asks to wait {error.after:.0f} seconds ({error.message}). What was "
                "scored before is kept; run the same command again then, or raise patience=."
            )
        if not patience and error.after > _LONGEST_WAIT:
            return False
        if not error.overloaded or not patience:
            return attempt <= self._options.retries
        if self._succeeded is None and attempt > self._options.retries:
            raise CarbError(f"{self.url} cannot be used: {error.message}. {self._hint(error)}")
        if self._clock.now() + wait - began <= patience:
            return True
        if self._succeeded is not None and self._succeeded > began:
            return False
        raise CarbError(
            f"{self.url} has not answered for {patience:.0f} seconds (last: {error.message}). What "
            "was scored before is kept; run the same command again when the server is back."
        )

    def _hint(self, error: RequestError) -> str:
        """Advice for a server that has answered nothing."""
        if error.message.startswith("429"):
            return "It answers that it gets too many requests; lower concurrency=, or wait"
        if "CERTIFICATE_VERIFY_FAILED" in error.message:
            return "Name a file with its certificate in the environment variable SSL_CERT_FILE."
        hint = "Is the server running, and url= right?"
        for name in (self.url.partition(":")[0], "all"):
            if name in getproxies() and not is_this_machine(self.url):
                return f"{hint} Is the proxy of {name.upper()}_PROXY there?"
        return hint

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[_Open]:
        loop = anyio.lowlevel.current_token()
        if self._open is None or self._open.loop != loop:
            most = self._options.concurrency
            headers = {
                "Content-Type": "application/json",
                "Accept": "application/json",
                "User-Agent": "carb-scorers",
            }
            client = self._httpx.AsyncClient(
                headers={**headers, **self.key.header()},
                timeout=self._httpx.Timeout(self._options.timeout, pool=None),
                limits=self._httpx.Limits(max_connections=most, max_keepalive_connections=most),
                follow_redirects=False,  # the key would go along
                # No proxy stands between a machine and itself.
                trust_env=not is_this_machine(self.url),
                verify=self._certificates,
            )
            self._open = _Open(client, CapacityLimiter(most), loop)
        opened = self._open
        opened.users += 1
        try:
            yield opened
        finally:
            opened.users -= 1
            if opened.users == 0:
                if self._open is opened:
                    self._open = None
                with anyio.CancelScope(shield=True):
                    await opened.client.aclose()


def check_proxies(httpx: Any) -> None:
    """Report before the first request what a proxy lacks; its address may hold a password.

    Raises:
        CarbError: it has no address, or speaks SOCKS, for which the package is not there.
    """
    for scheme, proxy in getproxies().items():
        kind = proxy.lower().partition(":")[0]
        fault = ""
        try:
            if scheme in {"http", "https", "all"}:
                httpx.Proxy(proxy if "://" in proxy else f"http://{proxy}")
        except (ValueError, httpx.InvalidURL):
            fault = "holds no address of a proxy such as http://127.0.0.1:3128. Correct it"
        if kind.startswith("socks") and find_spec("socksio") is None:
            fault = f"names a {kind} proxy, which needs a package: pip install 'httpx[socks]'"
        if fault:
            raise CarbError(
                f"The environment variable {scheme.upper()}_PROXY {fault}. Or unset the variable."
            )


def _usage(answer: Json, attempts: int) -> Usage:
    usage = answer.get("usage")
    counts = {}
    if isinstance(usage, dict):
        counts = usage
    read, written = (_count(counts.get(f"{side}_tokens")) for side in ("prompt", "completion"))
    named = [answer.get(name) for name in ("model", "system_fingerprint")]
    given = [name for name in named if isinstance(name, str) and name]
    names = [json.dumps(name)[1:-1] for name in given]
    served = " ".join(names)[:200]
    return Usage(
        input_tokens=read,
        output_tokens=written,
        requests=attempts,
        served=tuple(filter(None, [served])),
    )


def _count(value: Any) -> int:
    if isinstance(value, int) and value >= 0:
        return value
    return 0


async def gather(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run calls at the same time; their values in order.

    Raises:
        CarbError: the first that a call raises, as it is; the others are cancelled.
    """
    values: dict[int, Any] = {}

    async def run(index: int, call: Callable[[], Any]) -> None:
        values[index] = await call()

    try:
        async with anyio.create_task_group() as group:
            for number, call in enumerate(calls):
                group.start_soon(run, number, call)
    except BaseExceptionGroup as errors:
        raise next(
            (error for error in errors.exceptions if isinstance(error, CarbError)), errors
        ) from None
    return [values[number] for number in range(len(calls))]
