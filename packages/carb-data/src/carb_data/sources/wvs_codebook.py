"""The codebook of the World Values Survey: from its text to questions and answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from carb_data.errors import CarbError
from carb_data.sources.source_files import read_text

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

    @property
    def in_words(self) -> bool:
        """False for scales of which only the ends have words."""
        return all(re.search(r"[^\W\d]{2}", label) for label in self.answers.values())


def read_codebook(path: Path) -> dict[str, Question]:
    """Questions by variable, from the text of the official PDF.

    Raises:
        CarbError: the file is not a codebook.
    """
    questions = parse_codebook(read_text(path, "the World Values Survey"))
    if not questions:
        raise CarbError(
            f"{path} is not the codebook of the World Values Survey: there is no variable such as 'Q1 ...' followed by "
            "answers such as '1.- ...' in it. Give the text of the official PDF: pdftotext -layout."
        )
    return questions


def parse_codebook(text: str) -> dict[str, Question]:
    """Questions by variable. A variable without two substantive answers is left out."""
    text = _FURNITURE.sub("", text.replace("\r\n", "\n"))
    questions: dict[str, Question] = {}
    for heading, block in _divide(_HEADING, text):
        answers: dict[int, str] = {}
        parts = list(_divide(_MARK, block))
        for mark, label in parts:
            last = mark is parts[-1][0]  # what follows the last answer is the next heading of the document
            label = _joined(label.strip().split("\n")[0] if last else label)
            if int(mark.group(1)) >= 0 and label:
                answers.setdefault(int(mark.group(1)), label)
        asked = _joined(block[: parts[0][0].start()]) if parts else ""
        name = _joined(heading.group(2))
        if len(answers) >= 2:
            questions.setdefault(heading.group(1), Question(heading.group(1), name, asked or name, answers))
    return questions


def _divide(mark: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Every match with the text from it to the next one."""
    found = list(mark.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    for match, end in zip(found, ends, strict=False):
        yield match, text[match.end() : end]


def _joined(text: str) -> str:
    return " ".join(text.split())
