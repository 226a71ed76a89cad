"""INCLUDE (base, 44 languages): multiple choice from local exams, read from a local copy of its published form.

Romanou et al. 2024, INCLUDE: Evaluating Multilingual Language Understanding with Regional Knowledge, ICLR 2025,
arXiv:2411.19799. Published form: a folder per language with ``test-*.parquet`` and ``validation-*.parquet``; columns
language, country, domain, subject, regional_feature, level, question, option_a … option_d, answer (0 to 3). Some
copies have one column ``choices`` instead of the four options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import Field

from carb_data.errors import CarbError
from carb_data.models import Frozen
from carb_data.options import closest
from carb_data.registry import cultures
from carb_data.sources.base import Names
from carb_data.tasks.base import TaskKind, TaskPrompt, evenly
from carb_data.tasks.blend_choice import ChoiceQuestion, ChoiceTask
from carb_data.tasks.choices import LETTERS, with_options

LANGUAGES: dict[str, str] = dict(
    re.findall(
        r"(\w+):(\w+)",
        "Albanian:sq Arabic:ar Armenian:hy Azerbaijani:az Basque:eu Belarusian:be Bengali:bn Bulgarian:bg Chinese:zh "
        "Croatian:hr Dutch:nl Estonian:et Finnish:fi French:fr Georgian:ka German:de Greek:el Hebrew:he Hindi:hi "
        "Hungarian:hu Indonesian:id Italian:it Japanese:ja Kazakh:kk Korean:ko Lithuanian:lt Malay:ms Malayalam:ml "
        "Nepali:ne North_Macedonian:mk Persian:fa Polish:pl Portuguese:pt Russian:ru Serbian:sr Spanish:es Tagalog:tl "
        "Tamil:ta Telugu:te Turkish:tr Ukrainian:uk Urdu:ur Uzbek:uz Vietnamese:vi",
    )
)
"""Name of a language's folder (with ``_`` for a space) to its ISO 639-1 code."""

_OPTIONS = ("option_a", "option_b", "option_c", "option_d")
_SHOTS = 5


class IncludeOptions(Frozen):
    """Options of ``include:PATH``."""

    languages: Names = ()
    """Folders to read; empty: all that are there."""
    split: str = "test"
    """``test`` or ``validation``; examples come from ``validation`` in any case."""
    regional: bool = False
    """Whether to ask only questions whose regional_feature is not ``agnostic``."""
    domains: Names = ()
    """The domains to ask about; empty for all."""
    limit: int | None = Field(None, ge=1)
    """Ask only this many, spread evenly over the languages."""


def open_include(name: str, path: Path, read: IncludeOptions) -> ChoiceTask:
    """Open ``include:PATH?languages=German,Korean&regional=true``.

    Raises:
        CarbError: an option is wrong, or the folder is not a copy of INCLUDE.
    """
    there = {folder.name.replace(" ", "_"): folder for folder in sorted(path.glob("*")) if folder.is_dir()}
    known = {language: folder for language, folder in there.items() if language in LANGUAGES}
    if not known:
        raise CarbError(f"{path} is not a copy of INCLUDE: it has no folder per language, such as {path / 'German'}.")
    wanted = [language.replace(" ", "_") for language in read.languages] or list(known)
    for language in wanted:
        if language not in known:
            raise CarbError(
                f"{path} has no folder '{language}'.{closest(language, known)} There are: {', '.join(known)}."
            )
    found = [question for language in wanted for question in _questions(known[language], language, read.split, read)]
    kept = evenly([question.prompt for question in found], read.limit)
    if not kept:
        raise CarbError(f"Task '{name}' has no questions left; loosen its options.")
    questions = {question.prompt.id: question for question in found}
    examples = [q for language in wanted for q in _questions(known[language], language, "validation", None)]
    asked = {question.prompt.text for question in found}
    shots = [(q.prompt.text, LETTERS[q.right]) for q in examples if q.prompt.text not in asked]
    spread = evenly([q.prompt for q in examples if q.prompt.text not in asked], _SHOTS)
    texts = {prompt.text for prompt in spread}
    chosen = tuple(shot for shot in shots if shot[0] in texts)[:_SHOTS]
    return ChoiceTask(name, tuple(questions[prompt.id] for prompt in kept), **({"shots": chosen} if chosen else {}))


TASK = TaskKind(IncludeOptions, open_include)


def _questions(folder: Path, language: str, split: str, options: IncludeOptions | None) -> Iterator[ChoiceQuestion]:
    files = sorted(folder.glob(f"{split}-*.parquet"))
    if not files and options is not None:
        raise CarbError(f"{folder} has no file {split}-*.parquet of INCLUDE.")
    number = 0
    for file in files:
        try:
            rows = pl.read_parquet(file).to_dicts()
        except (OSError, pl.exceptions.PolarsError) as error:
            raise CarbError(f"Cannot read {file} of INCLUDE: {error}") from None
        for row in rows:
            number += 1
            if options is not None and not _wanted(row, options):
                continue
            yield _question(row, language, f"{language}/{split}/{number - 1}", f"{file}, row {number - 1}")


def _wanted(row: Mapping[str, Any], options: IncludeOptions) -> bool:
    if options.regional and str(row.get("regional_feature", "")).strip().lower() == "agnostic":
        return False
    return not options.domains or row.get("domain") in options.domains


def _question(row: Mapping[str, Any], language: str, name: str, where: str) -> ChoiceQuestion:
    try:
        texts = tuple(str(text) for text in (row["choices"] if "choices" in row else [row[key] for key in _OPTIONS]))
        right = int(row["answer"])
        if not str(row["question"]).strip() or not 0 <= right < len(texts):
            raise ValueError(f"answer {right} of {len(texts)} options")
    except (KeyError, TypeError, ValueError) as error:
        raise CarbError(f"{where} is not a question of INCLUDE: {error}.") from None
    culture = language.lower().replace("_", "-")
    prompt = TaskPrompt(
        id=name,
        text=with_options(str(row["question"]), texts),
        culture=culture if culture in cultures else LANGUAGES[language],
        language=LANGUAGES[language],
        topic=row.get("domain") or row.get("subject"),
        source_item=f"include:{name}",
    )
    return ChoiceQuestion(prompt, texts, right, ("",) * len(texts))
