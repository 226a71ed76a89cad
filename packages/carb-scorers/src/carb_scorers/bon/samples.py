"""Pools of samples: drawn once, kept on disk, shared by all scorers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from carb_data import CarbError
from carb_data.journal import Journal, whole_lines
from carb_data.tasks import Task
from carb_data.validation import first_defect
from carb_scorers.bon.policies import Policy, PolicySpec, policy_prompts
from carb_scorers.scorer import Writable

__all__ = ["OtherPoolError", "PoolHead", "Sample"]

WINDOW = 8
"""Prompts sampled between two writes, unless the policy has a ``window`` of its own."""

OnSamples = Callable[[int, int], None]
"""``(prompts done, prompts in all)``."""


class OtherPoolError(CarbError):
    """A file holds the samples of another policy or of other prompts."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)


class Sample(_Frozen):
    """One line of a pool: one answer, or why there is none."""

    prompt_id: str
    index: int = Field(ge=0)
    text: Writable = ""
    finished: bool = True
    cut_tokens: int = 0
    error: str | None = None


class PoolHead(_Frozen):
    """The first line of a pool: what the samples belong to."""

    format: Literal["carb.samples/1"] = "carb.samples/1"
    policy: PolicySpec
    task: str
    """Spec of the task."""
    prompts: str
    """sha256 of all prompts as the policy got them."""


class SamplePool(_Frozen):
    """The samples of one policy for one task."""

    head: PoolHead
    samples: dict[str, tuple[Sample, ...]]
    """Prompt id to its samples by index, 0 to N−1; in the order of the task."""

    @property
    def fingerprint(self) -> str:
        """sha256 of what a scorer is shown: prompt ids and texts, whatever order they were drawn in."""
        content = [[key, [sample.text for sample in row]] for key, row in sorted(self.samples.items())]
        return hashlib.sha256(json.dumps(content, ensure_ascii=True).encode()).hexdigest()

    @property
    def errors(self) -> int:
        """Samples that failed."""
        return sum(sample.error is not None for row in self.samples.values() for sample in row)

    def first(self, n: int) -> SamplePool:
        """The pool of the first n samples of each prompt."""
        return self.model_copy(update={"samples": {key: row[:n] for key, row in self.samples.items()}})


async def collect(
    policy: Policy,
    task: Task,
    n: int,
    path: Path,
    *,
    shots: bool = True,
    retry_errors: bool = False,
    on_samples: OnSamples | None = None,
) -> SamplePool:
    """Draw n samples for every prompt of a task into a file; the same call goes on after any interruption.

    A file with fewer samples is extended, one with more is read. What is there is never drawn again.

    Args:
        policy: the policy that answers the prompts.
        task: the task whose prompts are asked.
        n: the number of samples for each prompt.
        path: the JSON Lines file of the samples; it is made where it does not exist.
        shots: whether to show the task's examples, unless the policy was opened with ``shots=false``.
        retry_errors: whether to ask again for samples that failed.
        on_samples: the function that is called after each window.

    Raises:
        OtherPoolError: the file holds samples of another policy or other prompts.
        CarbError: the file is no pool, or cannot be written.
    """
    if n < 1:
        raise CarbError(f"A pool needs at least one sample for each prompt; got {n}.")
    wanted_shots = shots and policy.spec.parameters.get("shots", True) is not False
    prompts = policy_prompts(task, shots=wanted_shots)
    described = [[p.id, list(p.prompt.messages), p.prompt.cue, p.one_line] for p in prompts]
    fingerprint = hashlib.sha256(json.dumps(described, ensure_ascii=True).encode()).hexdigest()
    head = PoolHead(policy=policy.spec, task=task.name, prompts=fingerprint)
    with Journal(path) as journal:
        found = _open(journal, head)
        have = {key: s for key, s in found.items() if s.error is None or not retry_errors}
        missing = [(p, [i for i in range(n) if (p.id, i) not in have]) for p in prompts]
        done = sum(not wanted for _, wanted in missing)
        if on_samples is not None:
            on_samples(done, len(prompts))
        queue = [(prompt, wanted) for prompt, wanted in missing if wanted]
        size: int = getattr(policy, "window", WINDOW)
        while queue:
            wanted = queue[0][1]
            window = [p for p, w in queue[:size] if w == wanted]  # prompts that lack the same indices
            answers = await policy.sample(window, wanted)
            rows = [
                Sample(prompt_id=prompt.id, index=index, **answer.model_dump())
                for prompt, row in zip(window, answers, strict=True)
                for index, answer in zip(wanted, row, strict=True)
            ]
            taken = {p.id for p in window}
            queue = [entry for entry in queue if entry[0].id not in taken]
            journal.append([row.model_dump_json().encode() for row in rows])
            have.update(((row.prompt_id, row.index), row) for row in rows)
            done += len(window)
            if on_samples is not None:
                on_samples(done, len(prompts))
    return SamplePool(head=head, samples={p.id: tuple(have[p.id, i] for i in range(n)) for p in prompts})


def read_pool(path: Path) -> SamplePool:
    """Read a pool that ``collect`` wrote.

    Raises:
        CarbError: there is none.
    """
    lines = whole_lines(path)
    if not lines:
        raise CarbError(f"{path} holds no samples. Draw some with `carb bon`.")
    try:
        head = PoolHead.model_validate_json(lines[0])
    except ValidationError:
        raise CarbError(f"{path} is not a pool of samples that carb wrote.") from None
    found = _samples(path, lines[1:])
    by_prompt: dict[str, dict[int, Sample]] = {}
    for (prompt_id, index), sample in found.items():
        by_prompt.setdefault(prompt_id, {})[index] = sample
    return SamplePool(head=head, samples={key: tuple(row[i] for i in sorted(row)) for key, row in by_prompt.items()})


def _open(journal: Journal, head: PoolHead) -> dict[tuple[str, int], Sample]:
    path, lines = journal.path, journal.lines
    if not lines:
        journal.append([head.model_dump_json().encode()])
        return {}
    try:
        there = PoolHead.model_validate_json(lines[0])
    except ValidationError:
        raise CarbError(f"{path} is not a pool of samples that carb wrote; choose another file.") from None
    pairs = {"policy": (_same_as(there.policy), _same_as(head.policy)), "prompts": (there.prompts, head.prompts)}
    changed = [name for name, (old, new) in pairs.items() if old != new]
    if changed:
        named = " and ".join({"policy": "another policy", "prompts": "other prompts"}[name] for name in changed)
        raise OtherPoolError(f"{path} holds samples of {named}; choose another file, or remove it.")
    return _samples(path, lines[1:])


def _same_as(policy: PolicySpec) -> dict[str, object]:
    """What must be equal for samples to be of one policy: not its name or folder, where the weights are known."""
    known = policy.model_dump(exclude={"name"})
    return {key: value for key, value in known.items() if key != "model" or policy.revision is None}


def _samples(path: Path, lines: Sequence[bytes]) -> dict[tuple[str, int], Sample]:
    found = {}
    for number, line in enumerate(lines, 2):
        try:
            sample = Sample.model_validate_json(line)
        except ValidationError as error:
            raise CarbError(f"{path}:{number} is not a sample ({first_defect(error)}). Remove the line.") from None
        found[sample.prompt_id, sample.index] = sample
    return found
