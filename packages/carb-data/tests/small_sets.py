"""Small sets, and small data in BLEnD's layout, that the tests of this package make."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

from carb_data import BonSet, Provenance, Response, Role
from carb_data.table_sets import read_sets


def read_rows(path: Path, **defaults: str) -> list[BonSet]:
    """The sets of a table; ``defaults`` are fields of rows without their own."""
    return read_sets(path, defaults=defaults).sets


def small_set(name: str, texts: Sequence[str], right: int = 0, **changes: object) -> BonSet:
    """A set about Germany in English with these answers, of which one is right; ``changes`` replace
    its fields."""
    responses = tuple(
        Response(
            id=f"r{n}", text=text, role=Role.CHOSEN if n == right else Role.REJECTED, language="en"
        )
        for n, text in enumerate(texts)
    )
    fields: dict[str, object] = {
        "id": name,
        "culture": "german",
        "domain": "values",
        "language": "en",
        "prompt": f"Question {name}?",
        "responses": responses,
        "provenance": Provenance(
            source="test", source_id=name, license="CC0-1.0", method="authored"
        ),
    }
    return BonSet.model_validate(fields | changes)


def write_blend(folder: Path, questions: dict[str, dict[str, dict]]) -> Path:
    """Write ``place -> question id -> item`` in BLEnD's layout."""
    (folder / "annotations").mkdir(parents=True)
    (folder / "questions").mkdir()
    for place, items in questions.items():
        (folder / "annotations" / f"{place}_data.json").write_text(
            json.dumps(items), encoding="utf-8"
        )
        with (folder / "questions" / f"{place}_questions.csv").open(
            "w", encoding="utf-8-sig", newline=""
        ) as file:
            table = csv.writer(file)
            table.writerow(["", "ID", "Topic", "Source", "Question", "Translation"])
            table.writerows([n, key, "Food", "here", "?", "?"] for n, key in enumerate(items))
    return folder
