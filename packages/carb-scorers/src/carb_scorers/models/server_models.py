"""Models on servers: language models behind OpenAI's API (OpenAI, vLLM, llama.cpp, …), and
classifiers on vLLM."""

import json
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from carb_data import CarbError
from carb_scorers.models.marks import guarded_unseen
from carb_scorers.models.protocol import (
    BackendKind,
    CannotError,
    Choices,
    Continuation,
    Failure,
    Generation,
    Prompt,
    Prompts,
    Reward,
    Texts,
    Watch,
    Writing,
    chat,
    failure,
    log_sum,
    message,
    plain_text,
    seeds_for,
)
from carb_scorers.models.server_echo import SpellingError, answer_tokens
from carb_scorers.models.server_options import (
    ServerLanguageOptions,
    ServerOptions,
    ServerRewardOptions,
)
from carb_scorers.models.server_retries import Clock, Endpoint, Json, Read, gather
from carb_scorers.scorer import Usage

T = TypeVar("T")

_NEGLIGIBLE = 1e-3
"""Probability of a string below which it does not matter what follows it: a rating from 1 to 10
moves by 0.01."""

_TOLD = (
    "finish_reason native_finish_reason stop_reason done_reason finishReason stopReason stop_type "
    "matched_stop status reason"
)
"""Fields that say why a text ended."""
_CUT = "truncated is_truncated stopped_limit"
"""Fields that are true where prompt or text was cut."""
_THOUGHTS = "reasoning_content reasoning thinking reasoning_details thinking_blocks"
"""Fields for the thought that a server separated from an answer."""
_ENDS = "stop eos eos_token end_turn stop_sequence stop_token complete completed success word"
"""Reasons for which a text is over. For every other one (``length``, ``abort``, ``null``, one that
is new, SGLang's ``NaN happened``) it may have broken off."""
_LIMITS = "length limit max_tokens max_output_tokens max_length"
"""Reasons that say no more than that a text is as long as it may be."""
_REFUSED = "content_filter refusal refused safety recitation blocklist prohibited_content"

_ONLY_THOUGHT = (
    "the server put everything into reasoning_content and wrote no answer; raise max_tokens, turn "
    "thinking off (chat_template_kwargs=), or start the server without its reasoning parser"
)

_ALL_ONES = 4
"""How many scores, all of them 1, show that they are no raw outputs."""
_BOUNDED = {0.0: 6, -1.0: 18}
"""How many scores, all of them from this number to 1, show that they are no raw outputs.

Three sets have six at least. Independent raw outputs around 0 with a standard deviation of 1 all
lie there in 0.16% and 0.10% of runs, and ``bounded=true`` lets them pass.
"""

_MOST = 1.01
"""The largest sum of the probabilities of different tokens; servers round."""
_UNREPORTED = -100.0
"""From here down a number says that a token was not measured: servers send -100 or -9999 then."""
_VOCABULARY = 1e6
"""More tokens than any model has."""
_SPACES = " \t\r\n\u0120\u010a\u2581"
"""White space, also as the vocabularies of BPE and SentencePiece mark it."""

Step = tuple[str, list[tuple[str, float]]]
"""A token, and the most probable tokens in its place with their log-probabilities."""


class ServerModel:
    """Shared by models behind servers. No request is sent when they are opened.

    Raises:
        CarbError: the URL is not one, the key is missing, an option has no use, or httpx is not
            installed.
    """

    def __init__(
        self, model: str, options: ServerOptions, clock: Clock | None = None, *, templated: bool
    ) -> None:
        if not templated and json.loads(options.chat_template_kwargs):
            raise CarbError(
                "chat_template_kwargs= needs api=chat or api=classify: others use no chat template."
            )
        self.model = model
        self.revision: str | None = None  # what a server says about that is in ``Usage.served``
        self.in_flight: int | None = options.concurrency
        self._endpoint = Endpoint(options, clock)
        self._extra: dict[str, Any] = json.loads(options.body)
        self._variables = {"chat_template_kwargs": json.loads(options.chat_template_kwargs) or None}

    async def aclose(self) -> None:
        """Nothing is held between calls."""


class ServerLanguageModel(ServerModel):
    """A language model behind a server; see ``LanguageModel``."""

    def __init__(
        self, model: str, options: ServerLanguageOptions, clock: Clock | None = None
    ) -> None:
        self._chat = options.api == "chat"
        super().__init__(model, options, clock, templated=self._chat)
        top = options.top_logprobs
        self._with_logprobs = {"logprobs": top}
        if self._chat:
            self._with_logprobs = {"logprobs": True, "top_logprobs": top}
        self._reports_logprobs = False

    async def generate(self, prompts: Prompts, writing: Writing) -> list[Generation | Failure]:
        """See ``LanguageModel``. A seed is sent where the temperature is above 0; not all servers
        use it."""
        common: dict[str, Any] = {
            "max_tokens": writing.max_tokens,
            "temperature": writing.temperature,
            "stop": list(writing.stop) or None,
        }
        if writing.watch is not None:
            common |= self._with_logprobs
        seeds: Sequence[int | None] = [None] * len(prompts)
        if writing.temperature > 0:
            seeds = seeds_for(prompts, writing)
        read = partial(self._generation, writing.watch, common | self._extra)
        calls = []
        for prompt, seed in zip(prompts, seeds, strict=True):
            fields = common | {"seed": seed}
            calls.append(self._call(prompt, fields, read))
        return await gather(calls)

    async def next_logprobs(self, prompts: Prompts, wanted: Texts) -> list[Choices | Failure]:
        """See ``LanguageModel``. A string counts where it is a token of its own, with or without a
        space before it.

        Where one string begins another (``1`` and ``10``) the server may report no token for the
        longer one, because its tokenizer splits it. The shorter one's token would then carry the
        probability of both: a failure.

        Raises:
            CarbError: the server reports no log-probabilities.
        """
        fields = {"max_tokens": 1, "temperature": 0.0, **self._with_logprobs}
        read = partial(self._choices, wanted)
        return await gather([self._call(prompt, fields, read) for prompt in prompts])

    async def continuation_logprobs(
        self,
        prompts: Prompts,
        answers: Texts,
        *,
        end_of_turn: bool = True,  # noqa: ARG002 - plain text has no turns
    ) -> list[Continuation | Failure]:
        """See ``LanguageModel``. Needs a server that echoes the prompt's own log-probabilities,
        such as vLLM's.

        Raises:
            CannotError: with ``api=chat``, for which servers have no such thing.
        """
        if self._chat:
            raise CannotError(
                f"'{self.model}': chat servers do not report the log-probability of a given "
                "answer. Use api=completions with a server that can echo (vLLM's can), or "
                "backend=hf or backend=vllm."
            )
        calls = []
        for prompt, answer in zip(prompts, answers, strict=True):
            start = guarded_unseen(plain_text(prompt))
            answer = guarded_unseen(answer)
            if not (answer[:1].isspace() or start[-1:].isspace()):
                answer = f" {answer}"
            fields = {
                "prompt": start + answer,
                "max_tokens": 1,
                "temperature": 0.0,
                "logprobs": 1,
                "echo": True,
            }
            read = partial(_continuation, start, answer)
            calls.append(self._call(prompt, fields, read))
        return await gather(calls)

    def _call(
        self,
        prompt: Prompt,
        fields: Json,
        read: Read[T],
    ) -> Callable[[], Awaitable[T | Failure]]:
        """A call that sends a prompt and reads the first choice of the answer."""
        asked: dict[str, Any]
        if self._chat:
            path = "/chat/completions"
            asked = {"messages": chat(prompt.messages, guarded_unseen), **self._variables}
        else:
            path = "/completions"
            asked = {"prompt": guarded_unseen(plain_text(prompt))}
        body = {"model": self.model, **asked, **fields, **self._extra}

        def first(answer: Json, usage: Usage) -> T | Failure:
            choice = min(answer["choices"], key=lambda one: one.get("index", 0))
            reasons = _reasons(answer, choice)
            named = ", ".join(sorted(reasons))
            if not reasons.isdisjoint(_REFUSED.split()):
                return failure("refused", f"the server refused to answer ({named})", usage)
            odd = reasons.difference(_ENDS.split(), _LIMITS.split())
            if "truncated" in odd or (odd and fields["max_tokens"] == 1):
                return failure("cut-off", f"the server broke off ({named})", usage)
            return read({**choice, "reasons": reasons}, usage)

        return partial(self._endpoint.ask, path, body, first)

    def _generation(
        self, watch: Watch | None, sent: Json, choice: Json, usage: Usage
    ) -> Generation | Failure:
        message = choice.get("message") or {}
        content = message.get("content") if self._chat else choice["text"]
        if isinstance(content, list):  # content in parts
            content = "".join(
                part["text"]
                for part in content
                if part.get("type", "text") == "text" and not part.get("thought")
            )
        if not content and _thought(message):
            return failure("parse", _ONLY_THOUGHT, usage)
        if not isinstance(content, str | None) or (content is None and "content" not in message):
            raise TypeError("the content is not text")
        choices = self._watched(watch, choice) if watch else None
        stops = map(str.lower, sent["stop"] or ())
        odd = choice["reasons"].difference(_ENDS.split(), stops)
        finished = bool(choice["reasons"]) and not odd
        finished &= usage.output_tokens != sent["max_tokens"]  # some call every end a stop
        reason = ", ".join(sorted(odd.difference(_LIMITS.split())))
        return Generation(content or "", usage, finished, choices, reason=reason)

    def _steps(self, choice: Json) -> list[Step]:
        """Each token of an answer with the most probable ones in its place."""
        steps = _steps_of(choice.get("logprobs") or {})
        if any(top for _, top in steps):
            self._reports_logprobs = True
        elif not self._reports_logprobs:
            raise CannotError(
                f"The server gives no log-probabilities for '{self.model}'. Start it with them "
                "(vLLM: --max-logprobs 20; a reasoning parser may leave them out), or use "
                "read=generate."
            )
        return steps

    def _choices(self, wanted: Texts, choice: Json, usage: Usage) -> Choices | Failure:
        message = choice.get("message") or {}
        steps = self._steps(choice)
        if not message.get("content") and _thought(message):
            raise CannotError(
                "The server's log-probabilities belong to a thought (reasoning_content). "
                "Turn thinking off (chat_template_kwargs=), start the server without its reasoning "
                "parser, or use read=generate."
            )
        choices = _among(steps[0][1], wanted, usage)
        for short, value in choices.logprobs.items():
            longer = [
                word for word in wanted if word.startswith(short) and word not in choices.logprobs
            ]
            if longer and math.exp(value) >= _NEGLIGIBLE:
                message = (
                    f"the server reports '{short}' and not {', '.join(longer)}, which may begin "
                    "with the same token; use read=generate, a scale that ends before "
                    f"{longer[0]}, or backend=vllm or backend=hf"
                )
                return failure("logprobs", message, usage)
        return choices

    def _watched(self, watch: Watch, choice: Json) -> Choices | None:
        steps = self._steps(choice)
        for index in reversed(range(len(steps))):
            token, beside = steps[index]
            if token.strip(_SPACES) not in watch.words:
                continue
            before = "".join(earlier for earlier, _ in steps[:index])
            if before.rstrip().endswith(watch.after):
                return _among(beside, watch.words, Usage())
        return None


def _reasons(answer: Json, choice: Json) -> set[str]:
    """Why a reply says that its text ended. A router (OpenRouter, LiteLLM) renames the model's own
    reason, LiteLLM even an error to ``stop``."""
    message = choice.get("message") or {}
    details = answer.get("incomplete_details")
    reasons = set[str]()
    for part in (answer, details, choice, choice.get("provider_specific_fields"), message):
        told = part or {}
        named = [told.get(name) for name in _TOLD.split()]
        reasons.update(one.lower() for one in named if isinstance(one, str))
        reasons.update("truncated" for name in _CUT.split() if told.get(name))
    if message.get("refusal"):
        reasons.add("refusal")
    return reasons - {""}


def _thought(message: Json) -> bool:
    """Whether a server separated a thought from an answer."""
    return any(message.get(name) for name in _THOUGHTS.split())


def _among(tokens: Sequence[tuple[str, float]], wanted: Texts, usage: Usage) -> Choices:
    """Log-probabilities of strings that are whole tokens: a token ``10`` is not among those of
    ``1``.

    A word that is not reported is at most as probable as the last reported one, and as all that is
    left.
    """
    total = math.fsum(math.exp(value) for _, value in tokens)
    if total > _MOST or len(set(tokens)) < len(tokens):
        raise ValueError(f"the probabilities of the most probable tokens add up to {total:.2f}")
    logprobs = {}
    for word in wanted:
        bare = word.strip()
        same = [value for token, value in tokens if token.strip(_SPACES) == bare]
        if same:
            logprobs[word] = log_sum(same)
    left = 1.0 - total
    bounds = [value for _, value in tokens]
    if bounds and left > max(_MOST - 1.0, _VOCABULARY * math.exp(min(bounds))):
        raise ValueError(
            f"{left:.0%} of the probability is left for tokens less probable than all that are "
            "listed, so that the numbers are no natural logarithms"
        )
    if left > 0:
        bounds.append(math.log(left))
    floor = min(bounds, default=None)
    mass = math.fsum(map(math.exp, logprobs.values()))
    return Choices(logprobs, floor=floor, mass=mass, usage=usage)


def _steps_of(reported: Json) -> list[Step]:
    """Log-probabilities in a chat's form, which llama.cpp gives for completions too, or in a
    completion's form."""
    steps = []
    if "content" in reported:
        for step in reported["content"] or ():
            listed = step.get("top_logprobs") or ()
            top = _measured([(_token_text(entry), entry["logprob"]) for entry in listed])
            written = ""
            if "token" in step:
                written = _token_text(step)
            steps.append(_with_written(written, step.get("logprob"), top))
        return steps
    given = reported.get("top_logprobs") or ()
    tokens = reported.get("tokens") or [""] * len(given)
    values = reported.get("token_logprobs") or [None] * len(given)
    for token, value, beside in zip(tokens, values, given, strict=True):
        top = _measured((beside or {}).items())
        steps.append(_with_written(token, value, top))
    return steps


def _measured(listed: Iterable[tuple[str, Any]]) -> list[tuple[str, float]]:
    """Listed tokens with their log-probabilities, without those that were not measured."""
    known = [pair for pair in listed if not _number(pair[1]) <= _UNREPORTED]  # NaN goes on
    return [(token, _logprob(value)) for token, value in known]


def _with_written(token: str, value: Any, top: list[tuple[str, float]]) -> Step:
    """A step; some servers list alternatives alone, without the token that they wrote."""
    listed = {other for other, _ in top}
    if not top or value is None or token in listed:
        return token, top
    return token, [*top, (token, _logprob(value))]


def _token_text(entry: Json) -> str:
    """A token's text; its bytes say more where it is part of a character."""
    given = entry.get("bytes")
    if given:
        return bytes(given).decode("utf-8", "replace")
    return str(entry["token"])


def _number(value: Any) -> float:
    """A number of a reply; no text and no truth value, which Python would take for one."""
    if type(value) not in (int, float):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def _logprob(value: Any) -> float:
    number = _number(value)
    if not _UNREPORTED < number <= 1e-3:
        raise ValueError(f"{number} is no log-probability that was measured")
    return min(number, 0.0)


def _continuation(prompt: str, answer: str, choice: Json, usage: Usage) -> Continuation | Failure:
    """The log-probabilities of the tokens that spell the answer in the echoed text."""
    reported = choice["logprobs"]
    if not reported or not reported.get("tokens"):
        message = "the server's reply has no tokens of the text that it was given (echo)"
        return failure("tokens", message, usage)
    tokens = reported["tokens"]
    values = reported["token_logprobs"]
    try:
        if len(values) != len(tokens):
            raise SpellingError(f"{len(tokens)} tokens have {len(values)} log-probabilities")
        spelling = answer_tokens(tokens, prompt, answer, usage.input_tokens or None)
    except SpellingError as error:
        return failure("tokens", str(error), usage)
    return Continuation(tuple(_logprob(values[index]) for index in spelling), usage)


class ServerRewardModel(ServerModel):
    """See ``RewardModel``. Each candidate is a request of its own, and fails alone."""

    def __init__(self, model: str, options: ServerRewardOptions) -> None:
        self._api = options.api
        self._bounded = options.bounded
        self._values: list[float] = []
        root = options.url.rstrip("/").removesuffix("/v1")  # a path may stand beside it
        super().__init__(
            model,
            options.changed(url=root),
            templated=self._api == "classify",
        )

    async def rewards(self, prompts: Prompts, answers: Texts) -> list[Reward | Failure]:
        """See ``RewardModel``. The head's own output: the server is asked to put no sigmoid behind
        it.

        Raises:
            CarbError: the head has several outputs, or see ``Endpoint.ask``.
        """
        return await gather(
            [
                partial(
                    self._endpoint.ask, f"/{self._api}", self._body(prompt, answer), self._reward
                )
                for prompt, answer in zip(prompts, answers, strict=True)
            ]
        )

    def _body(self, prompt: Prompt, answer: str) -> dict[str, Any]:
        asked: dict[str, Any]
        if self._api == "score":
            question = guarded_unseen(plain_text(prompt))
            asked = {"text_1": question, "text_2": guarded_unseen(answer)}
        else:
            turns = chat([*prompt.messages, message("assistant", answer)], guarded_unseen)
            asked = {"messages": turns, "add_generation_prompt": False, **self._variables}
        raw = {"use_activation": False, "activation": False}  # the name differs between versions
        return {"model": self.model, **asked, **raw, **self._extra}

    def _reward(self, answer: Json, usage: Usage) -> Reward:
        (row,) = answer["data"]
        outputs = row["probs"] if self._api == "classify" else [row["score"]]
        _, _, number = str(row.get("label")).partition("LABEL_")
        classes = int(number) + 1 if number.isdecimal() else 1
        count = max(len(outputs), row.get("num_classes") or 1, classes)
        if count > 1:
            raise CarbError(
                f"'{self.model}' has {count} outputs, and backend=openai reads one; use backend=hf."
            )
        value = _number(outputs[0])
        self._check_raw(value)
        return Reward(value, usage)

    def _check_raw(self, value: float) -> None:
        """Stop where all scores so far can only have come out of a sigmoid, softmax or tanh.

        Raises:
            CarbError: they lie in [0, 1] or in [-1, 1].
        """
        if self._bounded or len(self._values) == max(_BOUNDED.values()):
            return
        self._values.append(value)
        number = len(self._values)
        ones = number >= _ALL_ONES and set(self._values) == {1.0}
        for lowest, enough in _BOUNDED.items():
            within = all(lowest <= known <= 1.0 for known in self._values)
            if not ones and not (within and number >= enough):
                continue
            raise CarbError(
                f"All of {number} scores of '{self.model}' lie in [{lowest:g}, 1]: the server "
                "seems to put a sigmoid, softmax or tanh behind the head. Ask for raw outputs "
                "with an option of the server (vLLM: --pooler-config), or write "
                "bounded=true if the head itself gives such numbers."
            )


LANGUAGE_MODEL = BackendKind(ServerLanguageOptions, ServerLanguageModel)
REWARD_MODEL = BackendKind(ServerRewardOptions, ServerRewardModel)
