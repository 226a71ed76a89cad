"""A construction run: read, plan, make, write."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from carb_data import files
from carb_data.construct.calls import Calls, work_off
from carb_data.construct.clients import Models
from carb_data.construct.config import Config, ModelSpec
from carb_data.construct.journal import AnswerJournal, count_answers
from carb_data.construct.pipeline import SetMaker, culture_root, needs_question
from carb_data.construct.prompts import fill, language_name
from carb_data.construct.report import ConstructReport, FailedSet, Plan, PlannedStep
from carb_data.errors import CarbError, DataError, Problem
from carb_data.models import BonSet
from carb_data.sources.models import Reference
from carb_data.validation import line_problems
from carb_data.waiting import wait_for

BYTES_A_TOKEN = 4
QUESTION_TOKENS = 40
"""Assumed length of a question, for plans alone."""

Progress = Callable[[int, int, int], None]
"""``(sets done, sets to make, sets given up)``."""


def read_references(path: Path) -> list[Reference]:
    """All references of a JSON Lines file.

    Raises:
        DataError: with every line that is not a reference, and every repeated id.
        CarbError: the file cannot be read, or is empty.
    """
    references: list[Reference] = []
    problems: list[Problem] = []
    seen: set[str] = set()
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    reference = Reference.model_validate_json(line)
                except ValidationError as error:
                    problems.extend(line_problems(path, number, error))
                    continue
                if reference.id in seen:
                    problems.append(Problem(str(path), number, "id", f"'{reference.id}' is the id of an earlier line"))
                seen.add(reference.id)
                references.append(reference)
    except OSError as error:
        raise CarbError(f"Cannot read the references {path}: {error.strerror}.") from None
    if problems:
        raise DataError(problems, "References are one JSON object a line, as sources of references yield them.")
    if not references:
        raise CarbError(f"There are no references in {path}.")
    return references


def _usable(config: Config) -> tuple[list[Reference], list[Reference], dict[str, int]]:
    """All references, those that sets can be made from, and why others cannot."""
    references = read_references(config.references)
    roots = {
        domain: {culture_root(r) for r in references if r.domain is domain} for domain in {r.domain for r in references}
    }
    usable = [r for r in references if len(roots[r.domain]) > 1]
    unused = Counter({"no reference of another culture in its domain": len(references) - len(usable)})
    if config.limit is not None and len(usable) > config.limit:
        unused["beyond the limit"] = len(usable) - config.limit
        usable = usable[: config.limit]
    return references, usable, {reason: count for reason, count in unused.items() if count}


def plan(config: Config, *, journal: str | Path | None = None) -> Plan:
    """What ``construct`` would ask for; asks no model anything.

    Raises:
        CarbError: the references or the journal cannot be read.
    """
    references, usable, unused = _usable(config)
    entries = 0
    if journal is not None and Path(journal).exists():
        entries = count_answers(Path(journal))
    asking = [r for r in usable if needs_question(config, r)]
    question_tokens = sum(_tokens(_prompt(config.prompts.question, r)) for r in asking)
    answer_tokens = sum(_tokens(_prompt(config.prompts.answer, r)) + QUESTION_TOKENS for r in usable)
    steps = []
    if asking:
        steps.append(_step("question", config.question, len(asking), question_tokens, config.attempts))
    if usable:
        steps.append(_step("chosen", config.chosen, len(usable), answer_tokens, config.attempts))
        pool = config.rejected
        for model in pool:
            calls = round(len(usable) * config.rejected_per_set / len(pool))
            tokens = round(answer_tokens * config.rejected_per_set / len(pool))
            steps.append(_step("rejected", model, calls, tokens, config.attempts))
    return Plan(
        references=len(references),
        sets=dict(sorted(Counter(f"{r.culture} / {r.domain}" for r in usable).items())),
        unused=unused,
        steps=tuple(steps),
        journal_entries=entries,
    )


def _prompt(template: str, reference: Reference) -> str:
    fields = {"culture": reference.culture, "language": language_name(reference.language), "reference": reference.text}
    return fill(template, **fields, question=reference.question or "", text="")


def _tokens(text: str) -> int:
    return len(text.encode()) // BYTES_A_TOKEN + 1


def _step(name: str, model: ModelSpec, calls: int, prompt_tokens: int, attempts: int) -> PlannedStep:
    written = calls * attempts * model.max_tokens
    return PlannedStep(
        step=name,
        model=model.model,
        least_calls=calls,
        most_calls=calls * attempts,
        prompt_tokens=prompt_tokens,
        most_completion_tokens=written,
        most_cost=(prompt_tokens * attempts * model.price_in + written * model.price_out) / 1e6,
    )


def construct(
    config: Config,
    out: str | Path,
    *,
    models: Models,
    journal: str | Path | None = None,
    progress: Progress | None = None,
) -> ConstructReport:
    """Make sets from references and write them to ``out``.

    Every answer of a model is in the journal before it is used: after an interruption the same call goes on where it
    stopped, asks for nothing twice, and ends with the same file. ``out`` appears, or is replaced, when all is done.
    It may be called where an event loop runs, as in a notebook.

    Args:
        config: the references, the models and the limits of similarity.
        out: a ``.jsonl`` or ``.parquet`` file.
        models: the factory of the models that the configuration names (``Models``).
        journal: the file of answers; by default ``OUT.journal.jsonl`` beside ``out``.
        progress: the function that is called after each set.

    Raises:
        CarbError: unreadable references, a model that refuses every request, or not one set could be made.
        MissingExtraError: the extra ``construct`` (or ``local``, ``checks``) is not installed.
    """
    return wait_for(_construct, config, Path(out), models, journal, progress)


async def _construct(
    config: Config, out: Path, models: Models, journal: str | Path | None, progress: Progress | None
) -> ConstructReport:
    if out.suffix not in files.SUFFIXES:
        raise CarbError(f"{out}: unknown file type; carb writes {' and '.join(files.SUFFIXES)}.")
    references, usable, unused = _usable(config)
    others = {r.domain.value: [o for o in references if o.domain is r.domain] for r in references}
    results: dict[int, BonSet | FailedSet] = {}
    with AnswerJournal(Path(journal) if journal is not None else Path(f"{out}.journal.jsonl")) as kept:
        async with Calls(kept, config.embedder, models) as calls:
            maker = SetMaker(config, calls, others)

            async def work(job: tuple[int, Reference]) -> None:
                results[job[0]] = await maker.make(job[1])
                if progress is not None:
                    failures = sum(isinstance(result, FailedSet) for result in results.values())
                    progress(len(results), len(usable), failures)

            await work_off(enumerate(usable), work, config.parallel)
    sets = [result for _, result in sorted(results.items()) if isinstance(result, BonSet)]
    failed = [result for _, result in sorted(results.items()) if isinstance(result, FailedSet)]
    if not sets:
        reasons = Counter(reason for failure in failed for reason in failure.reasons).most_common(3)
        why = "; ".join(f"{reason} ({count})" for reason, count in reasons) or str(unused)
        raise CarbError(f"Not one set could be made: {why}. No file was written.")
    draft = out.with_name(f".{out.stem}.{os.getpid()}{out.suffix}")
    try:
        files.write(draft, sets)
        draft.replace(out)
    finally:
        draft.unlink(missing_ok=True)
    return ConstructReport(
        out=str(out),
        references=len(references),
        built=len(sets),
        counts=dict(sorted(Counter(f"{item.culture} / {item.domain}" for item in sets).items())),
        failed=tuple(failed),
        unused=unused,
        discarded=dict(maker.discarded.most_common()),
        usage=dict(sorted(calls.usage.items())),
    )
