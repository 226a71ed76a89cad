"""Shared by the reward server and the review server: a port, bounded bodies, and refusals."""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import anyio

from carb_data import CarbError, require

require("starlette", "carb-scorers[serve]")
from starlette.applications import Starlette  # noqa: E402 - the line above names the extra
from starlette.exceptions import HTTPException  # noqa: E402
from starlette.requests import ClientDisconnect, Request  # noqa: E402
from starlette.responses import Response  # noqa: E402
from starlette.routing import BaseRoute  # noqa: E402
from starlette.types import ASGIApp, Receive, Scope, Send  # noqa: E402

__all__ = [
    "LOOPBACK",
    "RefusalError",
    "Room",
    "guarded",
    "json_response",
    "read_body",
    "server_config",
    "take_port",
]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
LINGER = 2.0
"""Seconds for which the rest of a refused body is read, so that its sender reads the refusal."""
HEAD_SECONDS = 30.0
"""How long the head of a request may take to arrive."""
IDLE_SECONDS = 95
"""How long an idle connection is kept: longer than clients keep theirs (Go 90, aiohttp 15), so that
none sends a request into a connection that closes."""
_READ = "carb.body_read"
"""Key of the request's scope: whether its whole body was read."""


class RefusalError(HTTPException):
    """A request that is answered with another status than 200."""

    def __init__(
        self, status: int, reason: str, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(status, reason, headers)
        self.more = more


class Room:
    """The bytes that all requests together may hold in memory.

    Args:
        size: the number of bytes.
    """

    def __init__(self, size: int) -> None:
        self._size = self._free = size

    @contextmanager
    def holding(self) -> Iterator[Callable[[int], None]]:
        """Within, the function that is given takes more bytes; they are given back at the end.

        Raises:
            RefusalError: there are not so many left, or never so many.
        """
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            if held + size > self._size:
                raise RefusalError(413, "This call alone fills the server's memory. Send less.")
            if size > self._free:
                raise RefusalError(
                    503,
                    "The calls that wait fill the server's memory. Try again later.",
                    headers={"retry-after": "2"},
                )
            self._free -= size
            held += size

        try:
            yield hold
        finally:
            self._free += held


async def read_body(
    request: Request,
    *,
    largest: int,
    seconds: float,
    hold: Callable[[int], None],
) -> bytes:
    """The body of a request.

    Args:
        request: the request.
        largest: the largest number of bytes.
        seconds: how long the whole body may take.
        hold: the function that takes room for each part, as ``Room.holding`` gives it.

    Raises:
        RefusalError: the body is too large, takes too long, or finds no room.
        ClientDisconnect: the sender has gone.
    """
    body = bytearray()
    try:
        with anyio.fail_after(seconds):
            async for part in request.stream():
                hold(len(part))
                body += part
                if len(body) > largest:
                    raise RefusalError(413, f"Send at most {largest:,} bytes.")
    except TimeoutError:
        raise RefusalError(408, f"The body took more than {seconds:g} seconds.") from None
    request.scope[_READ] = True
    return bytes(body)


def json_response(
    content: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A response that holds JSON in ASCII, so that no text can fail to be written."""
    text = json.dumps(content, allow_nan=False)
    return Response(text, status, dict(headers or {}), "application/json")


def guarded(
    routes: Sequence[BaseRoute],
    admit: Callable[[Request], None],
    content_of: Callable[[HTTPException], object],
) -> ASGIApp:
    """Routes behind a check of each request. A mistake of the sender is refused with 422.

    Args:
        routes: the routes.
        admit: raises ``RefusalError`` for a request that comes to no route.
        content_of: what the response to a refused request says.
    """

    def refuse(request: Request, error: Exception) -> Response:
        if isinstance(error, ClientDisconnect):  # nobody reads this
            return Response(status_code=499)
        if not isinstance(error, HTTPException):
            error = RefusalError(422, str(error))
        return _refused(request, content_of(error), error)

    handlers = dict.fromkeys((HTTPException, CarbError, ClientDisconnect), refuse)
    routed = Starlette(routes=routes, exception_handlers=handlers)
    routed.router.redirect_slashes = False

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)
        try:
            admit(request)
        except RefusalError as refusal:
            await refuse(request, refusal)(scope, receive, send)
        else:
            await routed(scope, receive, send)

    return application


def _refused(request: Request, content: object, error: HTTPException) -> Response:
    """The response to a refused request. A connection with an unread body is closed after it."""
    more = dict(error.headers or {})
    sends = request.headers.get("content-length", "0") != "0"
    sends |= "transfer-encoding" in request.headers
    if request.scope.get(_READ) or not sends:
        return json_response(content, error.status_code, more)
    made = json_response(content, error.status_code, {**more, "connection": "close"})
    return _Lingering(made)


class _Lingering(Response):
    """A response whose connection is closed once the sender has had time to read it.

    To close at once would reset the connection, and the sender would not read why.
    """

    def __init__(self, made: Response) -> None:
        super().__init__(made.body, made.status_code)
        self.raw_headers = made.raw_headers

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        with anyio.move_on_after(LINGER):
            while (await receive()).get("more_body", False):
                pass
        await send({"type": "http.response.body", "body": b""})


def server_config(
    app: Any,
    *,
    head_seconds: float = HEAD_SECONDS,
    idle_seconds: int = IDLE_SECONDS,
    **options: Any,
) -> Any:
    """A configuration of uvicorn, which by itself waits for the head of a request without limit.

    Args:
        app: the application.
        head_seconds: how long a connection may take until the head of its next request has come.
        idle_seconds: how long a connection is kept between requests.
        options: more of uvicorn's options.
    """
    uvicorn = require("uvicorn", "carb-scorers[serve]")
    return uvicorn.Config(
        app,
        http=_punctual_protocol(head_seconds),
        timeout_keep_alive=idle_seconds,
        access_log=False,
        log_level="warning",
        server_header=False,
        lifespan="off",
        ws="none",
        **options,
    )


def _punctual_protocol(head_seconds: float) -> Any:
    """Uvicorn's protocol, which closes a connection whose next head takes too long."""
    base: Any = require("uvicorn.protocols.http.auto", "carb-scorers[serve]")

    class Protocol(base.AutoHTTPProtocol):  # type: ignore[misc]  # the extra may lack
        late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.late = self.loop.call_later(head_seconds, transport.close)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            waits = self.cycle is None or self.cycle.response_complete
            if waits and self.late is None:
                self.late = self.loop.call_later(head_seconds, self.transport.close)
            elif not waits:
                self.punctual()

        def connection_lost(self, exc: Exception | None) -> None:
            self.punctual()
            super().connection_lost(exc)

        def punctual(self) -> None:
            if self.late is not None:
                self.late.cancel()
                self.late = None

    return Protocol


def take_port(host: str, port: int) -> socket.socket:
    """A socket that listens; who comes before the server is ready waits.

    Raises:
        CarbError: there is no such port, it is taken, or it cannot be had.
    """
    if not 0 <= port <= 65_535:
        raise CarbError(f"--port {port}: a port is a number from 1 to 65535, or 0 for a free one.")
    family = socket.AF_INET
    if ":" in host:
        family = socket.AF_INET6
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise CarbError(
            f"Cannot listen at {host}:{port}: {error.strerror}. Name another --port."
        ) from None
