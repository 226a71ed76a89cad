"""``carb data export``: sets in the forms of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from carb_cli import display
from carb_cli.options import CultureFile, DataName, Json, add_cultures
from carb_cli.output import Output
from carb_data import load
from carb_data.sources.export import export as write_export


class DataExported(Output):
    """Output of ``carb data export --json``."""

    schema_: Literal["carb.data.export/1"] = Field(default="carb.data.export/1", alias="schema")
    out: str
    form: str
    rows: int


def export(
    data: DataName,
    *,
    out: Path,
    form: Literal["rewardbench2", "pairs", "datasets"] = "pairs",
    culture_file: CultureFile = (),
    json: Json = False,
) -> None:
    """Write a data set as preference pairs, as RewardBench 2 rows, or as a folder of the datasets library.

    For example:

        carb data export carb-seed --form pairs --out pairs.jsonl

    Parameters
    ----------
    out
        The .jsonl or .parquet file to write; for datasets the folder.
    form
        pairs has a row for each rejected response, the others a row for each set.
    """
    add_cultures(culture_file)
    dataset = load(data)
    rows = write_export(dataset, out, form)
    if json:
        DataExported(out=str(out), form=form, rows=rows).print()
        return
    display.say(f"{rows:,} rows written to {out}")
