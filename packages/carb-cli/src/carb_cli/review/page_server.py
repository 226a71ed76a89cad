"""The page and its small interface, served from this machine until it is stopped: enter, get items,
send events."""

import asyncio
import json
import random
import socket
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError

from carb_cli.display import advice
from carb_cli.review import auth, handing_out
from carb_cli.review.asking import Person, Sent, stored
from carb_cli.review.page_parts import language_of, page_with, part
from carb_cli.review.regions import choices, covered
from carb_cli.review.review_file import (
    Recorded,
    introduce,
    places,
    record,
    setting,
    transaction,
)
from carb_data import BonSet, CarbError, first_defect, require, validate
from carb_scorers import Scorer, best_of_n

require("starlette", "carb-cli[review]")
from starlette.datastructures import MutableHeaders  # noqa: E402 - the line above names the extra
from starlette.exceptions import HTTPException  # noqa: E402
from starlette.requests import Request  # noqa: E402
from starlette.responses import Response  # noqa: E402
from starlette.routing import BaseRoute, Mount, Route  # noqa: E402
from starlette.types import ASGIApp, Message, Receive, Scope, Send  # noqa: E402

from carb_cli.review.same_origin import HEADERS, check  # noqa: E402
from carb_scorers.http_server import (  # noqa: E402
    LOOPBACK,
    RefusalError,
    Room,
    guarded,
    json_response,
    read_body,
    server_config,
    take_port,
)

LARGEST = 512 * 1024
"""Bytes of a request's body."""
MEMORY = 32 * 1024 * 1024
"""Bytes that all bodies may have together."""
BODY_SECONDS = 30.0
AT_ONCE = 50
"""Most events of a request."""
HANDED_OUT = 20
"""Items that a page gets at once, so that it can go on for a while without a connection."""
_FILES = {
    "/": ("web/review.html", "text/html"),
    **{
        f"/{name}": (f"web/{name}", "text/javascript")
        for name in ("app.js", "device.js", "parts.js", "worker.js")
    },
    "/review.css": ("web/review.css", "text/css"),
}
Body = dict[str, Any]
"""The JSON object of a request."""
_SENT: TypeAdapter[Sent] = TypeAdapter(Sent)


def _me(db: sqlite3.Connection, reviewer: str, _: Body) -> dict[str, Any]:
    """The state with which a page goes on where its reviewer stopped, on any device."""
    person = db.execute(
        "SELECT name, region, language, consent FROM reviewer WHERE id = ?", (reviewer,)
    ).fetchone()
    known = places(db).get(reviewer, [])
    reached = covered(known)
    items = db.execute("SELECT region, writer, set_id FROM item").fetchall()
    asked = [item for item in items if item["writer"] != reviewer]
    written = [item["set_id"] for item in items if item["writer"] == reviewer]
    answers = db.execute(
        "SELECT item, revision FROM assignment WHERE reviewer = ? AND payload IS NOT NULL "
        "ORDER BY id",
        (reviewer,),
    )
    return dict(person) | {
        "reviewer": reviewer,
        "places": known,
        "regions": choices({item["region"] for item in items}),
        "total": sum(item["region"] in reached for item in asked),
        "writes": setting(db, "place") != "",
        "model": setting(db, "model") != "",
        "written": dict.fromkeys(written, 1),
        "suggested": _language(db),
        "revisions": {answer["item"]: answer["revision"] for answer in answers},
    }


def _language(db: sqlite3.Connection) -> str:
    """The language of the page for the culture of the review's first set."""
    first = stored(db.execute("SELECT content FROM item ORDER BY rowid").fetchone()["content"])
    return language_of(first.set.culture)


def _person(db: sqlite3.Connection, reviewer: str, sent: Body) -> dict[str, Any]:
    """Store the consent and the reviewer's description."""
    introduce(db, reviewer, validate(Person, sent, "What you say of yourself"))
    return _me(db, reviewer, sent)


def _next(db: sqlite3.Connection, reviewer: str, _: Body) -> list[dict[str, Any]]:
    """Hand out items, each with an order of its answers that is drawn anew."""
    items = []
    for item in handing_out.next_items(db, reviewer, HANDED_OUT):
        order = random.sample(item.tokens, len(item.tokens))
        items.append(item.shown | {"shown": order})
    return items


def _events(db: sqlite3.Connection, reviewer: str, sent: Body) -> list[dict[str, Any]]:
    """Record answers; each has its own outcome, and one that cannot be read stops no other."""
    events = sent.get("events")
    if not isinstance(events, list) or not 1 <= len(events) <= AT_ONCE:
        raise RefusalError(422, f"Send between 1 and {AT_ONCE} events.")
    outcomes = []
    for one in events:
        try:
            outcomes.append(record(db, reviewer, _SENT.validate_python(one)))
        except ValidationError as error:
            outcomes.append(Recorded("refused", reason=first_defect(error)))
    return [asdict(outcome) for outcome in outcomes]


def _own_question(db: sqlite3.Connection, reviewer: str, sent: Body) -> tuple[BonSet, str]:
    """A question that the reviewer wrote, and the model's answer."""
    asked = (reviewer, ascii(sent.get("id")).strip("'"))
    row = db.execute(
        "SELECT content, model FROM item WHERE writer = ? AND set_id = ?", asked
    ).fetchone()
    if row is None:
        raise RefusalError(404, "There is no such question.")
    return stored(row["content"]).set, row["model"]


T = TypeVar("T")
Job = Callable[[sqlite3.Connection, str, Body], T]
"""The answer to a reviewer's request."""
_JOBS: dict[str, Job[object]] = {
    "/api/me": _me,
    "/api/person": _person,
    "/api/next": _next,
    "/api/events": _events,
}


class ReviewPage:
    """The ASGI application.

    Args:
        db: the open review file.
        port: the port of this machine at which the page is served.
        public_url: address under which a proxy offers it, with any path; null for this machine
            alone.
        scorer: the model that people try to fool with questions of their own; null for none.
    """

    def __init__(
        self,
        db: sqlite3.Connection,
        *,
        port: int,
        public_url: str | None = None,
        scorer: Scorer | None = None,
    ) -> None:
        self._db = db
        self.thread = ThreadPoolExecutor(max_workers=1)
        self._scorer = scorer
        self._asked = asyncio.Lock()
        public = urlsplit(public_url or "")
        self._origins = {f"http://127.0.0.1:{port}", f"http://localhost:{port}"}
        if public_url:
            self._origins.add(f"{public.scheme}://{public.netloc.lower()}")
        self._prefix = public.path.rstrip("/")
        self._secure = public.scheme == "https"
        # Two reviews under one host name have cookies of their own.
        self._cookie = f"carb_review_{setting(db, 'id')}"
        self._room = Room(MEMORY)
        self._app = self._routed()

    def _routed(self) -> ASGIApp:
        routes: list[BaseRoute] = [Route(path, partial(self._file, path)) for path in _FILES]
        jobs = {path: partial(self._job, job) for path, job in _JOBS.items()}
        posts = jobs | {"/api/enter": self._enter, "/api/beat": self._beat}
        for path, handler in posts.items():
            routes.append(Route(path, handler, methods=["POST"]))
        if self._prefix:  # a proxy may keep the prefix
            routes.append(Mount(self._prefix, routes=routes[:]))
        return guarded(routes, partial(check, self._origins), _content)

    async def run(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Do a job in the one thread that has the file. Its writes are on the disk before this
        returns."""

        def work() -> T:
            with transaction(self._db):
                return job(self._db)

        return await asyncio.get_running_loop().run_in_executor(self.thread, work)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                carried = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    carried.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)

    async def _file(self, path: str, _: Request) -> Response:
        """A file of the page; the page itself has its words inside."""
        name, kind = _FILES[path]
        text = page_with(await self.run(_language)) if path == "/" else part(name)
        return Response(text, headers={"cache-control": "no-cache"}, media_type=kind)

    async def _sent(self, request: Request) -> Body:
        """The JSON object that a request sends."""
        with self._room.holding() as hold:
            body = await read_body(request, largest=LARGEST, seconds=BODY_SECONDS, hold=hold)
            try:
                sent = json.loads(body)
            except (ValueError, RecursionError):
                sent = None
        if not isinstance(sent, dict):
            raise RefusalError(422, "Send a JSON object.")
        return sent

    async def _asked_of(self, job: Job[T], request: Request) -> T:
        """The response of a job to a request, for the reviewer of its cookie."""
        sent = await self._sent(request)
        token = request.cookies.get(self._cookie, "")
        expected = request.headers.get("x-reviewer")

        def run(db: sqlite3.Connection) -> T:
            reviewer = auth.reviewer_of(db, token)
            if reviewer is None or expected not in (None, reviewer):
                raise RefusalError(401, "Open your private link again.")
            agreed = db.execute(
                "SELECT consent FROM reviewer WHERE id = ?", (reviewer,)
            ).fetchone()["consent"]
            if agreed is None and job not in (_me, _person):
                raise RefusalError(403, "Agree to the consent text first.")
            return job(db, reviewer, sent)

        return await self.run(run)

    async def _job(self, job: Job[object], request: Request) -> Response:
        return json_response(await self._asked_of(job, request))

    async def _beat(self, request: Request) -> Response:
        """Whether a question fools the model, which gets one at a time. After a failure it may be
        asked again."""
        async with self._asked:
            item, made = await self._asked_of(_own_question, request)
            if not made and self._scorer is not None:
                outcome = await asyncio.to_thread(verdict, self._scorer, item)
                made = f"{self._scorer.spec.name}: {outcome}"
                if outcome != "failed":
                    kept = "UPDATE item SET model = ? WHERE set_id = ?", (made, item.id)
                    await self.run(lambda db: db.execute(*kept))
        return json_response({"verdict": made.rpartition(": ")[2] or "failed"})

    async def _enter(self, request: Request) -> Response:
        """Put a link's token where no script can read it."""
        token = str((await self._sent(request)).get("token"))[:200]
        if await self.run(lambda db: auth.reviewer_of(db, token)) is None:
            raise RefusalError(403, "This link is not valid, or no longer.")
        response = json_response({"ok": True})
        response.set_cookie(
            self._cookie,
            token,
            max_age=auth.LINK_SECONDS,
            path=f"{self._prefix}/",
            secure=self._secure,
            httponly=True,
            samesite="strict",
        )
        return response


def _content(error: HTTPException) -> dict[str, str]:
    """What the response to a refused request says."""
    if isinstance(error, RefusalError):
        return {"reason": error.detail}
    return {"reason": "There is nothing here."}


def verdict(scorer: Scorer, item: BonSet) -> Literal["fooled", "not fooled", "undecided", "failed"]:
    """Ask a scorer, which does not see which answer is right.

    It is ``fooled`` where the wrong answer has the higher score, and ``undecided`` where both have
    the same. Every failure is reported to the organiser, and ``failed`` is no verdict.
    """
    texts = [item.chosen.text, item.rejected[0].text]
    try:
        pick = best_of_n(scorer, item.prompt, texts, culture=item.culture, language=item.language)
        if pick.index is not None:
            if pick.tied:
                return "undecided"
            if pick.index == 0:
                return "not fooled"
            return "fooled"
        reason = ""
        if pick.error:
            reason = pick.error.message
    except Exception as error:  # a third party's scorer may raise anything
        reason = f"{type(error).__name__}: {error}"
    advice(f"The model gave no answer: {reason}")
    return "failed"


def listen(host: str, port: int, public_url: str | None) -> socket.socket:
    """Take the port. A review is bound beyond this machine only where its public address is named.

    Raises:
        CarbError: the port is in use, or the addresses do not fit together.
    """
    if public_url is not None:
        parts = urlsplit(public_url)
        is_of_web = parts.scheme in ("http", "https") and parts.netloc
        if not is_of_web or parts.query or parts.fragment:
            raise CarbError(
                "--public-url must be an address such as https://example.org/review; got "
                f"'{public_url}'."
            )
    elif host not in LOOPBACK:
        raise CarbError(
            f"--host {host} opens the review to other machines; name its address with "
            "--public-url, too."
        )
    return take_port(host, port)


def serve(
    db: sqlite3.Connection,
    taken: socket.socket,
    public_url: str | None,
    scorer: Scorer | None = None,
) -> None:
    """Serve until a signal ends it. No access log is written: it would say who answered when."""
    import uvicorn  # the command has seen that it is there

    page = ReviewPage(db, port=taken.getsockname()[1], public_url=public_url, scorer=scorer)
    config = server_config(page)
    with page.thread:
        uvicorn.Server(config).run(sockets=[taken])
