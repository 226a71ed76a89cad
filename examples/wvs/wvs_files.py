"""The files of the World Values Survey, wave 7 (the official CSV, the text of the codebook's PDF),
and the tests."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from carb_data.errors import CarbError
from carb_data.sources.source_files import read_text

COUNTRY, WEIGHT = "B_COUNTRY_ALPHA", "W_WEIGHT"

_HEADING = re.compile(r"^(Q\d+[A-Z]?(?:_\d+)?)[ \t]*[-.:]?[ \t]+(\S.*)$", re.MULTILINE)
_MARK = re.compile(r"(?<![\w.])(-?\d+)-?\.-[ \t]*")
_FURNITURE = re.compile(
    r"^\s*(?:\d+|.*World Values Survey.*|.*WVS[- ]?7.*codebook.*)\s*$", re.IGNORECASE | re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Question:
    """One variable of the survey."""

    variable: str
    name: str
    text: str
    answers: dict[int, str]
    """Code to label, without the negative codes of missing answers."""


def open_survey(folder: Path) -> tuple[pl.LazyFrame, dict[str, Question]]:
    """The table and the questions of the codebook in a folder."""
    books = sorted(folder.glob("*[Cc]odebook*.txt"))
    tables = [
        file for file in sorted(folder.glob("*.csv")) if "codebook" not in file.name.casefold()
    ]
    if len(tables) != 1 or not books:
        found = ", ".join(file.name for file in (*tables, *books)) or "nothing"
        raise CarbError(
            f"{folder} must be a folder with one CSV of the World Values Survey and the "
            "text of its codebook, as "
            f"codebook.txt; found {found}."
        )
    questions = parse_codebook(read_text(books[0], "the World Values Survey"))
    if not questions:
        raise CarbError(
            f"{books[0]} is not the codebook of the World Values Survey: there is no "
            "variable such as 'Q1 ...' with "
            "answers such as '1.- ...' in it. Give the text of the official PDF: pdftotext -layout."
        )
    try:
        with tables[0].open(encoding="utf-8-sig", errors="replace") as file:
            header = file.readline()
        frame = pl.scan_csv(
            tables[0],
            separator=max(",;\t", key=header.count),
            infer_schema=False,
            encoding="utf8-lossy",
        )
        columns = frame.collect_schema().names()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CarbError(f"Cannot read the World Values Survey's {tables[0]}: {error}.") from None
    if COUNTRY not in columns or WEIGHT not in columns:
        raise CarbError(
            f"{tables[0]} is not the official CSV of wave 7: it lacks the column {COUNTRY} "
            f"or {WEIGHT}."
        )
    return frame, questions


def answers_of(frame: pl.LazyFrame, variables: Sequence[str]) -> pl.DataFrame:
    """Country, weight and the codes of the answers, a row for each person: small, where the file is
    large."""
    weight = pl.col(WEIGHT).cast(pl.Float64, strict=False).fill_null(1.0)
    answers = (pl.col(name).cast(pl.Float64, strict=False).cast(pl.Int32) for name in variables)
    table = frame.select(pl.col(COUNTRY).alias("code"), weight.alias("w"), *answers).collect(
        engine="streaming"
    )
    return table.filter(pl.col("code").is_not_null() & (pl.col("w") > 0))


def parse_codebook(text: str) -> dict[str, Question]:
    """Questions by variable. A variable without two substantive answers is left out."""
    text = _FURNITURE.sub("", text.replace("\r\n", "\n"))
    questions: dict[str, Question] = {}
    for heading, block in _divide(_HEADING, text):
        answers: dict[int, str] = {}
        parts = list(_divide(_MARK, block))
        for mark, label in parts:
            last = (
                mark is parts[-1][0]
            )  # what follows the last answer is the next heading of the document
            label = _joined(label.strip().split("\n")[0] if last else label)
            if int(mark.group(1)) >= 0 and label:
                answers.setdefault(int(mark.group(1)), label)
        asked = _joined(block[: parts[0][0].start()]) if parts else ""
        name = _joined(heading.group(2))
        if len(answers) >= 2:
            questions.setdefault(
                heading.group(1), Question(heading.group(1), name, asked or name, answers)
            )
    return questions


def _divide(mark: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Every match with the text from it to the next one."""
    found = list(mark.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    for match, end in zip(found, ends, strict=False):
        yield match, text[match.end() : end]


def _joined(text: str) -> str:
    return " ".join(text.split())


def difference_p_value(
    share: float, effective: float, other_share: float, other_effective: float
) -> float:
    """Two-sided p of the z test that two independent proportions are equal, pooled; 1 where nothing
    varies."""
    pooled = (share * effective + other_share * other_effective) / (effective + other_effective)
    variance = pooled * (1 - pooled) * (1 / effective + 1 / other_effective)
    return 1.0 if variance <= 0 else math.erfc(abs(share - other_share) / math.sqrt(2 * variance))


def lead_p_value(share: float, behind: float, effective: float) -> float:
    """Two-sided p of the z test that two answers of one sample are equally frequent.

    The variance of p1 - p2 in a multinomial sample is (p1 + p2 - (p1 - p2)^2) / n; under the
    hypothesis, (p1 + p2) / n.
    """
    variance = (share + behind) / effective
    return 1.0 if variance <= 0 else math.erfc(abs(share - behind) / math.sqrt(2 * variance))
