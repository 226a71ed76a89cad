"""``carb data shorten``: a smaller data set, with the error that it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from carb_cli import display
from carb_cli.display import percent
from carb_cli.options import CultureFile, Json, Several
from carb_cli.output import Output
from carb_cli.report.content import read_main
from carb_metrics import ShortForm, short_form


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
    goal: Literal["accuracy", "order"] = "accuracy",
    method: Literal["information", "discrimination", "random"] | None = None,
    seed: int = 0,
    culture_file: CultureFile = (),
    json: Json = False,
) -> None:
    """Choose the sets that say most about scorers, and say how much accuracies on them differ from those on all sets.

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
    goal
        What the short data set is for: predicting accuracies, or keeping the order of scorers.
    method
        How sets are chosen: by information (item response theory, at least 16 scorers), by discrimination, or at
        random; by default the method that does best for the goal, which the scorers themselves show.
    seed
        Seed of the halves of scorers by which the error is measured.
    """
    read, scores = read_main(runs, culture_file, "data shorten 200 --out short.jsonl --runs")
    form = short_form(scores, size, goal=goal, method=method, seed=seed)
    kept = set(form.items)
    part = read.dataset.filter(lambda item: item.id in kept)
    part.save(out)
    found = Shortened(path=str(out), fingerprint=part.fingerprint, form=form)
    if json:
        found.print()
        return
    display.say(f"{len(part)} of {form.whole:,} sets are in {out}.")
    columns = ["chosen by", "error, points", "agreement of order"]
    rows = [(row.method, percent(row.error), display.number(row.rank_agreement)) for row in form.methods]
    display.table(
        "Errors of the smaller data set, over scorers that took no part in choosing", columns, rows, columns[1:]
    )
    display.say(
        f"Chosen by {form.method}: the kept sets predict the accuracy of another scorer within "
        f"{percent(form.chosen.error)} points (root mean square)."
    )
