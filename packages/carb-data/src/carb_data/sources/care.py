"""CARE (test part): native questions with one reference answer each, Arabic, Chinese and Japanese.

Guo et al. 2025, CARE: Aligning Language Models for Regional Cultural Awareness, arXiv:2504.05154.

There are no wrong answers in it, so it yields no sets: it yields *references* (a question with its right answer) from
which sets are constructed, or from which rejected answers are sampled and checked.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, TypeAdapter

from carb_data.models import Domain, Provenance
from carb_data.sources.base import Options, Source
from carb_data.sources.grouping import is_degenerate, plain
from carb_data.sources.models import Reference, Skip
from carb_data.sources.reading import find_folder, read_json

__all__ = ["DOMAINS"]

LICENSE = "MIT"
URL = "https://github.com/Guochry/CARE"

CULTURES = {"Arabic": ("arabic", "ar"), "Chinese": ("chinese", "zh"), "Japanese": ("japanese", "ja")}
"""File name to culture id and language."""

DOMAINS = {
    "Cultural commonsense": Domain.COMMONSENSE,
    "Cultural entities": Domain.COMMONSENSE,
    "Social norms": Domain.VALUES,
    "Opinion": Domain.VALUES,
    "Literacy": Domain.LINGUISTICS,
}

_LABEL = re.compile(r"^\s*(?:السؤال|ا?الإجابة|الاجابة|الجواب|Question|Answer)\s*:\s*", re.IGNORECASE)
_COURTESY = re.compile(r"\s*شكر[اًا]*\s*لك[^.]*\.?\s*$")
_QUOTES = (('"', '"'), ("“", "”"), ("«", "»"), ("”", "”"))


class _Row(BaseModel):
    question: str
    answer: str
    culture_type: str
    associated_culture: str = ""
    geographic_scope: str = ""


_Rows = TypeAdapter(list[_Row])


def build(path: Path, options: Options, seed: int) -> Iterator[Reference | Skip]:  # noqa: ARG001 - nothing to choose
    """Yield a reference or a skip for every question.

    Args:
        path: the folder with ``Arabic-test.json`` and so on, or the one above it.
        options: This source has no options.
        seed: It has no effect here: nothing is drawn.
    """
    folder = find_folder(path, "*-test.json", "CARE")
    for name, (culture, language) in CULTURES.items():
        file = folder / f"{name}-test.json"
        if not file.exists():
            continue
        seen: set[str] = set()
        rows: list[_Row] = read_json(file, _Rows, "CARE")
        for number, row in enumerate(rows):
            question, answer = clean(row.question), clean(row.answer)
            source_id = f"{name}/{number}"
            reason = None
            if not question or not answer:
                reason = "the question or the answer is empty"
            elif row.culture_type not in DOMAINS:
                reason = "its culture_type is not one of the five known"
            elif is_degenerate(answer) or plain(answer) == plain(question):
                reason = "the answer says nothing"
            elif question in seen:
                reason = "the question is a repetition"
            if reason is not None:
                yield Skip(source_id=source_id, reason=reason, culture=culture, language=language)
                continue
            seen.add(question)
            yield Reference(
                id=f"care/{source_id}",
                culture=culture,
                domain=DOMAINS[row.culture_type],
                topic=row.culture_type,
                language=language,
                text=answer,
                question=question,
                provenance=Provenance(
                    source="care",
                    source_id=source_id,
                    license=LICENSE,
                    url=URL,
                    method="authored",
                    notes=f"{row.associated_culture}; {row.geographic_scope}",
                ),
            )


def clean(text: str) -> str:
    """The text without invisible characters, "Question:" and "Answer:" labels, quotes around all, and courtesies."""
    visible = "".join(char for char in text.replace("\xa0", " ") if unicodedata.category(char) != "Cf")
    bare = _COURTESY.sub("", _LABEL.sub("", visible.strip())).strip()
    for left, right in _QUOTES:
        inner = bare[1:-1]
        if (
            len(bare) > 2
            and bare.startswith(left)
            and bare.endswith(right)
            and left not in inner
            and right not in inner
        ):
            bare = inner.strip()
    return bare


SOURCE = Source(
    name="care",
    description="CARE: native questions with reference answers (ar, zh, ja); references, no wrong answers",
    license=LICENSE,
    rows=build,
    yields="references",
)
