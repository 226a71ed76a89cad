"""Language models on servers that speak OpenAI's chat or completions API."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from carb_data import CarbError
from carb_scorers.models.client import Endpoint, gather
from carb_scorers.models.limits import Clock
from carb_scorers.models.openai.asking import ask
from carb_scorers.models.openai.options import OpenAIOptions, open_endpoint
from carb_scorers.models.openai.reading import Step, among, chat_steps, completion_steps, continuation, first_choice
from carb_scorers.models.protocol import (
    BackendKind,
    CannotError,
    Choices,
    Continuation,
    Failure,
    Generation,
    Prompt,
    Turn,
    Watch,
    Writing,
    plain_text,
    seeds_for,
)
from carb_scorers.models.tokens import guarded_unseen
from carb_scorers.scorer import ScoreError, Usage

T = TypeVar("T")

_NEGLIGIBLE = -14.0
"""Log-probability of a string below which it does not matter what follows it: a rating moves by less than 1e-5."""


class OpenAIModel:
    """A language model behind a server. ``in_flight`` requests may be asked for at once."""

    def __init__(self, model: str, options: OpenAIOptions, endpoint: Endpoint) -> None:
        self.model = model
        self.revision: str | None = None  # a server does not say
        self.in_flight: int | None = options.concurrency
        self._options = options
        self._endpoint = endpoint
        self._extra: dict[str, Any] = json.loads(options.body)
        self._variables = {"chat_template_kwargs": json.loads(options.chat_template_kwargs) or None}
        self._reports_logprobs = False
        self._split: dict[str, bool] = {}

    async def generate(self, prompts: Sequence[Prompt], writing: Writing) -> list[Generation | Failure]:
        """See ``LanguageModel``. A seed is sent where the temperature is above 0; not all servers use it."""
        common: dict[str, Any] = {"max_tokens": writing.max_tokens, "temperature": writing.temperature}
        if writing.stop:
            common["stop"] = list(writing.stop)
        if writing.watch is not None:
            common |= self._with_logprobs
        seeds = [{"seed": own} if writing.temperature > 0 else {} for own in seeds_for(prompts, writing)]
        read = partial(self._generation, writing.watch)
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
            if logprobs.get(short, -math.inf) < _NEGLIGIBLE or not longer:
                continue
            split = await self._splits(longer[0], short, fields)
            if split is False:
                continue
            rests = [word[len(short) :] for word in longer]
            behind = split if isinstance(split, Failure) else await self._behind(prompt, short, rests, fields)
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

    async def _splits(self, word: str, short: str, fields: Mapping[str, Any]) -> bool | Failure:
        """Whether the server's tokenizer has no token for a word, as far as one can see when the model repeats it.

        Asked once, of the model and not of an item, so that no score depends on what was asked before. A failure where
        the word is split, and the server does not go on with an answer that begins with ``short``: some take it for a
        whole turn and say nothing. One that goes on reads a token more, or the model writes the rest of the word.
        """
        if word not in self._split:
            said = f"Repeat this and write nothing else: {word}"
            repeat = Prompt((Turn(role="user", content=said),), cue=f"\n{word}\n{word}\n")
            found = await self._ask(self._body(repeat, fields), partial(self._choices, [word]))
            if isinstance(found, Failure):
                return found
            if word in found.logprobs or not self._chat:
                self._split[word] = word not in found.logprobs
                return self._split[word]
            rest = word[len(short) :]
            behind = await self._behind(repeat, short, [rest], fields)
            if isinstance(behind, Failure):
                return behind
            likely = rest in behind.logprobs and behind.logprobs[rest] > math.log(0.5)
            if not likely and behind.usage.input_tokens - found.usage.input_tokens != 1:
                message = "it does not go on with an answer that has begun"
                return Failure(ScoreError(kind="logprobs", message=message), behind.usage)
            self._split[word] = True
        return self._split[word]

    async def _behind(
        self, prompt: Prompt, answer: str, rests: Sequence[str], fields: Mapping[str, Any]
    ) -> Choices | Failure:
        """Log-probabilities of what may stand behind an answer that has begun."""
        return await self._ask(self._begun(prompt, answer, fields), partial(self._choices, rests, exact=True))

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
            CannotError: with ``api=chat``, for which servers have no such thing.
        """
        if self._chat:
            raise CannotError(
                f"'{self.model}': chat servers do not report the log-probability of a given answer. Use "
                f"api=completions with a server that can echo (vLLM's can), or backend=hf or backend=vllm."
            )
        calls = []
        for prompt, answer in zip(prompts, answers, strict=True):
            start, answer = guarded_unseen(plain_text(prompt)), guarded_unseen(answer)
            text = start + (answer if answer[:1].isspace() or start[-1:].isspace() else f" {answer}")
            fields = {"prompt": text, "max_tokens": 1, "temperature": 0.0, "logprobs": 1, "echo": True}
            calls.append(partial(self._ask, self._body(prompt, fields), partial(continuation, len(start), len(text))))
        return await gather(calls)

    async def embeddings(self, texts: Sequence[str]) -> tuple[list[list[float]], int] | Failure:
        """A vector for each text from ``/embeddings``, and the tokens read."""

        def read(answer: Mapping[str, Any], usage: Usage) -> tuple[list[list[float]], int] | Failure:
            rows = sorted(answer["data"], key=lambda row: int(row["index"]))
            vectors = [[float(x) for x in row["embedding"]] for row in rows]
            if len(vectors) != len(texts):
                message = f"{len(vectors)} embeddings for {len(texts)} texts"
                return Failure(ScoreError(kind="http", message=message), usage)
            return vectors, usage.input_tokens

        return await ask(
            self._endpoint, "/embeddings", {"model": self.model, "input": list(texts), **self._extra}, read
        )

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
        asked = {"messages": turns, **self._variables} if self._chat else {"prompt": guarded_unseen(plain_text(prompt))}
        return {"model": self.model, **asked, **fields, **self._extra}

    async def _ask(
        self, body: Mapping[str, Any], read: Callable[[Mapping[str, Any], Usage], T | Failure]
    ) -> T | Failure:
        """Ask, and read the answer's first choice."""
        path = "/chat/completions" if self._chat else "/completions"
        return await ask(self._endpoint, path, body, lambda answer, usage: read(first_choice(answer), usage))

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

    def _steps(self, choice: Mapping[str, Any]) -> list[Step]:
        """Each token of an answer with the most probable ones in its place."""
        reported = choice.get("logprobs") or {}
        if not reported and not self._reports_logprobs:
            raise CannotError(f"The server gives no log-probabilities for '{self.model}'; use read=generate.")
        steps = chat_steps(reported) if self._chat else completion_steps(reported)
        self._reports_logprobs = True
        return steps

    def _choices(
        self, wanted: Sequence[str], choice: Mapping[str, Any], usage: Usage, *, exact: bool = False
    ) -> Choices | Failure:
        return among(self._steps(choice)[0][1], wanted, usage, exact=exact)

    def _watched(self, watch: Watch, choice: Mapping[str, Any]) -> Choices | None:
        steps = self._steps(choice)
        for place in reversed(range(len(steps))):
            before = "".join(token for token, _ in steps[:place]).rstrip()
            if steps[place][0].strip() in watch.words and before.endswith(watch.after):
                return among(steps[place][1], watch.words, Usage())
        return None


def open_openai(target: str, options: OpenAIOptions, *, clock: Clock | None = None) -> OpenAIModel:
    """Open ``backend=openai``; nothing is sent yet.

    Raises:
        CarbError: the URL is not one, the key is missing, an option has no use, or httpx is not installed.
    """
    if options.api == "completions" and json.loads(options.chat_template_kwargs):
        raise CarbError("chat_template_kwargs= needs api=chat: with api=completions no chat template is used.")
    return OpenAIModel(target, options, open_endpoint(options, clock))


LANGUAGE_MODEL = BackendKind(OpenAIOptions, open_openai)
