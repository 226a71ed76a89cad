"""BLEnD's files: the places, their questions, and what people there answered."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter

from carb_data.errors import CarbError
from carb_data.validation import closest, read_file


@cache
def judged() -> dict[str, Any]:
    """What is known of BLEnD beside its files: its places, and questions and answers that readers found unfair."""
    found: dict[str, Any] = json.loads((resources.files("carb_data") / "resources" / "blend.json").read_text("utf-8"))
    return found


PLACES: dict[str, tuple[str, str]] = {
    place: (culture, tongue) for place, (culture, tongue) in judged()["places"].items()
}
"""Place to culture id and language of the questions there."""
LISTED = ("Algeria", "China", "Mexico", "North_Korea", "South_Korea", "Spain", "UK", "US")
"""Places of the ten listed cultures."""


class Entry(BaseModel):
    """An answer that people gave, in its wordings, and how many gave it."""

    answers: list[str]
    en_answers: list[str]
    count: int


class BlendQuestion(BaseModel):
    """A question with what people answered, and how many gave no answer, by reason."""

    question: str
    en_question: str
    annotations: list[Entry]
    idks: dict[str, int] = {}


_Items = TypeAdapter(dict[str, BlendQuestion])


def check_places(places: Iterable[str]) -> None:
    """Raise ``CarbError`` for a place that BLEnD does not have."""
    for place in places:
        if place not in PLACES:
            raise CarbError(f"BLEnD has no place '{place}'.{closest(place, PLACES)} Places: {', '.join(PLACES)}.")


def find_folder(path: Path) -> Path:
    """``path``, or its folder ``data``: the one that holds ``annotations``.

    Raises:
        CarbError: neither does.
    """
    for folder in (path, path / "data"):
        if (folder / "annotations").is_dir():
            return folder
    raise CarbError(f"{path} does not hold BLEnD: nothing there, or in its folder 'data', is called annotations.")


def items_file(folder: Path, place: str) -> Path:
    """The file with the answers of a place."""
    return folder / "annotations" / f"{place}_data.json"


def read_items(folder: Path, place: str) -> dict[str, BlendQuestion]:
    """Question id to question.

    Raises:
        CarbError: the file is missing or not BLEnD's.
    """
    return read_file(_Items, items_file(folder, place), "file of BLEnD")


def read_topics(folder: Path, place: str) -> dict[str, str]:
    """Question id to topic.

    Raises:
        CarbError: the file is missing or not BLEnD's.
    """
    file = folder / "questions" / f"{place}_questions.csv"
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            return {row["ID"]: row["Topic"] for row in csv.DictReader(lines)}
    except (OSError, KeyError, UnicodeDecodeError) as error:
        raise CarbError(f"Cannot read the topics of BLEnD's questions from {file}: {error}.") from None
