"""Policies: what answers the prompts of a task, N times each."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

from pydantic import Field, JsonValue

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
    Writing,
    read_backend_options,
)
from carb_scorers.scorer import Writable
from carb_scorers.spec import OPERATIONAL, parse_spec

__all__ = ["Policy", "PolicyPrompt", "PolicySpec", "Sample", "open_policy", "policy_prompts", "tidy"]

_CUE = "\n\nAnswer:"
_BEFORE_ANSWER = re.compile(r"^\s*Answer:\s*")


class PolicySpec(Frozen):
    """Everything that makes a policy's samples what they are."""

    name: str
    kind: str
    model: str | None = None
    revision: str | None = None
    parameters: dict[str, JsonValue] = Field(default={})


@dataclass(frozen=True, slots=True)
class PolicyPrompt:
    """A task's prompt as a policy gets it."""

    id: str
    text: str
    """The question alone, without instruction and examples."""
    prompt: Prompt
    one_line: bool


class Sample(Frozen):
    """One answer, or why there is none."""

    prompt_id: str
    index: int = Field(ge=0)
    text: Writable = ""
    finished: bool = True
    """``False`` where the length limit cut it off."""
    error: str | None = None


class Policy(Protocol):
    """Something that answers."""

    spec: PolicySpec

    async def sample(self, prompts: Sequence[PolicyPrompt], indices: Sequence[int]) -> Sequence[Sample]:
        """An answer to each prompt for each index, in any order.

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


def policy_prompts(task: Task, *, shots: bool = True) -> list[PolicyPrompt]:
    """A task's prompts as chats: instruction and examples as earlier turns, then the question.

    For a model without a chat template the turns become paragraphs "Question: …" and "Answer: …".
    """
    return [_policy_prompt(task, prompt, shots) for prompt in task.prompts]


def _policy_prompt(task: Task, prompt: TaskPrompt, shots: bool) -> PolicyPrompt:
    turns: list[Turn] = []
    for question, answer in task.shots if shots else ():
        turns.append({"role": "user", "content": f"Question: {question}"})
        turns.append({"role": "assistant", "content": f"Answer: {answer}"})
    turns.append({"role": "user", "content": f"Question: {prompt.text}"})
    if task.instruction:
        turns[0] = {"role": "user", "content": f"{task.instruction}\n\n{turns[0]['content']}"}
    return PolicyPrompt(prompt.id, prompt.text, Prompt(tuple(turns), cue=_CUE), task.one_line)


def tidy(text: str, *, one_line: bool) -> str:
    """An answer without thinking, the word that led to it and white space around it; its first line where asked."""
    text = _BEFORE_ANSWER.sub("", without_thinking(text)).strip()
    return text.splitlines()[0].strip() if one_line and text else text


class BackendPolicy:
    """A language model behind any backend."""

    def __init__(self, spec: PolicySpec, model: LanguageModel, options: PolicyOptions) -> None:
        self.spec = spec
        self._model = model
        self._options = options

    async def sample(self, prompts: Sequence[PolicyPrompt], indices: Sequence[int]) -> list[Sample]:
        """See ``Policy``. An answer that stopped before its first word is asked again, to its own end."""
        found: list[Sample] = []
        for one_line in (True, False):
            asked = [(prompt, index) for prompt in prompts if prompt.one_line == one_line for index in indices]
            answers = await self._write(asked, stop=("\n",) if one_line else ())
            mute = [i for i, one in enumerate(answers) if one_line and isinstance(one, Generation) and not tidied(one)]
            for place, again in zip(mute, await self._write([asked[i] for i in mute]), strict=True):
                answers[place] = again
            found += [_sample(*pair, one) for pair, one in zip(asked, answers, strict=True)]
        return found

    async def _write(
        self, asked: Sequence[tuple[PolicyPrompt, int]], stop: tuple[str, ...] = ()
    ) -> list[Generation | Failure]:
        if not asked:
            return []
        options = self._options
        seeds = tuple(seed_of(options.sampling_seed, index) for _, index in asked)
        writing = Writing(options.max_new_tokens, options.temperature, seeds, stop)
        return list(await self._model.generate([prompt.prompt for prompt, _ in asked], writing))

    async def aclose(self) -> None:
        """Close the backend."""
        await self._model.aclose()


def tidied(answer: Generation) -> str:
    """The one line that an answer holds."""
    return tidy(answer.text, one_line=True)


def _sample(prompt: PolicyPrompt, index: int, answer: Generation | Failure) -> Sample:
    if isinstance(answer, Failure):
        error = f"{answer.error.kind}: {answer.error.message}"[:500]
        return Sample(prompt_id=prompt.id, index=index, error=error, finished=False)
    return Sample(
        prompt_id=prompt.id,
        index=index,
        text=tidy(answer.text, one_line=prompt.one_line),
        finished=answer.finished or (prompt.one_line and is_over(answer.text)),
    )


def is_over(text: str) -> bool:
    """Whether an answer of one line is all there; a line break before its first word does not end it."""
    return "\n" in _BEFORE_ANSWER.sub("", text).lstrip()


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
            key = row["prompt_id"] if "prompt_id" in row else _key(row["prompt"])
            texts = row["responses"] if "responses" in row else [row["text"]]
            if not isinstance(key, str) or not all(isinstance(text, str) for text in texts):
                raise TypeError("prompt_id and responses must be text")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CarbError(
                f"{where}: not a line of responses ({error}); it needs prompt_id (or prompt) and text or responses."
            ) from None
        self._answers.setdefault(key, []).extend(texts)

    async def sample(self, prompts: Sequence[PolicyPrompt], indices: Sequence[int]) -> list[Sample]:
        """See ``Policy``."""
        return [self._one(prompt, index) for prompt in prompts for index in indices]

    def _one(self, prompt: PolicyPrompt, index: int) -> Sample:
        answers = self._answers.get(prompt.id) or self._answers.get(_key(prompt.text)) or []
        if index >= len(answers):
            error = f"the file has {len(answers)} responses to this prompt"
            return Sample(prompt_id=prompt.id, index=index, error=error, finished=False)
        return Sample(prompt_id=prompt.id, index=index, text=tidy(answers[index], one_line=prompt.one_line))

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
        return FilePolicy(parsed.name, Path(parsed.target).expanduser())
    if parsed.kind not in LANGUAGE_MODELS:
        known = ", ".join([*LANGUAGE_MODELS, "file"])
        raise CarbError(f"Unknown policy kind '{parsed.kind}'. Known kinds: {known}.")
    return _open_backend(parsed.name, parsed.kind, parsed.target, parsed.options)


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
