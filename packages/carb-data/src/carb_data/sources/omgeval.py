"""OMGEval: open questions rewritten for a culture, each with the answers of up to six models.

Liu et al. 2024, OMGEval: An Open Multilingual Generative Evaluation Benchmark for Large Language Models,
arXiv:2402.13524.

Nobody has labelled the answers, so it yields no sets: it yields candidate *pools*. Which answer is right must be said
by people, or by a stated judge with a check; that one model is stronger than another is not a label.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, TypeAdapter

from carb_data.errors import CarbError
from carb_data.models import Domain, Provenance
from carb_data.options import closest
from carb_data.sources.base import Names, Options, Source
from carb_data.sources.grouping import is_degenerate
from carb_data.sources.models import CandidatePool, PoolCandidate, Skip
from carb_data.sources.reading import read_json, read_text

URL = "https://github.com/blcuicall/OMGEval"
LICENSE = "MIT"
ENGLISH_LICENSE = "CC-BY-NC-4.0"  # instructions and gpt4 answers of AlpacaEval

LANGUAGES = {
    "arabic": ("arabic", "ar", "OMGEval_Arabic_local.txt", r"[؀-ۿ]"),
    "chinese": ("chinese", "zh", "OMGEval_Chinese_local.txt", r"[一-鿿]"),
    "english": ("english", "en", None, r"[A-Za-z]"),
    "russia": ("russian", "ru", "OMGEval_Russia_local.txt", r"[Ѐ-ӿ]"),
    "spanish": ("spanish", "es", "OMGEval_Spanish_local.txt", r"[A-Za-zÀ-ÿ]"),
}
"""Folder of answers to culture id, language, file of local questions, and a letter of the language's script."""

_LONGEST = 20_000
_ONLY_ENGLISH = 169


class OmgevalOptions(Options):
    """Options of ``omgeval``."""

    languages: Names = Field(("arabic", "chinese", "russia", "spanish"), description="Folders of answers")
    questions: Literal["local", "all"] = Field("local", description="Questions about the culture, or all of them")
    min_candidates: int = Field(4, ge=2, description="Usable answers that a pool needs")
    min_length: int = Field(20, ge=1, description="Characters that a usable answer needs")


class _Row(BaseModel):
    instruction: str
    output: str
    generator: str


_Rows = TypeAdapter(list[_Row])


def build(
    path: Path,
    options: OmgevalOptions,
    seed: int,  # noqa: ARG001 - one signature for all sources
) -> Iterator[CandidatePool | Skip]:
    """Yield a pool or a skip for every question of every language asked for.

    An answer is usable when it is long enough, in the script of the question, without replacement characters or
    endless repetition, and unlike the answers before it.

    Args:
        path: the folder that holds ``data`` and ``model_outputs``.
        options: languages, questions and thresholds.
        seed: It has no effect here: nothing is drawn.
    """
    for name in options.languages:
        if name not in LANGUAGES:
            known = ", ".join(LANGUAGES)
            raise CarbError(f"OMGEval has no answers in '{name}'.{closest(name, LANGUAGES)} Folders: {known}.")
    for name in dict.fromkeys(options.languages):
        if options.questions == "local" and LANGUAGES[name][2] is None:
            raise CarbError(f"OMGEval has no local questions in '{name}'; ask for questions=all.")
        yield from _pools(path, name, options)


def _pools(path: Path, name: str, options: OmgevalOptions) -> Iterator[CandidatePool | Skip]:
    culture, language, local_file, script = LANGUAGES[name]
    files = sorted((path / "model_outputs" / name).glob("*.json"))
    if not files:
        raise CarbError(f"{path} does not hold OMGEval's model_outputs/{name}/*.json.")
    answers: dict[str, list[_Row]] = {}
    numbers: dict[str, int] = {}
    for file in files:
        content: list[_Row] = read_json(file, _Rows, "OMGEval")
        for number, row in enumerate(content):
            key = _key(row.instruction)
            numbers.setdefault(key, number)
            rows = answers.setdefault(key, [])
            if not any(row.generator == other.generator for other in rows):  # an instruction may stand twice
                rows.append(row)
    local = _local(path, local_file)
    for key, rows in answers.items():
        if options.questions == "local" and key not in local:
            continue
        number = numbers[key]
        usable = _usable(rows, script, options)
        if len(usable) < options.min_candidates:
            reason = f"fewer than {options.min_candidates} usable answers"
            yield Skip(source_id=f"{name}/{number}", reason=reason, culture=culture, language=language)
            continue
        yield CandidatePool(
            id=f"omgeval/{name}/{number}",
            culture=culture,
            domain=Domain.COMMONSENSE,
            topic="local question" if key in local else "general question",
            language=language,
            prompt=rows[0].instruction.strip(),
            candidates=tuple(
                PoolCandidate(id=f"{n}", text=row.output.strip(), language=language, generator=row.generator)
                for n, row in enumerate(usable)
            ),
            provenance=Provenance(
                source="omgeval",
                source_id=_row(number, language),
                license=ENGLISH_LICENSE if language == "en" else LICENSE,
                url=URL,
                method="generated",
                notes="Unlabelled: nobody has said which answer is right.",
            ),
        )


def _usable(rows: list[_Row], script: str, options: OmgevalOptions) -> list[_Row]:
    usable: list[_Row] = []
    seen: set[str] = set()
    for row in rows:
        text = row.output.strip()
        own = sum(map(str.isalpha, re.findall(script, text)))
        if (
            options.min_length <= len(text) <= _LONGEST
            and own > sum(map(str.isalpha, text)) / 2
            and not is_degenerate(text)
            and _key(text) not in seen
        ):
            seen.add(_key(text))
            usable.append(row)
    return usable


def _local(path: Path, name: str | None) -> set[str]:
    if name is None:
        return set()
    return {_key(line) for line in read_text(path / "data" / name, "OMGEval").splitlines() if line.strip()}


def _row(number: int, language: str) -> str:
    """The row that the question has in all languages: their lists run in step, less one that only English has."""
    if language != "en" or number < _ONLY_ENGLISH:
        return str(number)
    return "english-only" if number == _ONLY_ENGLISH else str(number - 1)


def _key(text: str) -> str:
    return "".join(text.split())


SOURCE = Source(
    name="omgeval",
    description="OMGEval: culturally rewritten open questions with model answers; pools without labels",
    license=LICENSE,
    rows=build,
    options=OmgevalOptions,
    yields="pools",
)
