"""``carb run``: score a data set with reward models."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from carb_cli import display
from carb_cli.main import OK
from carb_cli.options import Flag, Json, Several
from carb_cli.output import Output, print_json
from carb_cli.planning import plan_run
from carb_cli.scoring import exit_code, say_what_was_found, score
from carb_cli.selection import EVERY_SET, SetOptions, select
from carb_scorers.evaluation import WINDOW
from carb_scorers.run import Engine, RunRecord


class RunOutput(Output, RunRecord):
    """Output of ``carb run --json``: the content of ``run.json``, and where it lies."""

    schema_: Literal["carb.run/1"] = Field(default="carb.run/1", alias="schema")
    out: str


def run(
    *,
    data: Annotated[tuple[str, ...], Several],
    scorer: Annotated[tuple[str, ...], Several],
    out: Path,
    sets: SetOptions = EVERY_SET,
    seed: int = 0,
    window: int = WINDOW,
    engine: Engine = "local",
    fresh: Flag = False,
    retry_errors: Flag = False,
    dry_run: Flag = False,
    json: Json = False,
) -> int:
    """Score a data set with reward models. The same command goes on after any interruption.

    For example:

        carb run --data carb-seed --scorer baseline:length baseline:random --out runs/first

        carb run --data carb-seed --scorer label=baseline:label --out runs/label --limit 40 --dry-run

    Parameters
    ----------
    data
        carb-seed, a path, or hf://owner/name; may be repeated.
    scorer
        [NAME=]KIND:TARGET?key=value&..., for example baseline:length or mine=judge:path/to/model; may be repeated.
    out
        Folder for run.json, scores.parquet, errors.jsonl and the journal.
    seed
        Seed of the order in which candidates are presented.
    window
        Number of requests handed to a scorer at once.
    engine
        Where the scorers run: in this process, or on a Ray cluster.
    fresh
        Discard the results that the folder already holds.
    retry_errors
        Ask again for items that failed in an earlier run into the same folder.
    dry_run
        Say what would be done, with the calls, an estimate of the tokens and the cost, and do nothing else. The cost
        needs price_in and price_out (per million tokens) in the spec.
    """
    dataset = select(data, sets)
    if dry_run:
        plan = plan_run(data, dataset, scorer)
        print_json(plan.model_dump()) if json else plan.show()
        return OK
    record = score(
        data,
        dataset,
        scorer,
        out,
        seed=seed,
        window=window,
        engine=engine,
        fresh=fresh,
        retry_errors=retry_errors,
    )
    if json:
        RunOutput(out=str(out), **record.model_dump()).print()
    else:
        say_what_was_found(record, out, dataset)
        display.say(f"Next: {shlex.join(['carb', 'report', str(out), '--html', 'report.html'])}")
    return exit_code(record)
