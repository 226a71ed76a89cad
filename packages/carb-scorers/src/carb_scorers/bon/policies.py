"""Policies: what answers the prompts of a task, N times each."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from carb_data import CarbError
from carb_data.models import Frozen
from carb_data.tasks import Task, TaskPrompt
from carb_scorers.judge.verdict import without_thinking
from carb_scorers.models.protocol import (
    LANGUAGE_MODELS,
    Failure,
    Generation,
    LanguageModel,
    Prompt,
    Turn,
    Turns,
    Writing,
    read_backend_options,
)
from carb_scorers.scorer import Writable
from carb_scorers.spec import OPERATIONAL, parse_spec

__all__ = ["BackendPolicy", "PolicyOptions", "PolicyPrompt", "PolicySpec", "policy_prompts", "tidy"]

_CUE = "\n\nAnswer:"
_LEAD = re.compile(r"^\s*Answer:\s*")


class PolicySpec(Frozen):
    """Everything that makes a policy's samples what they are."""

    name: str
    kind: str
    model: str | None = None
    revision: str | None = None
    parameters: dict[str, JsonValue] = Field(default={})


class PolicyPrompt(BaseModel):
    """A task's prompt as a policy gets it."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    id: str
    text: str
    """The question alone, without instruction and examples."""
    prompt: Any
    """A ``models.protocol.Prompt``."""
    one_line: bool


class Sampled(Frozen):
    """One answer, or why there is none."""

    text: Writable = ""
    finished: bool = True
    """``False`` where the length limit cut it off."""
    cut_tokens: int = 0
    """Tokens that ``truncate=middle`` took out of the question."""
    error: str | None = None


class Policy(Protocol):
    """Something that answers."""

    spec: PolicySpec

    async def sample(self, prompts: Sequence[PolicyPrompt], indices: Sequence[int]) -> Sequence[Sequence[Sampled]]:
        """Answers to each prompt, one for each index.

        The answer of an index depends on the policy, the prompt and the index alone, so that a pool of 16 extends
        one of 8. A failed answer has an ``error``; it is never an exception.
        """
        ...

    async def aclose(self) -> None:
        """Give back memory and connections."""
        ...


class PolicyOptions(Frozen):
    """Options that every sampling policy takes."""

    backend: str = "hf"
    temperature: Annotated[float, Field(ge=0)] = 1.0
    max_new_tokens: Annotated[int, Field(ge=1)] = 256
    sampling_seed: int = 0
    shots: bool = True
    """Show the task's examples before the question."""


def policy_prompts(task: Task, *, shots: bool = True) -> list[PolicyPrompt]:
    """A task's prompts as chats: instruction and examples as earlier turns, then the question.

    For a model without a chat template the turns become paragraphs "Question: …" and "Answer: …".
    """
    return [_policy_prompt(task, prompt, shots) for prompt in task.prompts]


def _policy_prompt(task: Task, prompt: TaskPrompt, shots: bool) -> PolicyPrompt:
    def messages(text: str) -> Turns:
        turns: list[Turn] = []
        for question, answer in task.shots if shots else ():
            turns.append({"role": "user", "content": f"Question: {question}"})
            turns.append({"role": "assistant", "content": f"Answer: {answer}"})
        turns.append({"role": "user", "content": f"Question: {text}"})
        if task.instruction:
            turns[0] = {"role": "user", "content": f"{task.instruction}\n\n{turns[0]['content']}"}
        return tuple(turns)

    asked = Prompt(messages(prompt.text), cue=_CUE, question=prompt.text, with_question=messages)
    return PolicyPrompt(id=prompt.id, text=prompt.text, prompt=asked, one_line=task.one_line)


def tidy(text: str, *, one_line: bool) -> str:
    """An answer without thinking, the word that led to it and white space around it; its first line where asked."""
    text = _LEAD.sub("", without_thinking(text)).strip()
    return text.splitlines()[0].strip() if one_line and text else text


def is_over(text: str) -> bool:
    """Whether an answer of one line is all there; a line break before its first word does not end it."""
    return "\n" in _LEAD.sub("", text).lstrip()


class BackendPolicy:
    """A language model behind any backend."""

    def __init__(self, spec: PolicySpec, model: LanguageModel, options: PolicyOptions) -> None:
        self.spec = spec
        self.window = 8 if spec.kind == "hf" else 64
        """Prompts in one call: vLLM and servers queue by themselves, and what is written here is kept sooner."""
        self._model = model
        self._options = options

    async def sample(self, prompts: Sequence[PolicyPrompt], indices: Sequence[int]) -> list[list[Sampled]]:
        found: dict[tuple[int, int], Sampled] = {}
        for one_line in (True, False):
            places = [(n, i) for n, prompt in enumerate(prompts) if prompt.one_line == one_line for i in indices]
            answers = await self._ask([(prompts[n].prompt, i) for n, i in places], one_line)
            found.update((place, _sampled(answer, one_line)) for place, answer in zip(places, answers, strict=True))
        return [[found[n, index] for index in indices] for n in range(len(prompts))]

    async def _ask(self, asked: Sequence[tuple[Prompt, int]], one_line: bool) -> list[Generation | Failure]:
        """An answer to each prompt. One that stopped before its first word is asked again, to its own end."""
        answers = await self._generate(asked, stop=("\n",) if one_line else ())
        mute = [place for place, answer in enumerate(answers) if one_line and _is_mute(answer)]
        again = await self._generate([asked[place] for place in mute])
        for place, answer in zip(mute, again, strict=True):
            answers[place] = answer
        return answers

    async def _generate(
        self, asked: Sequence[tuple[Prompt, int]], stop: Sequence[str] = ()
    ) -> list[Generation | Failure]:
        if not asked:
            return []
        options = self._options
        seeds = tuple(seed_of(options.sampling_seed, index) for _, index in asked)
        writing = Writing(options.max_new_tokens, options.temperature, seeds, tuple(stop))
        return list(await self._model.generate([prompt for prompt, _ in asked], writing))

    async def aclose(self) -> None:
        await self._model.aclose()


def _is_mute(answer: Generation | Failure) -> bool:
    return isinstance(answer, Generation) and not tidy(answer.text, one_line=True)


def _sampled(answer: Generation | Failure, one_line: bool) -> Sampled:
    if isinstance(answer, Failure):
        return Sampled(error=f"{answer.error.kind}: {answer.error.message}"[:500], finished=False)
    return Sampled(
        text=tidy(answer.text, one_line=one_line),
        finished=answer.finished or (one_line and is_over(answer.text)),
        cut_tokens=answer.usage.cut_tokens,
    )


def seed_of(seed: int, index: int) -> int:
    """A seed in [0, 2**31) for the samples of one index."""
    digest = hashlib.sha256(json.dumps([seed, index, ""]).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


class FilePolicy:
    """Answers that were sampled elsewhere: a JSON Lines file with ``prompt_id`` and ``text`` or ``responses``.

    ``prompt_id`` may be left out where ``prompt`` gives the question's text.
    """

    def __init__(self, name: str, path: Path) -> None:
        self._answers: dict[str, list[str]] = {}
        try:
            content = path.read_bytes()
        except OSError as error:
            raise CarbError(f"Cannot read the responses in {path}: {error.strerror}.") from None
        for number, line in enumerate(content.splitlines(), 1):
            if line.strip():
                self._read(line, f"{path}:{number}")
        digest = hashlib.sha256(content).hexdigest()
        self.spec = PolicySpec(name=name, kind="file", model=path.name, revision=f"sha256:{digest}")

    def _read(self, line: bytes, where: str) -> None:
        try:
            row = json.loads(line)
            if "format" in row and "policy" in row:
                return  # the head of a pool that carb wrote
            key = row["prompt_id"] if "prompt_id" in row else _key(row["prompt"])
            texts = row["responses"] if "responses" in row else [row["text"]]
            if not isinstance(key, str) or not all(isinstance(text, str) for text in texts):
                raise TypeError("prompt_id and responses must be text")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CarbError(
                f"{where}: not a line of responses ({error}); it needs prompt_id (or prompt) and text or responses."
            ) from None
        self._answers.setdefault(key, []).extend(texts)

    async def sample(self, prompts: Sequence[PolicyPrompt], indices: Sequence[int]) -> list[list[Sampled]]:
        return [[self._one(prompt, index) for index in indices] for prompt in prompts]

    def _one(self, prompt: PolicyPrompt, index: int) -> Sampled:
        answers = self._answers.get(prompt.id) or self._answers.get(_key(prompt.text)) or []
        if index >= len(answers):
            return Sampled(error=f"the file has {len(answers)} responses to this prompt", finished=False)
        return Sampled(text=tidy(answers[index], one_line=prompt.one_line))

    async def aclose(self) -> None:
        """Nothing to give back."""


def _key(text: str) -> str:
    return "text:" + " ".join(text.split())


def open_policy(spec: str) -> Policy:
    """Open ``hf:MODEL?temperature=0.8&max_new_tokens=16``, ``vllm:MODEL``, ``openai:MODEL?url=…`` or ``file:PATH``.

    Raises:
        CarbError: unknown kind, option or model, or a missing extra.
    """
    parsed = parse_spec(spec)
    if parsed.kind == "file":
        if parsed.options:
            raise CarbError(f"Policy '{spec}': a file takes no options.")
        return FilePolicy(str(parsed), Path(parsed.target).expanduser())
    if parsed.kind not in LANGUAGE_MODELS:
        known = ", ".join(dict.fromkeys([*LANGUAGE_MODELS, "file"]))
        raise CarbError(f"Unknown policy kind '{parsed.kind}'. Known kinds: {known}.")
    return _open_backend(str(parsed), parsed.kind, parsed.target, parsed.options)


def _open_backend(name: str, backend: str, target: str, options: Mapping[str, str]) -> BackendPolicy:
    read, kind = read_backend_options(PolicyOptions, LANGUAGE_MODELS, name, {**options, "backend": backend})
    model: LanguageModel = kind.open(target, read)
    spec = PolicySpec(
        name=name,
        kind=backend,
        model=target,
        revision=model.revision,
        parameters={k: v for k, v in read.model_dump(mode="json").items() if k not in OPERATIONAL},
    )
    return BackendPolicy(spec, model, read)
