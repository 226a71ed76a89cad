"""Export: sets as RewardBench 2 rows, as preference pairs, or as a folder of the ``datasets`` library."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import polars as pl

from carb_data.errors import CarbError
from carb_data.extras import require
from carb_data.models import BonSet
from carb_data.options import closest

__all__ = ["export"]

Form = Literal["rewardbench2", "pairs", "datasets"]
FORMS: tuple[Form, ...] = ("rewardbench2", "pairs", "datasets")

RESPONSE_LISTS = {
    "response_languages": "language",
    "response_cultures": "culture",
    "response_sources": "source",
    "response_votes": "votes",
}
"""What a row says of its responses in lists, beside texts, models and ids."""
_META = ("culture", "domain", "language", "topic", "family", "kind")


def export(sets: Iterable[BonSet], path: str | Path, form: str) -> int:
    """Write sets in another form; perturbed responses are not part of any of them.

    Args:
        sets: a ``Dataset`` or any sets.
        path: a ``.jsonl`` or ``.parquet`` file; for ``datasets``, a folder.
        form: ``rewardbench2`` (a row per set), ``pairs`` (a row per rejected response) or ``datasets`` (a folder of
            RewardBench 2 rows that ``load_from_disk`` reads).

    Returns:
        How many rows were written.

    Raises:
        CarbError: unknown form or file type.
        MissingExtraError: ``datasets`` is asked for and not installed.
    """
    path = Path(path)
    if form not in FORMS:
        raise CarbError(f"There is no form '{form}' to export to.{closest(form, FORMS)} Forms: {', '.join(FORMS)}.")
    rows = _pairs(sets) if form == "pairs" else map(rewardbench2_row, sets)
    if form == "datasets":
        library = require("datasets", package="carb-data", extra="datasets")
        held = list(rows)
        library.Dataset.from_list(held).save_to_disk(str(path))
        return len(held)
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    if path.suffix == ".jsonl":
        with path.open("w", encoding="utf-8", newline="\n") as file:
            for row in rows:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                count += 1
    elif path.suffix == ".parquet":
        held = list(rows)
        pl.DataFrame(held, infer_schema_length=None).write_parquet(path)
        count = len(held)
    else:
        raise CarbError(f"{path}: unknown file type; write to a .jsonl or .parquet file.")
    return count


def rewardbench2_row(item: BonSet) -> dict[str, Any]:
    """A set as RewardBench 2 has it, with the culture, domain and language beside."""
    texts = [response.text for response in item.rejected]
    responses = [response.model_dump(mode="json") for response in (item.chosen, *item.rejected)]
    return {
        "id": item.id,
        "prompt": item.prompt_text,
        "chosen": [item.chosen.text],
        "rejected": texts,
        "num_correct": 1,
        "num_incorrect": len(texts),
        "total_completions": 1 + len(texts),
        "models": [response["generator"] or "" for response in responses],
        "subset": item.domain.value,
        "response_ids": [response["id"] for response in responses],
        **{key: [response[name] for response in responses] for key, name in RESPONSE_LISTS.items()},
        **_meta(item),
    }


def _pairs(sets: Iterable[BonSet]) -> Iterator[dict[str, Any]]:
    for item in sets:
        for response in item.rejected:
            yield {
                "id": f"{item.id}/{response.id}",
                "prompt": item.prompt_text,
                "chosen": item.chosen.text,
                "rejected": response.text,
                **_meta(item),
            }


def _meta(item: BonSet) -> dict[str, Any]:
    fields = {name: str(value) if (value := getattr(item, name)) is not None else None for name in _META}
    origin = {f"source_{name}": value for name, value in item.provenance.model_dump(mode="json").items()}
    return {**fields, "source_item": item.source_item, **origin}
