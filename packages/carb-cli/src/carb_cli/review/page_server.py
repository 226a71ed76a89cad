"""The page and its small interface, served from this machine until it is stopped: enter, get items, send events."""

from __future__ import annotations

import carb_cli.review._extra  # noqa: F401  # isort: skip  # before starlette: names the missing extra
import json
import socket
import sqlite3
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from carb_cli.review import handing_out, recording, reviewers
from carb_cli.review.asked import ReviewItem
from carb_cli.review.findings import board
from carb_cli.review.guard import Guard, origins_of
from carb_cli.review.handing_out import setting
from carb_cli.review.opinions import Event, Person
from carb_cli.review.page_words import LANGUAGES, texts
from carb_cli.review.recording import Recorded
from carb_cli.review.review_file import ReviewStore
from carb_cli.review.reviewers import Who
from carb_data import CarbError
from carb_data.validation import first_defect

__all__ = ["address", "application", "listen", "serve"]

HOST = "127.0.0.1"
AT_ONCE = 50
"""Most events of a request, and most items handed out with one."""
_FILES = {
    "/": ("review.html", "text/html; charset=utf-8"),
    "/board": ("board.html", "text/html; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/device.js": ("device.js", "text/javascript; charset=utf-8"),
    "/board.js": ("board.js", "text/javascript; charset=utf-8"),
    "/worker.js": ("worker.js", "text/javascript; charset=utf-8"),
    "/review.css": ("review.css", "text/css; charset=utf-8"),
}


class _RefusalError(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


_WRONG_LINKS, _REQUESTS = 10, 600
"""Per minute: wrong links of an address, requests of a reviewer."""


class _Service:
    """The interface of one review file."""

    def __init__(self, store: ReviewStore, prefix: str, secure: bool) -> None:
        from limits import RateLimitItemPerMinute
        from limits.storage import MemoryStorage
        from limits.strategies import MovingWindowRateLimiter

        self._store = store
        self._prefix = prefix
        self._secure = secure
        # Two reviews under one host name have cookies of their own.
        self._cookie = f"carb_review_{store.submit(lambda db: setting(db, 'seed')).result()}"
        self._known = store.submit(recording.items).result()
        self._how = store.submit(handing_out.hand_out).result()
        self._limiter = MovingWindowRateLimiter(MemoryStorage())
        self._wrong_links = RateLimitItemPerMinute(_WRONG_LINKS)
        self._requests = RateLimitItemPerMinute(_REQUESTS)

    async def enter(self, request: Request) -> Response:
        """Exchange a link's token for a session.

        A right link always works: people behind one address must not lock each other out, and 256 random bits cannot
        be guessed.
        """
        token = (await _body(request)).get("token")
        session = await self._store.run(lambda db: reviewers.enter(db, str(token)[:200]))
        if session is None:
            address = request.client.host if request.client else ""
            if not self._limiter.hit(self._wrong_links, "enter", address):
                raise _RefusalError(429, "Too many wrong links. Wait a minute.")
            raise _RefusalError(403, "This link is not valid, or no longer.")
        response = JSONResponse({"ok": True})
        days, path = reviewers.SESSION_DAYS, f"{self._prefix}/"
        response.set_cookie(
            self._cookie,
            session,
            max_age=days * 86_400,
            path=path,
            secure=self._secure,
            httponly=True,
            samesite="strict",
        )
        return response

    async def _as_reviewer(self, request: Request, job: Callable[[sqlite3.Connection, str], Any]) -> Any:
        """Run a job for the reviewer of the session, who must be the one for whom the page is open."""
        session = request.cookies.get(self._cookie, "")
        expected = request.headers.get("x-reviewer")

        def run(db: sqlite3.Connection) -> Any:
            found = reviewers.who(db, session)
            if found is None or found.reviewer is None or expected not in (None, found.reviewer):
                raise _RefusalError(401, "Open your private link again.")
            if not self._limiter.hit(self._requests, "reviewer", found.reviewer):
                raise _RefusalError(429, "Too many requests. Wait a minute.")
            return job(db, found.reviewer)

        return await self._store.run(run)

    async def me(self, request: Request) -> Response:
        """Where the reviewer stands."""
        return JSONResponse(
            await self._as_reviewer(request, lambda db, reviewer: _state(db, reviewer, len(self._known)))
        )

    async def person(self, request: Request) -> Response:
        """Store the consent and what the reviewer says of themselves."""
        body = await _body(request)
        try:
            described = Person.model_validate(body)
        except ValidationError as error:
            raise _RefusalError(422, first_defect(error)) from None

        def job(db: sqlite3.Connection, reviewer: str) -> dict[str, Any]:
            reviewers.introduce(db, reviewer, described)
            return _state(db, reviewer, len(self._known))

        return JSONResponse(await self._as_reviewer(request, job))

    async def next_(self, request: Request) -> Response:
        """Hand out items."""
        count = (await _body(request)).get("count")
        if type(count) is not int or not 1 <= count <= AT_ONCE:
            raise _RefusalError(422, f"count must be between 1 and {AT_ONCE}.")

        def job(db: sqlite3.Connection, reviewer: str) -> list[dict[str, Any]]:
            _consented(db, reviewer)
            return [
                item.shown | {"shown": shown}
                for item, shown in handing_out.next_items(db, self._known, reviewer, self._how, count)
            ]

        return JSONResponse(await self._as_reviewer(request, job))

    async def answered(self, request: Request) -> Response:
        """An item with the reviewer's own answer, to change it."""
        wanted = str((await _body(request)).get("item"))

        def job(db: sqlite3.Connection, reviewer: str) -> dict[str, Any]:
            row = db.execute(
                "SELECT answer.payload, answer.revision, answer.shown FROM answer JOIN assignment "
                "ON assignment.id = answer.assignment WHERE reviewer = ? AND item = ?",
                (reviewer, wanted),
            ).fetchone()
            if row is None:
                raise _RefusalError(404, "There is no such answer.")
            answer, shown = json.loads(row["payload"]), json.loads(row["shown"])
            return self._known[wanted].shown | {"shown": shown, "answer": answer, "revision": row["revision"]}

        return JSONResponse(await self._as_reviewer(request, job))

    async def events(self, request: Request) -> Response:
        """Record answers; each has its own outcome."""
        sent = (await _body(request)).get("events")
        if not isinstance(sent, list) or not 1 <= len(sent) <= AT_ONCE:
            raise _RefusalError(422, f"Send between 1 and {AT_ONCE} events.")

        def job(db: sqlite3.Connection, reviewer: str) -> list[dict[str, Any]]:
            _consented(db, reviewer)
            return [_outcome(db, reviewer, one, self._known) for one in sent]

        return JSONResponse(await self._as_reviewer(request, job))

    async def progress(self, request: Request) -> Response:
        """The organiser's board."""
        session = request.cookies.get(self._cookie, "")

        def job(db: sqlite3.Connection) -> dict[str, Any]:
            if reviewers.who(db, session) != Who(None):
                raise _RefusalError(401, "Open the organiser's link again.")
            return board(db)

        return JSONResponse(await self._store.run(job))

    async def catalogue(self, request: Request) -> Response:
        """The words of a language."""
        language = request.path_params["language"]
        if language not in LANGUAGES:
            raise _RefusalError(404, "There is no such language.")
        return JSONResponse(texts(language))

    async def file(self, request: Request) -> Response:
        """A part of the page."""
        name, kind = _FILES[request.url.path]
        return Response(_static(name), media_type=kind, headers={"cache-control": "no-cache"})

    async def refused(self, _: Request, error: Exception) -> Response:
        """Say why a request is refused."""
        assert isinstance(error, _RefusalError)
        return JSONResponse({"reason": error.reason}, status_code=error.status)

    async def user_error(self, _: Request, error: Exception) -> Response:
        """Say what is wrong with what was sent."""
        return JSONResponse({"reason": str(error)}, status_code=422)


def application(store: ReviewStore, *, port: int, public_url: str | None = None) -> Any:
    """The ASGI application.

    Args:
        store: the open review file with its writer thread.
        port: the port of this machine at which the page is served.
        public_url: address under which a proxy offers it, with any path; null for this machine alone.
    """
    prefix = urlsplit(public_url).path.rstrip("/") if public_url else ""
    service = _Service(store, prefix, secure=bool(public_url and public_url.startswith("https:")))
    routes = [
        *(Route(path, service.file) for path in _FILES),
        Route("/texts/{language}.json", service.catalogue),
        Route("/api/enter", service.enter, methods=["POST"]),
        Route("/api/me", service.me),
        Route("/api/person", service.person, methods=["POST"]),
        Route("/api/next", service.next_, methods=["POST"]),
        Route("/api/answered", service.answered, methods=["POST"]),
        Route("/api/events", service.events, methods=["POST"]),
        Route("/api/board", service.progress),
    ]
    handlers: Any = {_RefusalError: service.refused, CarbError: service.user_error}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), origins_of(port, public_url), prefix)


async def _body(request: Request) -> dict[str, Any]:
    """The JSON object of a request; ``Guard`` has limited its size."""
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise _RefusalError(422, "Send a JSON object.")
    return body


def _consented(db: sqlite3.Connection, reviewer: str) -> None:
    if db.execute("SELECT consent FROM reviewer WHERE id = ?", (reviewer,)).fetchone()["consent"] is None:
        raise _RefusalError(403, "Agree to the consent text first.")


def _state(db: sqlite3.Connection, reviewer: str, total: int) -> dict[str, Any]:
    """What a page needs to go on where its reviewer stopped, on this device or on another."""
    row = db.execute("SELECT * FROM reviewer WHERE id = ?", (reviewer,)).fetchone()
    answers = db.execute(
        "SELECT assignment.item, answer.revision FROM answer JOIN assignment ON assignment.id = answer.assignment "
        "WHERE reviewer = ? ORDER BY assignment.id",
        (reviewer,),
    )
    return {
        "reviewer": reviewer,
        "name": row["name"],
        "region": row["region"],
        "age": row["age"],
        "language": row["language"],
        "consent": row["consent"],
        "total": total,
        "suggested": setting(db, "language"),
        "data": setting(db, "data"),
        "revisions": {answer["item"]: answer["revision"] for answer in answers},
    }


def _outcome(db: sqlite3.Connection, reviewer: str, sent: Any, known: Mapping[str, ReviewItem]) -> dict[str, Any]:
    """Record an event; one that cannot be read is refused alone and stops no other."""
    id_ = sent.get("id") if isinstance(sent, dict) else None
    try:
        event = Event.model_validate(sent)
        found = recording.record(db, reviewer, event, known)
    except ValidationError as error:
        found = Recorded("refused", reason=first_defect(error))
    made = {"id": id_, "state": found.state, "revision": found.revision, "reason": found.reason}
    return made | ({"answer": found.answer} if found.answer else {})


@cache
def _static(name: str) -> bytes:
    return (resources.files("carb_cli.review") / "web" / name).read_bytes()


def listen(host: str, port: int, public_url: str | None) -> socket.socket:
    """Take the port. A review is bound beyond this machine only where its public address is named.

    Raises:
        CarbError: the port is in use, or the addresses do not fit together.
    """
    if public_url is not None:
        parts = urlsplit(public_url)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
            raise CarbError(f"--public-url must be an address such as https://example.org/review; got '{public_url}'.")
    elif host not in (HOST, "localhost", "::1"):
        raise CarbError(f"--host {host} opens the review to other machines; name its address with --public-url, too.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((host, port))
        taken.listen(2048)  # who comes before the server is ready waits
    except OSError as error:
        taken.close()
        raise CarbError(f"Cannot listen at {host}:{port}: {error.strerror}. Name another --port.") from None
    return taken


def address(port: int, public_url: str | None) -> str:
    """The address of the page, with a slash at its end."""
    return f"{public_url.rstrip('/')}/" if public_url else f"http://{HOST}:{port}/"


def serve(path: Path, taken: socket.socket, public_url: str | None) -> None:
    """Serve until a signal ends it. No access log is written: it would say who answered when."""
    import uvicorn

    store = ReviewStore(path)
    try:
        config = uvicorn.Config(
            application(store, port=taken.getsockname()[1], public_url=public_url),
            access_log=False,
            log_level="warning",
            server_header=False,
            proxy_headers=public_url is not None,
            backlog=2048,
            timeout_keep_alive=30,
            lifespan="off",
            ws="none",
        )
        uvicorn.Server(config).run(sockets=[taken])
    finally:
        store.close()
        taken.close()
