"""``carb data construct``: the paper's generation pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import Field

from carb_cli import display
from carb_cli.options import Json
from carb_cli.output import Output
from carb_cli.progress import progress
from carb_data.construct import ConstructReport, Plan, load_config, plan
from carb_data.construct import construct as construct_sets
from carb_scorers.models.construction import ConstructionModels


class Constructed(Output, ConstructReport):
    """Output of ``carb data construct --json``."""

    schema_: Literal["carb.data.construct/1"] = Field(default="carb.data.construct/1", alias="schema")


class ConstructPlan(Output, Plan):
    """Output of ``carb data construct --dry-run --json``."""

    schema_: Literal["carb.data.construct.plan/1"] = Field(default="carb.data.construct.plan/1", alias="schema")


def construct(
    *,
    config: Path,
    out: Path,
    journal: Path | None = None,
    dry_run: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    json: Json = False,
) -> None:
    """Write sets from reference texts with language models: question, right answer, wrong answers, filters.

    The same command goes on after an interruption and pays for nothing twice.

    For example:

        carb data construct --config construct.toml --out constructed.jsonl --dry-run

    Parameters
    ----------
    config
        TOML file that names the references and the models; docs/how-to/construct.md shows one.
    out
        The .jsonl or .parquet file to write.
    journal
        The file of the models' answers; by default beside out.
    dry_run
        Print what would be asked for, and an upper bound of the cost, and ask no model anything.
    """
    wanted = load_config(config)
    kept = journal or Path(f"{out}.journal.jsonl")
    if dry_run:
        planned = plan(wanted, journal=kept)
        if json:
            ConstructPlan.model_validate(planned.model_dump()).print()
        else:
            display.say(str(planned))
        return
    with progress() as report:
        made = construct_sets(
            wanted,
            out,
            models=ConstructionModels(),
            journal=kept,
            progress=lambda done, total, failed: report("construct", done, total, f"{failed} failed"),
        )
    if json:
        Constructed.model_validate(made.model_dump()).print()
        return
    display.table(
        f"Built {made.built} sets in {made.out}", ["culture / domain", "sets"], list(made.counts.items()), ["sets"]
    )
    for title, reasons in (("Texts written again", made.discarded), ("References not used", made.unused)):
        if reasons:
            display.table(title, ["reason", "n"], list(reasons.items()), ["n"])
    if made.failed:
        rows = [(f.reference, f.step, f.reasons[-1] if f.reasons else "") for f in made.failed[:20]]
        display.table(f"{len(made.failed)} failed", ["reference", "step", "last reason"], rows)
    display.say(f"Cost of this run by the prices in the config: {made.cost:,.2f}")
