"""``carb data shorten``: a smaller data set, with the error that it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from carb_cli import display
from carb_cli.display import percent
from carb_cli.options import CultureFile, Json, Several, add_cultures
from carb_cli.output import Output
from carb_cli.report.content import read_runs
from carb_metrics import ShortForm, main_sets, short_form


class Shortened(Output):
    """Output of ``carb data shorten --json``."""

    schema_: Literal["carb.data.shorten/1"] = Field(default="carb.data.shorten/1", alias="schema")
    path: str
    fingerprint: str
    form: ShortForm


def shorten(
    size: int,
    *,
    runs: Annotated[tuple[Path, ...], Several],
    out: Path,
    seed: int = 0,
    culture_file: CultureFile = (),
    json: Json = False,
) -> None:
    """Choose the sets that tell most about scorers, and say what leaving out the others costs.

    For example:

        carb data shorten 200 --runs runs/first --out short.jsonl

    Parameters
    ----------
    size
        Number of sets to keep; cultures and domains keep their shares.
    runs
        Folders that `carb run` wrote, with at least eight scorers together, all on the same data set.
    out
        File for the sets that are kept, .jsonl or .parquet.
    seed
        Seed of the halves of scorers by which the error is measured.
    """
    add_cultures(culture_file)
    read = read_runs(runs)
    form = short_form(main_sets(read.scores.with_items(read.dataset)), size, seed=seed)
    kept = set(form.items)
    part = read.dataset.filter(lambda item: item.id in kept)
    part.save(out)
    found = Shortened(path=str(out), fingerprint=part.fingerprint, form=form)
    if json:
        found.print()
        return
    display.say(f"{len(part)} of {form.whole:,} sets are in {out}.")
    display.say(
        f"They foretell the accuracy of a scorer that was not used to choose them within {percent(form.error)} points "
        f"(root mean square); as many sets at random, within {percent(form.random_error)}."
    )
