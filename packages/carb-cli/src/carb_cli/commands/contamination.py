"""``carb data contamination``: is test data in training data?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from carb_cli import display
from carb_cli.main import FAILED, OK
from carb_cli.options import CultureFile, Json, Quiet, Several, add_cultures
from carb_cli.output import Output
from carb_cli.progress import progress
from carb_data import BonSet, CarbError, ContaminationReport, check_contamination, load
from carb_data.contamination import THRESHOLD

SHOWN = 20


class Contamination(Output, ContaminationReport):
    """Output of ``carb data contamination --json``."""

    schema_: Literal["carb.data.contamination/1"] = Field(default="carb.data.contamination/1", alias="schema")


def contamination(
    *,
    train: Annotated[tuple[str, ...], Several],
    test: Annotated[tuple[str, ...], Several] = ("carb-seed",),
    threshold: float = THRESHOLD,
    culture_file: CultureFile = (),
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Look for test items in training data: by source item, by exact text, and by shared n-grams.

    Exits with 1 when there are any.

    For example:

        carb data contamination --train train.txt --test carb-seed

    Parameters
    ----------
    train
        Data sets, or .txt files with a text on each line; may be repeated.
    test
        Data sets; may be repeated.
    threshold
        Least share of a test text's n-grams that one training text must hold to count.
    """
    add_cultures(culture_file)
    items = [item for name in test for item in load(name)]
    with progress(quiet) as report:
        found = check_contamination(
            _texts(train),
            items,
            threshold=threshold,
            progress=lambda read: report("training texts", read, 0, ""),
        )
    if json:
        Contamination.model_validate(found.model_dump()).print()
    else:
        _show(found)
    return OK if found.clean else FAILED


def _texts(names: Iterable[str]) -> Iterator[str | BonSet]:
    for name in names:
        if name.endswith(".txt"):
            try:
                with Path(name).open(encoding="utf-8") as file:
                    yield from (line for line in file if line.strip())
            except OSError as error:
                raise CarbError(f"Cannot read {name}: {error.strerror}.") from None
            except UnicodeDecodeError:
                raise CarbError(f"{name} is not text in UTF-8.") from None
        else:
            yield from load(name, registry=None)


def _show(found: ContaminationReport) -> None:
    display.say(f"{found.train_texts:,} training texts, {found.test_items:,} test items.")
    if found.clean:
        display.say(f"No test item is in the training data (n-gram share below {found.threshold:g}).")
        return
    rows = [
        (o.item_id, o.field, o.kind, f"{o.score:.2f}", o.train_id or f"line {o.train_position + 1}", o.test_text[:60])
        for o in found.overlaps[:SHOWN]
    ]
    display.table("In the training data", ["item", "field", "how", "share", "training entry", "text"], rows, ["share"])
    if len(found.overlaps) > SHOWN:
        display.say(f"... and {len(found.overlaps) - SHOWN:,} more; --json lists them all.")
    kinds = ", ".join(f"{kind} {number}" for kind, number in found.counts.items() if number)
    display.say(f"{len(found.contaminated):,} of {found.test_items:,} test items are in the training data: {kinds}.")
