"""A scorer as an HTTP reward: ``POST /get_reward`` as OpenRLHF's client sends it, ``POST /score``
typed.

A failed score is an error in the answer and never a number. Bodies, the queue and the time of an
answer are bounded.
"""

import hmac
import re
import socket
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from pydantic import Field, ValidationError

from carb_data import (
    CarbError,
    Frozen,
    LanguageTag,
    first_defect,
    repeated_name,
    require,
)
from carb_scorers.integrations.openrlhf import Policy, is_chat, is_whole, response_in
from carb_scorers.models.marks import opened_thought
from carb_scorers.questions import Question
from carb_scorers.spec import asked_about, check_about, needs
from carb_scorers.texts import Opened, Scored, Text, check_company

require("starlette", "carb-scorers[serve]")
from starlette.exceptions import HTTPException  # noqa: E402 - the line above names the extra
from starlette.requests import ClientDisconnect, Request  # noqa: E402
from starlette.responses import Response  # noqa: E402
from starlette.routing import Route  # noqa: E402
from starlette.types import Receive, Scope, Send  # noqa: E402

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
from carb_scorers.reward_queue import Call, RewardQueue, make_call  # noqa: E402

__all__ = ["LOOPBACK", "RewardServer", "bind", "serve"]

_Sent = TypeVar("_Sent", bound=Frozen)
LARGEST = 8 * 1024 * 1024
"""Bytes of a request's body."""
MEMORY = 64 * 1024 * 1024
"""Bytes that the bodies of all calls may have together, with what they become."""
EACH_RESPONSE = 1024
"""Bytes that a response takes besides its text."""
BODY_SECONDS = 30.0
"""How long a body may take to arrive."""
ENDING_SECONDS = 10
"""How long calls may take to end once the server is stopped."""
_ADVICE = {
    404: "There is GET /health, GET /spec, and POST to /get_reward or /score.",
    405: "Send it with POST.",
}


_TAKES = "/score takes prompt and responses, /get_reward takes query, prompts and labels."


class GetReward(Frozen):
    """A request of OpenRLHF's remote reward client: prompt and response together, and the prompt
    again. With several addresses it sends empty lists to some."""

    query: tuple[str, ...]
    prompts: tuple[str, ...]
    labels: tuple[Any, ...] | None = None
    """The data set's labels, which a scorer must not see; ignored."""


class ScoreCall(Frozen):
    """Responses to one prompt. Comparative scorers compare them with each other."""

    prompt: Question
    responses: tuple[str, ...] = Field(min_length=1)
    culture: str | None = None
    """Null takes the server's ``culture``."""
    language: LanguageTag | None = None


class RewardServer:
    """An ASGI application around a scorer.

    Args:
        scorer: a spec. It is opened when the server starts; ``GET /health`` says 503 until it is.
        token: the token that requests must bear; null for none.
        culture: culture of requests that name none; null where each names one, or the scorer needs
            none.
        language: language of requests that name none.
        timeout: seconds after which a call is answered with what there is, or with 504.
        hosts: the names under which it may be addressed; empty for any. It closes rebinding of
            names on loopback.
        policy: takes the question out of the prompts of ``/get_reward``; by default the templates
            of known families are undone.
        memory: the bytes that all calls may hold together.
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
        policy: Policy | None = None,
        memory: int = MEMORY,
    ) -> None:
        self._opened = Opened(scorer)
        check_about(culture, language)
        self._token = (token or "").strip()
        self._timeout = timeout
        self._hosts = hosts
        self._constants = {"culture": culture, "language": language}
        self._policy = policy or Policy()
        self._room = Room(memory)
        self._queue: RewardQueue | None = None
        routes = [
            Route("/health", self._health),
            Route("/spec", self._spec),
            Route("/get_reward", self._get_reward, methods=["POST"]),
            Route("/score", self._score, methods=["POST"]),
        ]
        self._app = guarded(routes, self._admit, _content)

    async def work(self, note: Callable[[str], object] = lambda _: None) -> None:
        """Open the scorer, then score whatever waits, until cancelled.

        Args:
            note: is called with the notes of the open scorer.
        """
        scorer = await anyio.to_thread.run_sync(self._opened.get)
        missing = [name for name in needs(scorer.spec) if self._constants[name] is None]
        if missing:
            options = " and ".join(f"--{name}" for name in missing)
            note(
                f"This scorer reads the {' and the '.join(missing)} of each request. /score can "
                f"name it; /get_reward cannot, and is refused without {options}."
            )
        if scorer.spec.comparative:
            note(
                "This scorer compares responses, so a call with one response to a prompt is "
                "refused. OpenRLHF and verl send one: for them give a judge mode=pointwise."
            )
        self._queue = RewardQueue(scorer, self._timeout)
        await self._queue.work()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        await self._app(scope, receive, send)

    def _admit(self, request: Request) -> None:
        """Check the host of a request, its token, and its content.

        A token may also stand before the path, for clients that can send no header.
        """
        # A page in a browser cannot leave the name out, as clients of HTTP/1.0 do.
        host = re.sub(r":\d+$", "", request.headers.get("host", "")).strip("[]")
        if self._hosts and host not in ("", *self._hosts):
            raise RefusalError(421, "This server is not reached under this name.")
        if self._queue is None:
            raise RefusalError(503, "The scorer is not open yet.", headers={"retry-after": "5"})
        path = request.url.path
        scope = request.scope
        token = self._token.encode()
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        bearer = b""
        if kind.casefold() == "bearer":
            bearer = given.strip().encode("latin-1")
        end = 1 + len(self._token)
        before = scope["path"][1:end].encode("utf-8", "surrogatepass")
        behind = scope["path"][end:]
        if token and hmac.compare_digest(before, token) and behind.startswith("/"):
            scope["path"] = path = behind
            bearer = token
        if token and path != "/health" and not hmac.compare_digest(bearer, token):
            raise RefusalError(401, "Send the token as 'Authorization: Bearer TOKEN'.")
        # A page in a browser cannot send JSON to another origin without asking first, which is
        # never answered.
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if request.method == "POST" and kind.casefold() != "application/json":
            raise RefusalError(415, "Send JSON, with 'Content-Type: application/json'.")
        if request.headers.get("content-encoding", "identity") != "identity":
            raise RefusalError(415, "Send the body as it is, without a Content-Encoding.")

    async def _health(self, _: Request) -> Response:
        return json_response({"status": "ready"})

    async def _spec(self, _: Request) -> Response:
        spec = self._opened.get().spec.model_dump(mode="json")
        return json_response({"spec": spec, **self._constants})

    async def _get_reward(self, request: Request) -> Response:
        """``{"rewards": [...]}`` in the order of the queries."""
        scored = await self._scored(request, self._queries)
        errors = [_error(one, self._timeout) for one in scored]
        failed = [{"index": index, **error} for index, error in enumerate(errors) if error]
        if failed:
            status = 504 if None in scored else 502
            reason = f"{len(failed)} of {len(scored)} responses could not be scored."
            raise RefusalError(status, reason, failed=failed)
        return json_response({"rewards": [one.score for one in scored if one is not None]})

    async def _score(self, request: Request) -> Response:
        """``{"scores": [...], "errors": [...]}``: a number or null, and null or the reason, for
        each response."""
        scored = await self._scored(request, self._responses)
        if not any(scored):
            raise RefusalError(504, f"No answer within {self._timeout:g} seconds.")
        errors = [_error(one, self._timeout) for one in scored]
        scores = [None if one is None else one.score for one in scored]
        return json_response({"scores": scores, "errors": errors})

    def _queries(self, body: bytes) -> list[Text]:
        sent = _read(GetReward, body)
        columns = [
            column for column in (sent.query, sent.prompts, sent.labels) if column is not None
        ]
        if len({*map(len, columns)}) > 1:
            raise RefusalError(422, "query, prompts and labels must have the same length.")
        culture, language = self._about(None, None)
        texts = []
        pairs = zip(sent.query, sent.prompts, strict=True)
        for number, (query, prompt) in enumerate(pairs):
            question, response = self._question_and_response(query, prompt, number)
            texts.append(Text(question, response, culture, language))
        return texts

    def _question_and_response(self, query: str, prompt: str, number: int) -> tuple[Question, str]:
        """The question, and the response with the beginning of a thought that the prompt ends
        with."""
        subject = "query"
        try:
            response = (opened_thought(prompt, "") or "") + response_in(query, prompt)
            subject = "prompt"
            return self._policy.question(prompt), response
        except CarbError as error:
            raise RefusalError(422, f"{subject} {number} {error}.") from None

    def _responses(self, body: bytes) -> list[Text]:
        sent = _read(ScoreCall, body)
        culture, language = self._about(sent.culture, sent.language)
        prompt = sent.prompt
        begun = ""
        if isinstance(prompt, str) and is_chat(prompt):
            prompt, begun = self._question_and_response(prompt, prompt, 0)
        texts = []
        for number, response in enumerate(sent.responses):
            if is_whole(response, prompt):
                raise RefusalError(
                    422, f"response {number} is a whole conversation. Send the answer alone."
                )
            texts.append(Text(prompt, begun + response, culture, language))
        return texts

    def _about(self, culture: str | None, language: str | None) -> tuple[str, str]:
        """Culture and language of a call."""
        return asked_about(
            self._opened.get().spec,
            culture or self._constants["culture"],
            language or self._constants["language"],
            "send it to /score, or start the server with --{name}.",
        )

    async def _scored(
        self, request: Request, read: Callable[[bytes], list[Text]]
    ) -> list[Scored | None]:
        """The scores of a call's responses; null where none came in time."""
        queue = self._queue
        assert queue is not None  # no request comes here before the scorer is open
        with self._room.holding() as hold:
            seconds = min(self._timeout, BODY_SECONDS)
            body = await read_body(request, largest=LARGEST, seconds=seconds, hold=hold)
            texts = await anyio.to_thread.run_sync(read, body)
            hold(EACH_RESPONSE * len(texts))
            spec = self._opened.get().spec
            check_company(spec, texts, "Send all of them in one call")
            call = await anyio.to_thread.run_sync(make_call, texts, spec)
            await self._wait(request, queue, call)
        if call.reason:
            raise RefusalError(500, call.reason)
        return call.scored()

    async def _wait(self, request: Request, queue: RewardQueue, call: Call) -> None:
        """Wait until a call is scored, its time has passed, or its client has gone."""
        left = anyio.Event()

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            left.set()
            group.cancel_scope.cancel()

        queue.add(call)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(watch)
                with anyio.move_on_after(self._timeout):
                    await call.done.wait()
                group.cancel_scope.cancel()
        finally:
            queue.give_up(call)
        if left.is_set():
            raise ClientDisconnect


def _error(one: Scored | None, timeout: float) -> dict[str, Any] | None:
    """Why a response has no score; null where it has one."""
    if one is None:
        return {"kind": "timeout", "message": f"No answer within {timeout:g} seconds."}
    if one.error is None:
        return None
    return one.error.model_dump(mode="json")


def _read(model: type[_Sent], body: bytes) -> _Sent:
    try:
        sent = model.model_validate_json(body)
    except ValidationError as error:
        raise RefusalError(422, f"{first_defect(error)}. {_TAKES}") from None
    if name := repeated_name(body):
        raise RefusalError(422, f"The field '{name}' stands twice in one object.")
    return sent


def _content(error: HTTPException) -> dict[str, Any]:
    """What the response to a refused request says."""
    if isinstance(error, RefusalError):
        return {"error": error.detail, **error.more}
    return {"error": _ADVICE.get(error.status_code, error.detail)}


def bind(host: str, port: int, *, token: str | None) -> socket.socket:
    """Take the port. Beyond this machine a token is needed.

    Raises:
        CarbError: there is no token for a host beyond this machine, or the port is taken.
    """
    if host not in LOOPBACK and not token:
        raise CarbError(
            f"--host {host} opens the scorer to other machines. Put a token into a variable "
            "of the environment and name it with --token-env."
        )
    return take_port(host, port)


def serve(
    server: RewardServer, taken: socket.socket, note: Callable[[str], object] = lambda _: None
) -> None:
    """Serve until a signal ends it.

    Args:
        server: the application.
        taken: the socket that listens.
        note: as for ``RewardServer.work``.

    Raises:
        CarbError: the scorer cannot be opened.
    """
    uvicorn = require("uvicorn", "carb-scorers[serve]")
    config = server_config(server, timeout_graceful_shutdown=ENDING_SECONDS)

    async def run() -> None:
        program = uvicorn.Server(config)
        async with anyio.create_task_group() as group:

            async def listen() -> None:
                await program.serve(sockets=[taken])
                group.cancel_scope.cancel()

            group.start_soon(listen)
            try:
                await server.work(note)
            finally:
                program.should_exit = True

    try:
        anyio.run(run)
    except* CarbError as errors:
        raise errors.exceptions[0] from None
    finally:
        taken.close()
