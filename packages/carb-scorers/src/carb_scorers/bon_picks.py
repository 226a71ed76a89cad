"""Best-of-n: a policy samples, a scorer picks, and the pick's worth as a curve over n.

The curve is exact from one pool of N samples, over all subsets, without drawing any.
Order the samples by score. A sample is the pick of a random subset of n exactly when the subset
holds it and none above it. Take a group of g equal scores with b samples above it. Of the C(N, n)
subsets, C(N−b, n) hold no sample above it, and C(N−b−g, n) none of the group either. The group wins
in the difference. Each of its members is picked in an equal share of them. The mean over subsets is
an unbiased estimate of the worth of the pick of n fresh samples. Without ties it is the weighting
of Nakano et al. 2021 (WebGPT, arXiv:2112.09332, appendix I), and for the best of n the pass@k
estimator of Chen et al. 2021 (arXiv:2107.03374, section 2.1).
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import aclosing
from math import comb, inf, isnan
from pathlib import Path
from typing import Literal

import polars as pl
from pydantic import JsonValue, NonNegativeInt, PositiveInt

from carb_data import (
    CarbError,
    DataError,
    Frozen,
    Message,
    Problem,
    Store,
    home_path,
    read_lines,
    rounded,
)
from carb_data.tasks import Task, TaskPrompt
from carb_scorers.evaluation import OnProgress, windows
from carb_scorers.generate.writers import derived_seed, open_writer, sha256
from carb_scorers.models.marks import answer_in
from carb_scorers.models.protocol import (
    Failure,
    Generation,
    LanguageModel,
    NonNegative,
    Prompt,
    Writing,
    message,
)
from carb_scorers.run.score_journal import ScoreJournal, journal_head, score_missing
from carb_scorers.scorer import Scorer, ScoreRequest, Writable
from carb_scorers.spec import OPERATIONAL, parse_spec
from carb_scorers.texts import request_about

__all__ = ["Grades", "Samples", "Scores", "bon_curve", "grade", "sample", "score_samples"]

SAMPLED_AT_ONCE = 128
"""Most samples drawn between two writes."""
OnSamples = Callable[[int, int], None]
"""``(samples there, samples in all)``."""
_BEFORE_ANSWER = re.compile(r"^\s*Answer:\s*")


class PolicyOptions(Frozen):
    """Options of a model that samples, beside its backend's."""

    backend: str = "hf"
    temperature: NonNegative = 1.0
    max_new_tokens: PositiveInt = 256
    sampling_seed: int = 0


class Sample(Frozen):
    """One answer, or why there is none."""

    prompt_id: str
    index: NonNegativeInt
    text: Writable = ""
    error: str | None = None


Samples = dict[str, tuple[Sample, ...]]
"""Prompt id to its samples by index, 0 to n-1; in the order of the task."""
Grades = dict[str, tuple[float | None, ...]]
"""Prompt id to a grade for each sample."""
Scores = dict[str, tuple[float, ...]]
"""Prompt id to a score for each sample, in their order. Equal texts have equal scores; an empty
answer has minus infinity, since no scorer is shown it. Prompts with an answer whose scoring failed
are missing, since any answer could have been the pick."""


class PoolHead(Frozen):
    """The first line of a file of samples: model, options and prompts."""

    format: Literal["carb.samples/3"] = "carb.samples/3"
    model: str
    revision: str | None
    options: dict[str, JsonValue]
    prompts: str
    """sha256 of all prompts as the model got them."""


async def sample(
    policy: str, task: Task, n: int, path: Path, *, on_samples: OnSamples | None = None
) -> Samples:
    """n answers to every prompt of a task.

    A model draws them into a file. The same call goes on after any interruption and extends a file
    with fewer samples. Only failed samples are drawn again: an answer depends on the model, the
    prompt and its index alone. A failed one has an ``error``; it is never an exception.

    Args:
        policy: ``hf:MODEL?temperature=0.8&max_new_tokens=16``, ``vllm:MODEL``,
            ``openai:MODEL?url=…``, or ``file:PATH`` for responses that were sampled elsewhere.
        task: the task whose prompts are asked.
        n: the number of samples for each prompt.
        path: the JSON Lines file of a model's samples; it is made where it does not exist.
        on_samples: the function that is called after each write.

    Raises:
        CarbError: an unknown kind, option or model, or a missing extra. Or the file holds samples
            of another policy or other prompts, or cannot be read or written.
    """
    if n < 1:
        raise CarbError(f"Best-of-n needs at least one sample for each prompt; got {n}.")
    parsed = parse_spec(policy)
    if parsed.kind == "file":
        if parsed.options:
            raise CarbError(f"Policy '{policy}': a file takes no options.")
        return read_responses(parsed.target, task, n)
    prompts = {prompt.id: chat(task, prompt) for prompt in task.prompts}
    wanted = [(key, index) for key in prompts for index in range(n)]
    told = on_samples or (lambda *_: None)
    model, options = open_writer(policy, PolicyOptions)
    async with aclosing(model):
        head = PoolHead(
            model=parsed.target,
            revision=model.revision,
            options=options.model_dump(mode="json", exclude={*OPERATIONAL.split()}),
            prompts=_digest(prompts, task),
        )
        with Store(path, head, Sample, lambda sample: (sample.prompt_id, sample.index)) as store:
            have = {key for key, known in store.values.items() if known.error is None}
            waiting = [one for one in wanted if one not in have]
            done = len(wanted) - len(waiting)
            told(done, len(wanted))
            for part in windows(waiting, largest=SAMPLED_AT_ONCE):
                drawn = await _draw(model, options, prompts, part, one_line=task.one_line)
                store.append(drawn)
                done += len(part)
                told(done, len(wanted))
            return {key: tuple(store.values[key, i] for i in range(n)) for key in prompts}


def _digest(prompts: dict[str, Prompt], task: Task) -> str:
    asked = []
    for key, prompt in prompts.items():
        turns = [turn.model_dump() for turn in prompt.messages]
        asked.append([key, turns, prompt.cue, task.one_line])
    return sha256(asked)


def chat(task: Task, prompt: TaskPrompt) -> Prompt:
    """A task's prompt as a chat: instruction and examples as earlier turns, then the question.

    For a model without a chat template the turns become paragraphs "Question: …" and "Answer: …".
    """
    turns: list[Message] = []
    for question, answer in task.shots:
        turns.append(message("user", f"Question: {question}"))
        turns.append(message("assistant", f"Answer: {answer}"))
    turns.append(message("user", f"Question: {prompt.text}"))
    if task.instruction:
        turns[0] = message("user", f"{task.instruction}\n\n{turns[0].content}")
    return Prompt(tuple(turns), cue="\n\nAnswer:")


async def _draw(
    model: LanguageModel,
    options: PolicyOptions,
    prompts: dict[str, Prompt],
    wanted: Sequence[tuple[str, int]],
    *,
    one_line: bool,
) -> list[Sample]:
    """The wanted samples, each named by a prompt's id and an index."""

    async def write(
        wanted: Sequence[tuple[str, int]], *stop: str
    ) -> dict[tuple[str, int], Generation | Failure]:
        seeds = tuple(derived_seed(options.sampling_seed, index) for _, index in wanted)
        writing = Writing(options.max_new_tokens, options.temperature, seeds, stop)
        asked = [prompts[key] for key, _ in wanted]
        written = await model.generate(asked, writing)
        return dict(zip(wanted, written, strict=True))

    if one_line:
        answers = await write(wanted, "\n")
        # what stopped before its first word is asked again, to its own end
        mute = [one for one in wanted if _is_mute(answers[one])]
        if mute:
            answers |= await write(mute)
    else:
        answers = await write(wanted)
    samples = []
    for (key, index), answer in answers.items():
        text = ""
        error = None
        if isinstance(answer, Failure):
            error = f"{answer.error.kind}: {answer.error.message}"[:500]
        else:
            text = tidy(answer.text, one_line=one_line)
        samples.append(Sample(prompt_id=key, index=index, text=text, error=error))
    return samples


def _is_mute(answer: Generation | Failure) -> bool:
    return isinstance(answer, Generation) and not tidy(answer.text, one_line=True)


def tidy(text: str, *, one_line: bool) -> str:
    """An answer without thinking, the word that led to it and white space around it; its first line
    where asked."""
    text = _BEFORE_ANSWER.sub("", answer_in(text) or "").strip()
    if one_line and text:
        return text.splitlines()[0].strip()
    return text


class _Responses(Frozen, extra="ignore"):
    """A line of a file of responses; other fields are not read."""

    prompt_id: str
    responses: tuple[str, ...] = ()
    text: str | None = None


def read_responses(file: str, task: Task, n: int) -> Samples:
    """The first n responses to each prompt: JSON Lines with ``prompt_id`` and ``text`` or
    ``responses``.

    Raises:
        CarbError: it cannot be read, or lines have another form; the message names all of them.
    """
    path = home_path(file)
    problems: list[Problem] = []
    answers: dict[str, list[str]] = {prompt.id: [] for prompt in task.prompts}
    try:
        for line in read_lines([path], _Responses, problems):
            row = line.content
            given = row.responses if row.text is None else (row.text,)
            answers.setdefault(row.prompt_id, []).extend(given)
    except OSError as error:
        raise CarbError(f"Cannot read the responses in {path}: {error.strerror}.") from None
    if problems:
        raise DataError(problems)

    samples: Samples = {}
    for prompt in task.prompts:
        texts = answers[prompt.id]
        lacking = f"the file has {len(texts)} responses to this prompt"
        of_prompt = []
        for index in range(n):
            if index < len(texts):
                text = tidy(texts[index], one_line=task.one_line)
                of_prompt.append(Sample(prompt_id=prompt.id, index=index, text=text))
            else:
                of_prompt.append(Sample(prompt_id=prompt.id, index=index, error=lacking))
        samples[prompt.id] = tuple(of_prompt)
    return samples


def grade(samples: Samples, task: Task) -> Grades:
    """The task's grade of every sample; each distinct text is graded once. An empty answer is worth
    0."""
    grades: Grades = {}
    for key, row in samples.items():
        worth: dict[str, float | None] = {}
        for text in {sample.text for sample in row}:
            worth[text] = 0.0
            if text.strip():
                worth[text] = task.grade(key, text)
        grades[key] = tuple(worth[sample.text] for sample in row)
    return grades


async def score_samples(
    samples: Samples,
    task: Task,
    scorer: Scorer,
    folder: Path | None = None,
    *,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> Scores:
    """Score every distinct answer.

    The scorer sees the question and the answers alone: no grade, and no number of times that an
    answer was given. A prompt with one distinct answer leaves nothing to choose; its scorer is not
    asked.

    Args:
        samples: one policy's samples for ``task``.
        task: the task whose prompts they answer.
        scorer: any scorer; left open.
        folder: the folder of the journal, which keeps the results so that a run can resume; null
            keeps nothing.
        seed: seed of the order in which candidates are presented.
        on_progress: the function that is called whenever results have come.

    Raises:
        CarbError: the scorer met a user's mistake, or the journal is of something else.
    """
    requests = _requests(samples, task, seed)
    head = journal_head(scorer.spec, fingerprint="samples", seed=seed)
    with ScoreJournal(folder, head) as journal:
        asked = list(requests.values())
        results = await score_missing(scorer, asked, journal, on_progress=on_progress)
    outcomes = dict(zip(requests, results, strict=True))
    scores: Scores = {}
    for key, row in samples.items():
        result = outcomes.get(key)
        if result is not None and not result.complete:
            continue
        worth = {one.text: 0.0 if one.text.strip() else -inf for one in row}
        if result is not None:
            for candidate in requests[key].candidates:
                worth[candidate.text] = result.scores[candidate.id]
        scores[key] = tuple(worth[one.text] for one in row)
    return scores


def _requests(samples: Samples, task: Task, seed: int) -> dict[str, ScoreRequest]:
    """A request for each prompt with several distinct answers, named by a hash of all of them: new
    answers make it another one."""
    requests = {}
    for prompt in task.prompts:
        given = {one.text for one in samples[prompt.id]}
        texts = sorted(filter(str.strip, given))
        if len(texts) > 1:
            name = f"{prompt.id}~{sha256(prompt.text, texts)[:16]}"
            about = (prompt.text, prompt.culture, prompt.language)
            requests[prompt.id] = request_about(name, *about, texts, seed)
    return requests


def pick_weights(scores: Sequence[float], n: int) -> list[float]:
    """The share of all subsets of n samples in which each sample is the pick.

    Args:
        scores: (N,) the scores; higher is better; equal scores share their win.
        n: number of samples that the pick chooses from, 1 to the pool's size.

    Returns:
        (N,) shares that sum to 1.

    Raises:
        CarbError: n is not within 1 to N, or a score is NaN.
    """
    total = len(scores)
    if any(isnan(score) for score in scores):
        raise CarbError(
            "A score is NaN, so no sample is the best; score the pool again, or leave that "
            "sample out."
        )
    if not 1 <= n <= total:
        raise CarbError(
            f"Best-of-{n} needs a pool of at least {max(n, 1)} samples; this one has {total}."
        )
    levels = rounded(pl.Series(scores, dtype=pl.Float64)).to_list()
    weights = {}
    left = total
    for level, tied in sorted(Counter(levels).items(), reverse=True):
        wins = comb(left, n) - comb(left - tied, n)
        weights[level] = wins / (tied * comb(total, n))
        left -= tied
    return [weights[level] for level in levels]


def expected_pick(scores: Sequence[float], qualities: Sequence[float], n: int) -> float:
    """Mean quality of the pick over all subsets of n of the pool.

    Args:
        scores: (N,) the scores that decide the pick.
        qualities: (N,) the value of each sample.
        n: number of samples that the pick chooses from, 1 to the pool's size.
    """
    weights = pick_weights(scores, n)
    return sum(weight * quality for weight, quality in zip(weights, qualities, strict=True))


class CurvePoint(Frozen):
    """Means over prompts at one n."""

    n: int
    picked: float
    """Quality of the pick; at n = 1 the quality of a random sample."""
    best: float
    """Quality of the best available."""
    regret: float
    """``best − picked``."""


class BonResult(Frozen):
    """Best-of-n of one scorer on one policy's samples for one task."""

    curve: tuple[CurvePoint, ...]
    """Points of the curve at n = 1, 2, 4, … and the pool's size; empty if no prompt counts."""
    picked: dict[str, float]
    """Prompt id to the quality of the pick from the whole pool, of the prompts that count."""
    errors: int
    """Prompts whose scoring failed; they do not count."""
    short: int
    """Prompts with a failed sample; they do not count, so that every n is judged on the same
    prompts."""
    ungraded: int
    """Prompts with an answer that the task could not grade; they do not count."""


Pool = tuple[Sequence[float], Sequence[float]]
"""Scores and qualities of the samples of a prompt."""


def bon_curve(samples: Samples, scores: Scores, grades: Grades) -> BonResult:
    """The curve of one scorer.

    Exact over all subsets of each pool (``expected_pick``). Within a subset, a scorer that compares
    answers keeps its scores of the whole pool.

    Args:
        samples: the samples, the same number for each prompt.
        scores: the scores of the samples, from ``score_samples``.
        grades: the grades of the samples, from ``grade``.
    """
    counted: dict[str, Pool] = {}
    short = ungraded = errors = 0
    for key, row in samples.items():
        quality = [grade for grade in grades[key] if grade is not None]
        if any(sample.error is not None for sample in row):
            short += 1
        elif key not in scores:
            errors += 1
        elif len(quality) < len(row):
            ungraded += 1
        else:
            counted[key] = scores[key], quality
    size = min(map(len, samples.values()), default=0)
    sizes = {2**power for power in range(size.bit_length())} | {size}
    pools = list(counted.values())
    curve = [_point(pools, n) for n in sorted(sizes) if pools]
    return BonResult(
        curve=tuple(curve),
        picked={key: expected_pick(*pool, size) for key, pool in counted.items()},
        errors=errors,
        short=short,
        ungraded=ungraded,
    )


def _point(pools: Sequence[Pool], n: int) -> CurvePoint:
    picked = 0.0
    best = 0.0
    for scores, quality in pools:
        picked += expected_pick(scores, quality, n)
        best += expected_pick(quality, quality, n)
    picked /= len(pools)
    best /= len(pools)
    return CurvePoint(n=n, picked=picked, best=best, regret=best - picked)
