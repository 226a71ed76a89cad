"""``carb data split``: the parts of a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import Field

from carb_cli import display
from carb_cli.options import CultureFile, DataName, Json, add_cultures
from carb_cli.output import Output, OutputPart
from carb_data import load


class SplitPart(OutputPart):
    """One part of a split."""

    path: str
    sets: int
    fingerprint: str


class DataSplit(Output):
    """Output of ``carb data split --json``. Parts without sets are not written and not listed."""

    schema_: Literal["carb.data.split/1"] = Field(default="carb.data.split/1", alias="schema")
    parts: dict[str, SplitPart]


def split(
    data: DataName,
    *,
    out: Path,
    train: float = 0.8,
    dev: float = 0.1,
    test: float = 0.1,
    seed: int = 0,
    by_item_only: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    culture_file: CultureFile = (),
    json: Json = False,
) -> None:
    """Divide a data set by source item, so that no item or translation of one crosses a border.

    For example:

        carb data split carb-seed --out parts --train 0.5 --dev 0 --test 0.5

    Parameters
    ----------
    out
        Folder for train.jsonl, dev.jsonl and test.jsonl.
    train
        Share of the source items for training.
    dev
        Share for development; 0 leaves the part out.
    test
        Share for tests.
    seed
        Seed that decides which part an item goes to.
    by_item_only
        Divide by source item alone. By default sets that share a text, or nearly, stay together as well, so that the
        parts pass carb data contamination.
    """
    add_cultures(culture_file)
    parts = load(data).split({"train": train, "dev": dev, "test": test}, seed=seed, apart=not by_item_only)
    written = {name: part for name, part in parts.items() if len(part)}
    for name, part in written.items():
        part.save(out / f"{name}.jsonl")
    found = DataSplit(
        parts={
            name: SplitPart(path=str(out / f"{name}.jsonl"), sets=len(part), fingerprint=part.fingerprint)
            for name, part in written.items()
        }
    )
    if json:
        found.print()
        return
    display.table(f"Split into {out}", ["part", "sets"], [(n, p.sets) for n, p in found.parts.items()], ["sets"])
