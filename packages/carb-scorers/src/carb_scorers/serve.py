"""A scorer as an HTTP reward: ``POST /get_reward`` as OpenRLHF's client sends it, ``POST /score``
typed.

Answers come together: whatever waits while the scorer works is scored in its next call. A failed
score is an error in the answer and never a number. The queue, the size of a body and the time of an
answer are bounded.
"""

from __future__ import annotations

import hmac
import json
import re
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio
from pydantic import Field, ValidationError

from carb_data import CarbError
from carb_data.errors import require
from carb_data.models import Conversation, Frozen
from carb_data.validation import first_defect
from carb_scorers.scorer import UNDETERMINED, UNKNOWN
from carb_scorers.spec import ASKED_WITHOUT_CULTURE
from carb_scorers.texts import Opened, Scored, Text, score_together

__all__ = ["LOOPBACK", "RewardServer", "bind", "serve", "take_port"]

_Sent = TypeVar("_Sent", bound=Frozen)
LOOPBACK = ("127.0.0.1", "localhost", "::1")
LARGEST = 8 * 1024 * 1024
"""Bytes of a request's body."""
WAITING = 64
"""Calls that may wait at the same time; one more is answered with 503."""
AT_ONCE = 256
"""Most responses that one call of the scorer gets."""
_CONTROL = r"(?:<\|[^|<>]{1,40}\|>|</?s>|<(?:bos|eos|pad|end_of_turn)>|\s)"
_BEFORE, _BEHIND = re.compile(rf"\A{_CONTROL}+"), re.compile(rf"{_CONTROL}+\Z")
"""What a trainer's tokenizer leaves around a decoded text."""


class GetReward(Frozen):
    """What OpenRLHF's remote reward client sends: prompt and response together, and the prompt
    again."""

    query: tuple[str, ...] = Field(min_length=1)
    prompts: tuple[str, ...]
    labels: tuple[Any, ...] | None = None
    """The data set's labels, which a scorer must not see; ignored."""


class ScoreCall(Frozen):
    """Responses to one prompt. Comparative scorers compare them with each other."""

    prompt: str | Conversation
    responses: tuple[str, ...] = Field(min_length=1)
    culture: str | None = None
    """Null takes the server's ``culture``."""
    language: str | None = None


class _RefusalError(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, reason: str, **more: Any) -> None:
        super().__init__(reason)
        self.status, self.content = status, {"error": reason, **more}


@dataclass(eq=False)
class _Call:
    texts: Sequence[Text]
    done: anyio.Event = field(default_factory=anyio.Event)
    scored: list[Scored] | None = None
    reason: str = ""


class RewardServer:
    """An ASGI application around a scorer.

    Args:
        scorer: a spec. It is opened when the server starts; ``GET /health`` says 503 until it is.
        token: the token that requests must bear; null for none.
        culture: culture of requests that name none; null where each names one, or the scorer needs
            none.
        language: language of requests that name none.
        timeout: seconds after which a call is answered with 504.
        hosts: the names under which it may be addressed; empty for any. It closes rebinding of
            names on loopback.
    """

    def __init__(
        self,
        scorer: str,
        *,
        token: str | None = None,
        culture: str | None = None,
        language: str | None = None,
        timeout: float = 120.0,
        hosts: Sequence[str] = (),
    ) -> None:
        self._opened = Opened(scorer)
        self._token, self._timeout, self._hosts = token, timeout, hosts
        self._constants = {"culture": culture, "language": language}
        self._waiting: list[_Call] = []
        self._arrived: anyio.Event | None = None

    async def work(self) -> None:
        """Open the scorer, then score whatever waits, until cancelled."""
        await anyio.to_thread.run_sync(self._opened.get)
        self._arrived = anyio.Event()
        while True:
            await self._arrived.wait()
            calls: list[_Call] = []
            size = 0
            while self._waiting and (not calls or size + len(self._waiting[0].texts) <= AT_ONCE):
                calls.append(self._waiting.pop(0))
                size += len(calls[-1].texts)
            if not self._waiting:
                self._arrived = anyio.Event()
            await self._answer(calls)

    async def _answer(self, calls: Sequence[_Call]) -> None:
        try:
            with anyio.fail_after(self._timeout):
                found = await score_together(self._opened.get(), [call.texts for call in calls])
            for call, scored in zip(calls, found, strict=True):
                call.scored = scored
        except TimeoutError:
            pass  # each call is cut by its own time
        except Exception as error:  # it goes to who asked, and the server goes on
            for call in calls:
                call.reason = f"{type(error).__name__}: {error}"
        for call in calls:
            call.done.set()

    async def score(self, texts: Sequence[Text]) -> list[Scored]:
        """The scores of a call's responses, after those that came before."""
        if (
            self._opened.get().spec.comparative
            and 1 in Counter(text.prompt for text in texts).values()
        ):
            raise _RefusalError(
                422,
                "This scorer compares responses with each other, and got one alone. Send "
                "all responses to a prompt "
                "together, or serve a scorer that rates each alone (for a judge mode=pointwise).",
            )
        if len(self._waiting) >= WAITING:
            raise _RefusalError(503, f"{WAITING} calls wait already. Try again later.")
        call = _Call(texts)
        self._waiting.append(call)
        assert self._arrived is not None  # no request comes here before the scorer is open
        self._arrived.set()
        with anyio.move_on_after(self._timeout):
            await call.done.wait()
        if call.reason:
            raise _RefusalError(500, call.reason)
        if call.scored is None:
            if call in self._waiting:
                self._waiting.remove(call)
            raise _RefusalError(504, f"No answer within {self._timeout:g} seconds.")
        return call.scored

    def _place(self, given: ScoreCall | None = None) -> tuple[str, str]:
        """Culture and language of a call."""
        found = []
        for name, unknown in (("culture", UNKNOWN), ("language", UNDETERMINED)):
            value = (given and getattr(given, name)) or self._constants[name]
            if value is None and self._opened.get().spec.kind not in ASKED_WITHOUT_CULTURE:
                raise _RefusalError(
                    422, f"This scorer needs a {name}: send it, or start the server with --{name}."
                )
            found.append(value or unknown)
        return found[0], found[1]

    async def get_reward(self, body: bytes) -> dict[str, Any]:
        """``{"rewards": [...]}`` in the order of the queries."""
        sent = _read(GetReward, body)
        if len(sent.prompts) != len(sent.query) or (
            sent.labels is not None and len(sent.labels) != len(sent.query)
        ):
            raise _RefusalError(422, "query, prompts and labels must have the same length.")
        culture, language = self._place()
        texts = [
            Text(prompt, _response(query, prompt, number), culture, language)
            for number, (query, prompt) in enumerate(zip(sent.query, sent.prompts, strict=True))
        ]
        scored = await self.score(texts)
        failed = [
            {"index": number, "kind": one.error.kind, "message": one.error.message}
            for number, one in enumerate(scored)
            if one.error is not None
        ]
        if failed:
            raise _RefusalError(
                502, f"{len(failed)} of {len(scored)} responses could not be scored.", failed=failed
            )
        return {"rewards": [one.score for one in scored]}

    async def score_call(self, body: bytes) -> dict[str, Any]:
        """``{"scores": [...], "errors": [...]}``: a number or null, and null or the reason, for
        each response."""
        sent = _read(ScoreCall, body)
        culture, language = self._place(sent)
        scored = await self.score(
            [Text(sent.prompt, response, culture, language) for response in sent.responses]
        )
        errors = [
            None if one.error is None else one.error.model_dump(mode="json") for one in scored
        ]
        return {"scores": [one.score for one in scored], "errors": errors}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            return
        try:
            status, content = 200, await self._routed(scope, receive)
        except _RefusalError as refusal:
            status, content = refusal.status, refusal.content
        payload = json.dumps(content, ensure_ascii=True, allow_nan=False).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(payload)).encode()),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": payload})

    async def _routed(self, scope: Any, receive: Any) -> dict[str, Any]:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        if self._hosts and _host(headers.get("host", "")) not in self._hosts:
            raise _RefusalError(421, "This server is not reached under this name.")
        route = scope["method"], scope["path"]
        if self._arrived is None:
            raise _RefusalError(503, "The scorer is not open yet.")
        if route == ("GET", "/health"):
            return {"status": "ready"}
        bearer = headers.get("authorization", "").partition("Bearer ")[2]
        if self._token is not None and not hmac.compare_digest(
            bearer.encode(), self._token.encode()
        ):
            raise _RefusalError(401, "Send the token as 'Authorization: Bearer TOKEN'.")
        if route == ("GET", "/spec"):
            return {"spec": self._opened.get().spec.model_dump(mode="json"), **self._constants}
        posted: dict[str, Callable[[bytes], Awaitable[dict[str, Any]]]]
        posted = {"/get_reward": self.get_reward, "/score": self.score_call}
        if scope["path"] not in posted:
            raise _RefusalError(
                404, f"There is GET /health, GET /spec, and POST to {' or '.join(posted)}."
            )
        if scope["method"] != "POST":
            raise _RefusalError(405, "Send it with POST.")
        # A page in a browser cannot send JSON to another origin without asking first, which is
        # never answered.
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise _RefusalError(415, "Send JSON.")
        return await posted[scope["path"]](await _body(receive))


def _read(model: type[_Sent], body: bytes) -> _Sent:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise _RefusalError(422, first_defect(error)) from None


def _response(query: str, prompt: str, number: int) -> str:
    """The response in a query: what stands behind the prompt, without the control tokens around
    both."""
    text, bare = _BEFORE.sub("", query), _BEFORE.sub("", prompt)
    if not text.startswith(bare):
        raise _RefusalError(422, f"query {number} does not begin with its prompt.")
    return _BEHIND.sub("", text[len(bare) :])


async def _body(receive: Any) -> bytes:
    body: bytes = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > LARGEST:
            raise _RefusalError(413, f"Send at most {LARGEST:,} bytes.")
        if not message.get("more_body", False):
            return body


def _host(name: str) -> str:
    return name.rpartition(":")[0].strip("[]") if re.search(r":\d+$", name) else name.strip("[]")


def bind(host: str, port: int, *, token: str | None) -> socket.socket:
    """Take the port. Beyond this machine a token is needed.

    Raises:
        CarbError: there is no token for a host beyond this machine, or the port is taken.
    """
    if host not in LOOPBACK and not token:
        raise CarbError(
            f"--host {host} opens the scorer to other machines. Put a token into a variable "
            "of the environment and "
            "name it with --token-env."
        )
    return take_port(host, port)


def take_port(host: str, port: int) -> socket.socket:
    """A socket that listens; who comes before the server is ready waits.

    Raises:
        CarbError: the port is taken, or cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise CarbError(
            f"Cannot listen at {host}:{port}: {error.strerror}. Name another --port."
        ) from None


def serve(server: RewardServer, taken: socket.socket) -> None:
    """Serve until a signal ends it.

    Raises:
        CarbError: the scorer cannot be opened.
    """
    uvicorn = require("uvicorn", package="carb-scorers", extra="serve")
    config = uvicorn.Config(
        server,
        access_log=False,
        log_level="warning",
        server_header=False,
        lifespan="off",
        ws="none",
    )

    async def run() -> None:
        program = uvicorn.Server(config)
        async with anyio.create_task_group() as group:

            async def listen() -> None:
                await program.serve(sockets=[taken])
                group.cancel_scope.cancel()

            group.start_soon(listen)
            try:
                await server.work()
            finally:
                program.should_exit = True

    try:
        anyio.run(run)
    except* CarbError as errors:
        raise errors.exceptions[0] from None
    finally:
        taken.close()
