"""Any server that speaks OpenAI's chat or completions API: OpenAI's own, vLLM's, llama.cpp's and many more."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from carb_data import CarbError
from carb_scorers.contract import ScoreError, Usage
from carb_scorers.models.answers import is_this_machine
from carb_scorers.models.client import Endpoint, EndpointError, ServerLimits, gather
from carb_scorers.models.limits import Clock
from carb_scorers.models.protocol import (
    BackendKind,
    Choices,
    Continuation,
    Failure,
    Generation,
    Prompt,
    Turn,
    Watch,
    plain_text,
    seeds_for,
)
from carb_scorers.models.tokens import guarded_unseen
from carb_scorers.specs import Options

OPENAI = "https://api.openai.com/v1"
OPENAI_KEY = "OPENAI_API_KEY"
_BYTES_PER_TOKEN = 3
"""For the estimate that the limit on tokens needs before an answer tells the true number."""

_NEGLIGIBLE = -14.0
"""Log-probability of a string below which it does not matter what follows it: a rating moves by less than 1e-5."""

Positive = Annotated[float, Field(gt=0)]


class OpenAIOptions(Options):
    """Options of ``backend=openai``."""

    url: str = OPENAI
    """Base URL, with its version: ``http://127.0.0.1:8000/v1``."""
    key_env: str = OPENAI_KEY
    """Name of the environment variable that holds the key. A key is never written into a spec."""
    api: Literal["chat", "completions"] = "chat"
    """``completions`` for models without a chat template, and for log-probabilities of given answers."""
    body: str = "{}"
    """A JSON object put into every request; a null takes a field out. Reasoning models of OpenAI, for example:
    ``{"max_tokens": null, "max_completion_tokens": 4096, "temperature": null}``."""
    top_logprobs: Annotated[int, Field(ge=1)] = 20
    """How many tokens a server is asked to report; most allow 20."""
    concurrency: Annotated[int, Field(ge=1)] = 8
    """Requests under way at once."""
    rpm: Positive | None = None
    """Requests a minute."""
    tpm: Positive | None = None
    """Tokens a minute, input and output."""
    timeout: Positive = 120.0
    """Seconds for one attempt."""
    retries: Annotated[int, Field(ge=0)] = 6
    """Further attempts after 408, 409, 425, 429, 5xx, a time-out or a lost connection."""
    patience: Annotated[float, Field(ge=0)] = 300.0
    """Seconds for which a server that has answered before may be gone or overloaded, before the run stops. With 0
    such requests become error rows after their retries, and the run goes on."""
    price_in: Annotated[float, Field(ge=0)] | None = None
    """Price of a million input tokens, in any currency; for the record's cost."""
    price_out: Annotated[float, Field(ge=0)] | None = None
    """Price of a million output tokens."""

    @field_validator("body")
    @classmethod
    def _is_an_object(cls, value: str) -> str:
        try:
            content = json.loads(value)
        except ValueError as error:
            raise ValueError(f"is not JSON: {error}") from None
        if not isinstance(content, dict):
            raise ValueError("must be a JSON object")
        return value


class OpenAIModel:
    """A language model behind a server. ``in_flight`` requests may be asked for at once."""

    def __init__(self, model: str, options: OpenAIOptions, endpoint: Endpoint) -> None:
        self.model = model
        self.revision: str | None = None  # a server does not say
        self.in_flight: int | None = options.concurrency
        self._options = options
        self._endpoint = endpoint
        self._extra: dict[str, Any] = json.loads(options.body)
        self._reports_logprobs = False
        self._split: dict[str, bool] = {}

    async def generate(
        self,
        prompts: Sequence[Prompt],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        seed: int | Sequence[int] = 0,
        stop: Sequence[str] = (),
        watch: Watch | None = None,
    ) -> list[Generation | Failure]:
        """See ``LanguageModel``. A seed is sent where the temperature is above 0; not all servers heed it."""
        common: dict[str, Any] = {"max_tokens": max_tokens, "temperature": temperature}
        if stop:
            common["stop"] = list(stop)
        if watch is not None:
            common |= self._with_logprobs
        seeds = [{"seed": own} if temperature > 0 else {} for own in seeds_for(prompts, seed)]
        read = partial(self._generation, watch)
        return await gather(
            [partial(self._ask, self._body(p, common | own), read) for p, own in zip(prompts, seeds, strict=True)]
        )

    async def next_logprobs(self, prompts: Sequence[Prompt], wanted: Sequence[str]) -> list[Choices | Failure]:
        """See ``LanguageModel``. A string counts where it is a token of its own, with or without a space before it.

        Where one string begins another (``1`` and ``10``) and the server reports no token for the longer one, its
        tokenizer may split it, and the shorter one's token would carry the probability of both. The server is then
        asked for the token behind the shorter one.

        Raises:
            CarbError: the server reports no log-probabilities.
        """
        return await gather([partial(self._next, prompt, wanted) for prompt in prompts])

    async def _next(self, prompt: Prompt, wanted: Sequence[str]) -> Choices | Failure:
        fields = {"max_tokens": 1, "temperature": 0.0, **self._with_logprobs}
        found: Choices | Failure = await self._ask(self._body(prompt, fields), partial(self._choices, wanted))
        if isinstance(found, Failure):
            return found
        logprobs, usage = dict(found.logprobs), found.usage
        for short in wanted:
            longer = [word for word in wanted if word != short and word.startswith(short) and word not in logprobs]
            if logprobs.get(short, -math.inf) < _NEGLIGIBLE or not longer or not await self._splits(longer[0], fields):
                continue
            rests = [word[len(short) :] for word in longer]
            behind = await self._ask(self._begun(prompt, short, fields), partial(self._choices, rests, exact=True))
            usage += behind.usage
            if isinstance(behind, Failure):
                message = (
                    f"the server reports '{short}' and not {', '.join(longer)}, and does not say what follows "
                    f"'{short}' ({behind.error.message}); use read=generate, or backend=vllm or backend=hf"
                )
                return Failure(ScoreError(kind="logprobs", message=message), usage)
            for word, rest in zip(longer, rests, strict=True):
                if (value := behind.logprobs.get(rest, behind.floor)) is not None:
                    logprobs[word] = logprobs[short] + value
            apart = [math.exp(value) for rest, value in behind.logprobs.items()]
            logprobs[short] += math.log1p(-min(sum(apart), 1.0)) if sum(apart) < 1.0 else -math.inf
        return Choices(logprobs, floor=found.floor, usage=usage)

    async def _splits(self, word: str, fields: Mapping[str, Any]) -> bool:
        """Whether the server's tokenizer has no token for a word, as far as one can see when the model repeats it.

        Asked once, of the model and not of an item, so that no score depends on what was asked before.
        """
        if word not in self._split:
            said = f"Repeat this and write nothing else: {word}"
            ask = self._body(Prompt((Turn(role="user", content=said),), cue=f"\n{word}\n{word}\n"), fields)
            found = await self._ask(ask, partial(self._choices, [word]))
            if isinstance(found, Failure):
                return True
            self._split[word] = word not in found.logprobs
        return self._split[word]

    def _begun(self, prompt: Prompt, answer: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """A request to go on with an answer that has begun; in chats it is an extension that vLLM and others have."""
        if not self._chat:
            return self._body(prompt, fields) | {"prompt": f"{guarded_unseen(plain_text(prompt))} {answer}"}
        body = self._body(prompt, fields)
        turns = [*body["messages"], {"role": "assistant", "content": answer}]
        return body | {"messages": turns, "add_generation_prompt": False, "continue_final_message": True}

    async def continuation_logprobs(
        self,
        prompts: Sequence[Prompt],
        answers: Sequence[str],
        *,
        end_of_turn: bool = True,  # noqa: ARG002 - plain text has no turns
    ) -> list[Continuation | Failure]:
        """See ``LanguageModel``. Needs a server that echoes the prompt's own log-probabilities, such as vLLM's.

        Raises:
            CarbError: with ``api=chat``, for which servers have no such thing.
        """
        if self._chat:
            raise CarbError(
                f"'{self.model}': chat servers do not report the log-probability of a given answer. Use "
                f"api=completions with a server that can echo (vLLM's can), or backend=hf or backend=vllm."
            )
        calls = []
        for prompt, answer in zip(prompts, answers, strict=True):
            start, answer = guarded_unseen(plain_text(prompt)), guarded_unseen(answer)
            text = start + (answer if answer[:1].isspace() or start[-1:].isspace() else f" {answer}")
            fields = {"prompt": text, "max_tokens": 1, "temperature": 0.0, "logprobs": 1, "echo": True}
            calls.append(partial(self._ask, self._body(prompt, fields), partial(_continuation, len(start), len(text))))
        return await gather(calls)

    async def embeddings(self, texts: Sequence[str]) -> tuple[list[list[float]], int] | Failure:
        """A vector for each text from ``/embeddings``, and the tokens read."""
        tokens = sum(len(text.encode("utf-8", "replace")) for text in texts) // _BYTES_PER_TOKEN
        body = {"model": self.model, "input": list(texts), **self._extra}
        try:
            answer, attempts = await self._endpoint.post("/embeddings", body, tokens=tokens)
        except EndpointError as error:
            return Failure(error.error, Usage(requests=error.attempts))
        usage = _usage(answer, attempts)
        try:
            rows = sorted(answer["data"], key=lambda row: int(row["index"]))
            vectors = [[float(x) for x in row["embedding"]] for row in rows]
        except (KeyError, TypeError, ValueError, AttributeError):
            return Failure(ScoreError(kind="http", message="an answer without embeddings"), usage)
        if len(vectors) != len(texts):
            message = f"{len(vectors)} embeddings for {len(texts)} texts"
            return Failure(ScoreError(kind="http", message=message), usage)
        return vectors, usage.input_tokens

    async def aclose(self) -> None:
        """Nothing is held between calls."""

    @property
    def _with_logprobs(self) -> dict[str, Any]:
        number = self._options.top_logprobs
        return {"logprobs": True, "top_logprobs": number} if self._chat else {"logprobs": number}

    @property
    def _chat(self) -> bool:
        return self._options.api == "chat"

    def _body(self, prompt: Prompt, fields: Mapping[str, Any]) -> dict[str, Any]:
        turns = [{**turn, "content": guarded_unseen(turn["content"])} for turn in prompt.messages]
        asked = {"messages": turns} if self._chat else {"prompt": guarded_unseen(plain_text(prompt))}
        body = {"model": self.model, **asked, **fields, **self._extra}
        return {name: value for name, value in body.items() if value is not None}

    async def _ask(
        self, body: Mapping[str, Any], read: Callable[[Mapping[str, Any], Usage], Any]
    ) -> Any:  # what ``read`` gives, or a failure
        path = "/chat/completions" if self._chat else "/completions"
        asked = len(json.dumps(body.get("messages", body.get("prompt")), ensure_ascii=False).encode("utf-8", "replace"))
        tokens = asked // _BYTES_PER_TOKEN + int(body.get("max_tokens", body.get("max_completion_tokens", 0)))
        try:
            answer, attempts = await self._endpoint.post(path, body, tokens=tokens)
        except EndpointError as error:
            return Failure(error.error, Usage(requests=error.attempts))
        usage = _usage(answer, attempts)
        try:
            return read(_first_choice(answer), usage)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
            reason = f"{type(error).__name__}: {error}"[:100]
            message = f"the server's answer has not the form of the {self._options.api} API ({reason})"
            return Failure(ScoreError(kind="http", message=message), usage)

    def _generation(self, watch: Watch | None, choice: Mapping[str, Any], usage: Usage) -> Generation | Failure:
        content = choice["message"]["content"] if self._chat else choice["text"]
        if isinstance(content, list):  # content in parts
            content = "".join(part["text"] for part in content if part.get("type", "text") == "text")
        reason = choice.get("finish_reason")
        if reason == "content_filter" or (content is None and choice.get("message", {}).get("refusal")):
            return Failure(ScoreError(kind="refused", message="the server refused to answer"), usage)
        if not isinstance(content, str | None):
            raise TypeError("the content is not text")
        choices = None if watch is None else self._watched(watch, choice)
        return Generation(text=content or "", usage=usage, finished=reason != "length", choices=choices)

    def _steps(self, choice: Mapping[str, Any]) -> list[_Step]:
        """Each token of an answer with the most probable ones in its place."""
        reported = choice.get("logprobs") or {}
        if not reported and not self._reports_logprobs:
            raise CarbError(f"The server gives no log-probabilities for '{self.model}'; use read=generate.")
        steps = _chat_steps(reported) if self._chat else _completion_steps(reported)
        self._reports_logprobs = True
        return steps

    def _choices(
        self, wanted: Sequence[str], choice: Mapping[str, Any], usage: Usage, *, exact: bool = False
    ) -> Choices | Failure:
        return _among(self._steps(choice)[0][1], wanted, usage, exact=exact)

    def _watched(self, watch: Watch, choice: Mapping[str, Any]) -> Choices | None:
        steps = self._steps(choice)
        for place in reversed(range(len(steps))):
            before = "".join(token for token, _ in steps[:place]).rstrip()
            if steps[place][0].strip() in watch.words and before.endswith(watch.after):
                return _among(steps[place][1], watch.words, Usage())
        return None


def _first_choice(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    choice = answer["choices"][0]
    if not isinstance(choice, dict):
        raise TypeError("a choice is not an object")
    return choice


def _usage(answer: Mapping[str, Any], attempts: int) -> Usage:
    usage = answer.get("usage")
    counts = usage if isinstance(usage, dict) else {}

    def count(name: str) -> int:
        value = counts.get(name)
        return value if isinstance(value, int) and value >= 0 else 0

    return Usage(input_tokens=count("prompt_tokens"), output_tokens=count("completion_tokens"), requests=attempts)


def _among(tokens: Sequence[tuple[str, float]], wanted: Sequence[str], usage: Usage, *, exact: bool = False) -> Choices:
    """Log-probabilities of strings that are whole tokens: a token ``10`` is not among those of ``1``."""
    found = {}
    for word in wanted:
        same = [value for token, value in tokens if (token == word if exact else token.strip() == word.strip())]
        if same:
            top = max(same)
            found[word] = top + math.log(sum(math.exp(value - top) for value in same)) if top > -math.inf else top
    return Choices(found, floor=min((value for _, value in tokens), default=None), usage=usage)


_Step = tuple[str, list[tuple[str, float]]]
"""A token, and the most probable tokens in its place with their log-probabilities."""


def _chat_steps(reported: Mapping[str, Any]) -> list[_Step]:
    steps = []
    for step in reported["content"]:
        top = [(_token_text(entry), _logprob(entry["logprob"])) for entry in step["top_logprobs"]]
        steps.append((_token_text(step) if "token" in step else "", top))
    return steps


def _completion_steps(reported: Mapping[str, Any]) -> list[_Step]:
    tokens = reported.get("tokens") or [""] * len(reported["top_logprobs"])
    return [
        (token, [(other, _logprob(value)) for other, value in top.items()])
        for token, top in zip(tokens, reported["top_logprobs"], strict=True)
    ]


def _token_text(entry: Mapping[str, Any]) -> str:
    """A token's text; its bytes say more where it is part of a character."""
    given = entry.get("bytes")
    return bytes(given).decode("utf-8", "replace") if given else str(entry["token"])


def _logprob(value: Any) -> float:
    number = float(value)
    if math.isnan(number) or number > 1e-3:
        raise ValueError(f"{number} is no log-probability")
    return min(number, 0.0)


def _continuation(start: int, end: int, choice: Mapping[str, Any], usage: Usage) -> Continuation | Failure:
    """The log-probabilities of the tokens between two characters of the echoed text."""
    reported = choice["logprobs"]
    offsets, values = reported["text_offset"], reported["token_logprobs"]
    places = [place for place, offset in enumerate(offsets) if start <= offset < end]
    if not places or offsets[places[0]] != start:
        message = "the server's tokens do not divide between prompt and answer"
        return Failure(ScoreError(kind="tokens", message=message), usage)
    return Continuation(tuple(_logprob(values[place]) for place in places), usage)


def open_openai(target: str, options: OpenAIOptions, *, clock: Clock | None = None) -> OpenAIModel:
    """Open ``backend=openai``; nothing is sent yet.

    Raises:
        CarbError: the URL is not one, the key is missing, or httpx is not installed.
    """
    key = _key(options)
    endpoint = Endpoint(
        options.url,
        key,
        ServerLimits(
            concurrency=options.concurrency,
            rpm=options.rpm,
            tpm=options.tpm,
            timeout=options.timeout,
            retries=options.retries,
            patience=options.patience,
        ),
        clock=clock,
    )
    return OpenAIModel(target, options, endpoint)


def _key(options: OpenAIOptions) -> str | None:
    """The key for a server, from the environment.

    A key that was not asked for by name is not sent in clear text over a network.
    """
    try:
        parts = urlsplit(options.url)
        host = parts.hostname
    except ValueError:
        parts, host = None, None
    if parts is None or parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment:
        raise CarbError("url= must be the base URL of a server, for example http://127.0.0.1:8000/v1.")
    if parts.username is not None or parts.password is not None:
        raise CarbError("url= must not hold a password; put the key into a variable and name that in key_env=.")
    key = os.environ.get(options.key_env, "").strip()
    by_name = "key_env" in options.model_fields_set
    if not key:
        if by_name or options.url.rstrip("/") == OPENAI:
            raise CarbError(
                f"The environment variable {options.key_env} holds no key; set it, or name another in key_env=."
            )
        return None
    if not (key.isascii() and key.isprintable()):
        raise CarbError(f"The environment variable {options.key_env} holds characters that no key has.")
    if parts.scheme == "http" and not is_this_machine(options.url) and not by_name:
        return None
    return key


LANGUAGE_MODEL = BackendKind(OpenAIOptions, open_openai)
