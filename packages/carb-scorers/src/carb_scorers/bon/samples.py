"""Samples: drawn once from a language model and kept on disk, or read from a file of responses; graded by a task."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, JsonValue

from carb_data import CarbError, DataError, Problem
from carb_data.facts import read_lines
from carb_data.journal import Store
from carb_data.models import Frozen
from carb_data.tasks import Task, TaskPrompt
from carb_scorers.evaluation import windows
from carb_scorers.generate.writers import derived_seed, open_writer, sha256
from carb_scorers.judge.verdict import without_thinking
from carb_scorers.models.protocol import Failure, Generation, LanguageModel, Prompt, Turn, Writing
from carb_scorers.scorer import Writable
from carb_scorers.spec import OPERATIONAL, parse_spec

__all__ = ["Grades", "Sample", "Samples", "grade", "sample"]

SAMPLED_AT_ONCE = 128
"""Most samples drawn between two writes."""
OnSamples = Callable[[int, int], None]
"""``(samples there, samples in all)``."""
_BEFORE_ANSWER = re.compile(r"^\s*Answer:\s*")


class PolicyOptions(Frozen):
    """Options of a model that samples, beside its backend's."""

    backend: str = "hf"
    temperature: Annotated[float, Field(ge=0)] = 1.0
    max_new_tokens: Annotated[int, Field(ge=1)] = 256
    sampling_seed: int = 0


class Sample(Frozen):
    """One answer, or why there is none."""

    prompt_id: str
    index: int = Field(ge=0)
    text: Writable = ""
    error: str | None = None


Samples = dict[str, tuple[Sample, ...]]
"""Prompt id to its samples by index, 0 to n-1; in the order of the task."""
Grades = dict[str, tuple[float | None, ...]]
"""Prompt id to a grade for each sample."""


class PoolHead(Frozen):
    """The first line of a file of samples: what they belong to."""

    format: Literal["carb.samples/3"] = "carb.samples/3"
    model: str
    revision: str | None
    options: dict[str, JsonValue]
    prompts: str
    """sha256 of all prompts as the model got them."""


async def sample(policy: str, task: Task, n: int, path: Path, *, on_samples: OnSamples | None = None) -> Samples:
    """n answers to every prompt of a task.

    A model draws them into a file. The same call goes on after any interruption, a file with fewer samples is extended,
    and nothing is drawn twice but what failed: an answer depends on the model, the prompt and its index alone. A failed
    one has an ``error``; it is never an exception.

    Args:
        policy: ``hf:MODEL?temperature=0.8&max_new_tokens=16``, ``vllm:MODEL``, ``openai:MODEL?url=…``, or
            ``file:PATH`` for responses that were sampled elsewhere.
        task: the task whose prompts are asked.
        n: the number of samples for each prompt.
        path: the JSON Lines file of a model's samples; it is made where it does not exist.
        on_samples: the function that is called after each write.

    Raises:
        CarbError: an unknown kind, option or model, or a missing extra; or the file holds samples of another policy
            or other prompts, is no such file, or cannot be read or written.
    """
    if n < 1:
        raise CarbError(f"Best-of-n needs at least one sample for each prompt; got {n}.")
    parsed = parse_spec(policy)
    if parsed.kind == "file":
        if parsed.options:
            raise CarbError(f"Policy '{policy}': a file takes no options.")
        return read_responses(parsed.target, task, n)
    model, options = open_writer(policy, PolicyOptions)
    try:
        prompts = {prompt.id: chat(task, prompt) for prompt in task.prompts}
        known = {key: value for key, value in options.model_dump(mode="json").items() if key not in OPERATIONAL}
        asked = sha256([[key, list(p.messages), p.cue, task.one_line] for key, p in prompts.items()])
        head = PoolHead(model=parsed.target, revision=model.revision, options=known, prompts=asked)
        told = on_samples or (lambda *_: None)
        with Store(path, head, Sample, lambda sample: (sample.prompt_id, sample.index)) as store:
            have = {key for key, known in store.values.items() if known.error is None}
            waiting = [(key, i) for key in prompts for i in range(n) if (key, i) not in have]
            left, total = len(waiting), n * len(prompts)
            told(total - left, total)
            for part in windows(waiting, largest=SAMPLED_AT_ONCE):
                store.append(await _draw(model, options, prompts, part, one_line=task.one_line))
                left -= len(part)
                told(total - left, total)
            return {key: tuple(store.values[key, i] for i in range(n)) for key in prompts}
    finally:
        await model.aclose()


def chat(task: Task, prompt: TaskPrompt) -> Prompt:
    """A task's prompt as a chat: instruction and examples as earlier turns, then the question.

    For a model without a chat template the turns become paragraphs "Question: …" and "Answer: …".
    """
    turns: list[Turn] = []
    for question, answer in task.shots:
        turns.append({"role": "user", "content": f"Question: {question}"})
        turns.append({"role": "assistant", "content": f"Answer: {answer}"})
    turns.append({"role": "user", "content": f"Question: {prompt.text}"})
    if task.instruction:
        turns[0] = {"role": "user", "content": f"{task.instruction}\n\n{turns[0]['content']}"}
    return Prompt(tuple(turns), cue="\n\nAnswer:")


async def _draw(
    model: LanguageModel,
    options: PolicyOptions,
    prompts: dict[str, Prompt],
    places: Sequence[tuple[str, int]],
    *,
    one_line: bool,
) -> list[Sample]:
    """The samples of some places, each a prompt's id and an index."""

    async def write(places: Sequence[tuple[str, int]], *stop: str) -> dict[tuple[str, int], Generation | Failure]:
        seeds = tuple(derived_seed(options.sampling_seed, index) for _, index in places)
        writing = Writing(options.max_new_tokens, options.temperature, seeds, stop)
        written = await model.generate([prompts[key] for key, _ in places], writing) if places else []
        return dict(zip(places, written, strict=True))

    def is_mute(answer: Generation | Failure) -> bool:
        return isinstance(answer, Generation) and not tidy(answer.text, one_line=one_line)

    answers = await write(places, *(["\n"] if one_line else []))
    if one_line:  # what stopped before its first word is asked again, to its own end
        answers |= await write([place for place in places if is_mute(answers[place])])
    samples = []
    for (key, index), answer in answers.items():
        if isinstance(answer, Failure):
            error = f"{answer.error.kind}: {answer.error.message}"[:500]
            samples.append(Sample(prompt_id=key, index=index, error=error))
        else:
            samples.append(Sample(prompt_id=key, index=index, text=tidy(answer.text, one_line=one_line)))
    return samples


def tidy(text: str, *, one_line: bool) -> str:
    """An answer without thinking, the word that led to it and white space around it; its first line where asked."""
    text = _BEFORE_ANSWER.sub("", without_thinking(text)).strip()
    return text.splitlines()[0].strip() if one_line and text else text


class _Responses(BaseModel):
    """A line of a file of responses; other fields are not read."""

    prompt_id: str
    responses: tuple[str, ...] = ()
    text: str | None = None


def read_responses(file: str, task: Task, n: int) -> Samples:
    """The first n responses to each prompt: JSON Lines with ``prompt_id`` and ``text`` or ``responses``.

    Raises:
        CarbError: it cannot be read, or a line is something else; all are told.
    """
    path = Path(file).expanduser()
    problems: list[Problem] = []
    answers: dict[str, list[str]] = {prompt.id: [] for prompt in task.prompts}
    try:
        for line in read_lines([path], _Responses, problems):
            row = line.content
            answers.setdefault(row.prompt_id, []).extend(row.responses if row.text is None else [row.text])
    except OSError as error:
        raise CarbError(f"Cannot read the responses in {path}: {error.strerror}.") from None
    if problems:
        raise DataError(problems)

    def sample_of(key: str, index: int) -> Sample:
        if index < len(answers[key]):
            return Sample(prompt_id=key, index=index, text=tidy(answers[key][index], one_line=task.one_line))
        error = f"the file has {len(answers[key])} responses to this prompt"
        return Sample(prompt_id=key, index=index, error=error)

    return {prompt.id: tuple(sample_of(prompt.id, index) for index in range(n)) for prompt in task.prompts}


def grade(samples: Samples, task: Task) -> Grades:
    """The task's grade of every sample; each distinct text is graded once. An empty answer is worth 0."""
    grades: Grades = {}
    for key, row in samples.items():
        worth = {text: task.grade(key, text) if text.strip() else 0.0 for text in {sample.text for sample in row}}
        grades[key] = tuple(worth[sample.text] for sample in row)
    return grades
