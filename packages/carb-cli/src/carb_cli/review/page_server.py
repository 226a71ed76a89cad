"""The page and its small interface, served from this machine until it is stopped: enter, get items,
send events."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError

from carb_cli import display
from carb_cli.review import auth, handing_out
from carb_cli.review.asking import Person, Sent, stored
from carb_cli.review.auth import RefusalError
from carb_cli.review.page_parts import language_of, page_with, part
from carb_cli.review.review_file import Recorded, introduce, record, setting, transaction
from carb_data import BonSet, CarbError
from carb_data.validation import first_defect, validate
from carb_metrics.ties import tied
from carb_scorers import Scorer, best_of_n
from carb_scorers.serve import LOOPBACK, take_port

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
    """What a page needs to go on where its reviewer stopped, on this device or on another."""
    row = db.execute(
        "SELECT name, region, language, consent FROM reviewer WHERE id = ?", (reviewer,)
    ).fetchone()
    answers = db.execute(
        "SELECT item, revision FROM assignment WHERE reviewer = ? AND payload IS NOT NULL "
        "ORDER BY id",
        (reviewer,),
    )
    first = stored(db.execute("SELECT content FROM item ORDER BY rowid").fetchone()["content"])
    return dict(row) | {
        "reviewer": reviewer,
        "total": db.execute(
            "SELECT count(*) FROM item WHERE writer IS NOT ?", (reviewer,)
        ).fetchone()[0],
        "writes": setting(db, "place") != "",
        "model": setting(db, "model") != "",
        "written": {
            row["set_id"]: 1
            for row in db.execute("SELECT set_id FROM item WHERE writer = ?", (reviewer,))
        },
        "suggested": language_of(first.set.culture),
        "revisions": {answer["item"]: answer["revision"] for answer in answers},
    }


def _person(db: sqlite3.Connection, reviewer: str, sent: Body) -> dict[str, Any]:
    """Store the consent and what the reviewer says of themselves."""
    introduce(db, reviewer, validate(Person, sent, "What you say of yourself"))
    return _me(db, reviewer, sent)


def _next(db: sqlite3.Connection, reviewer: str, _: Body) -> list[dict[str, Any]]:
    """Hand out items, each with an order of its answers that is drawn anew."""
    items = handing_out.next_items(db, reviewer, HANDED_OUT)
    return [item.shown | {"shown": random.sample(item.tokens, len(item.tokens))} for item in items]


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
    """A question that the reviewer wrote, and what the model made of it."""
    asked = (reviewer, ascii(sent.get("id")).strip("'"))
    row = db.execute(
        "SELECT content, model FROM item WHERE writer = ? AND set_id = ?", asked
    ).fetchone()
    if row is None:
        raise RefusalError(404, "There is no such question.")
    return stored(row["content"]).set, row["model"]


_JOBS: dict[str, Callable[[sqlite3.Connection, str, Body], Any]] = {
    "/api/me": _me,
    "/api/person": _person,
    "/api/next": _next,
    "/api/events": _events,
    "/api/beat": _own_question,
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
        self._scorer, self._asked = scorer, asyncio.Lock()
        public = urlsplit(public_url or "")
        own = {f"http://127.0.0.1:{port}", f"http://localhost:{port}"}
        self._origins = own | {f"{public.scheme}://{public.netloc.lower()}"} if public_url else own
        self._prefix = public.path.rstrip("/")
        self._secure = public.scheme == "https"
        # Two reviews under one host name have cookies of their own.
        self._cookie = f"carb_review_{setting(db, 'id')}"

    async def run(self, job: Callable[[sqlite3.Connection], Any]) -> Any:
        """Do a job in the one thread that has the file. What it wrote is on the disk before this
        returns."""

        def work() -> Any:
            with transaction(self._db):
                return job(self._db)

        return await asyncio.get_running_loop().run_in_executor(self.thread, work)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        body = await _body(receive)
        status, kind, carried = 200, "application/json", dict(auth.HEADERS)
        try:
            auth.check(scope["method"], headers, self._origins)
            path = scope["path"]
            if path.startswith(f"{self._prefix}/"):  # a proxy may keep the prefix
                path = path[len(self._prefix) :]
            if scope["method"] == "POST":
                content, cookie = await self._posted(path, headers, body)
                carried |= cookie
                text = json.dumps(content)
            elif scope["method"] in ("GET", "HEAD") and path in _FILES:
                name, kind = _FILES[path]
                carried["cache-control"] = "no-cache"
                text = page_with() if path == "/" else part(name)
            else:
                raise RefusalError(404, "There is nothing here.")
        except CarbError as error:
            status = error.status if isinstance(error, RefusalError) else 422
            text = json.dumps({"reason": str(error)})
        payload = text.encode()
        carried |= {"content-type": f"{kind}; charset=utf-8", "content-length": str(len(payload))}
        fields = [(name.encode(), value.encode()) for name, value in carried.items()]
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": payload})

    async def _posted(
        self, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[Any, dict[str, str]]:
        """The answer to a write, and the header that sets a cookie."""
        try:
            sent = json.loads(body)
        except (ValueError, RecursionError):
            sent = None
        if not isinstance(sent, dict):
            raise RefusalError(422, "Send a JSON object.")
        if path == "/api/enter":
            return {"ok": True}, await self._enter(str(sent.get("token"))[:200])
        if path not in _JOBS:
            raise RefusalError(404, "There is nothing here.")
        cookies = dict(
            pair.strip().partition("=")[::2] for pair in headers.get("cookie", "").split(";")
        )
        token, expected = cookies.get(self._cookie, ""), headers.get("x-reviewer")

        def run(db: sqlite3.Connection) -> Any:
            reviewer = auth.reviewer_of(db, token)
            if reviewer is None or expected not in (None, reviewer):
                raise RefusalError(401, "Open your private link again.")
            agreed = db.execute(
                "SELECT consent FROM reviewer WHERE id = ?", (reviewer,)
            ).fetchone()["consent"]
            if agreed is None and _JOBS[path] not in (_me, _person):
                raise RefusalError(403, "Agree to the consent text first.")
            return _JOBS[path](db, reviewer, sent)

        return await (self._beat(run) if path == "/api/beat" else self.run(run)), {}

    async def _beat(self, run: Callable[[sqlite3.Connection], Any]) -> dict[str, str]:
        """Whether a question fools the model, which gets one at a time. After a failure it may be
        asked again."""
        async with self._asked:
            item, made = await self.run(run)
            if not made and self._scorer is not None:
                found = await asyncio.to_thread(verdict, self._scorer, item)
                made = f"{self._scorer.spec.name}: {found}"
                if found != "failed":
                    kept = "UPDATE item SET model = ? WHERE set_id = ?", (made, item.id)
                    await self.run(lambda db: db.execute(*kept))
        return {"verdict": made.rpartition(": ")[2] or "failed"}

    async def _enter(self, token: str) -> dict[str, str]:
        """Put a link's token where no script can read it."""
        if await self.run(lambda db: auth.reviewer_of(db, token)) is None:
            raise RefusalError(403, "This link is not valid, or no longer.")
        cookie = f"{self._cookie}={token}; Path={self._prefix}/; Max-Age={auth.LINK_SECONDS}"
        return {
            "set-cookie": f"{cookie}; HttpOnly; SameSite=Strict{'; Secure' if self._secure else ''}"
        }


def verdict(scorer: Scorer, item: BonSet) -> Literal["fooled", "not fooled", "undecided", "failed"]:
    """Ask a scorer, which does not see which answer is right.

    It is ``fooled`` where the wrong answer has the higher score, and ``undecided`` where both have
    the same. Whatever goes wrong is said to the organiser, and ``failed`` is no verdict.
    """
    texts = [item.chosen.text, item.rejected[0].text]
    try:
        pick = best_of_n(scorer, item.prompt, texts, culture=item.culture, language=item.language)
        if pick.index is not None:
            tie = tied(pick.scores[0], pick.scores[1])
            return "undecided" if tie else ("not fooled" if pick.index == 0 else "fooled")
        reason = pick.error.message if pick.error else ""
    except Exception as error:  # a third party's scorer may raise anything
        reason = f"{type(error).__name__}: {error}"
    display.advice(f"The model gave no answer: {reason}")
    return "failed"


async def _body(receive: Any) -> bytes:
    """The body of a request. It is read beyond the allowed size, up to a limit, so that the sender
    gets the refusal."""
    body, message = b"", {"more_body": True}
    while message.get("more_body", False) and len(body) < 8 * auth.LARGEST:
        message = await receive()
        body += message.get("body", b"")
    return body


def listen(host: str, port: int, public_url: str | None) -> socket.socket:
    """Take the port. A review is bound beyond this machine only where its public address is named.

    Raises:
        CarbError: the port is in use, or the addresses do not fit together.
    """
    if public_url is not None:
        parts = urlsplit(public_url)
        if (
            parts.scheme not in ("http", "https")
            or not parts.netloc
            or parts.query
            or parts.fragment
        ):
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
    config = uvicorn.Config(
        page,
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_keep_alive=30,
        lifespan="off",
        ws="none",
    )
    with page.thread:
        uvicorn.Server(config).run(sockets=[taken])
