"""``carb data construct``: the paper's generation pipeline."""

from __future__ import annotations

from pathlib import Path

from carb_cli import display
from carb_cli.options import Flag, Json
from carb_cli.output import print_json
from carb_cli.progress import progress
from carb_scorers.generate import construct as construct_sets
from carb_scorers.generate import plan_construction, read_construct_config


def construct(*, config: Path, out: Path, store: Path | None = None, dry_run: Flag = False, json: Json = False) -> None:
    """Write sets from reference texts with language models: question, right answer, wrong answers, filters.

    The same command goes on after an interruption and pays for nothing twice.

    For example:

        carb data construct --config construct.toml --out constructed.jsonl --dry-run

    Parameters
    ----------
    config
        TOML file that names the references and the models.
    out
        The .jsonl or .parquet file to write.
    store
        The file of the models' answers; by default beside out.
    dry_run
        Print between how many calls it would take, and ask no model anything.
    """
    wanted = read_construct_config(config)
    if dry_run:
        planned = plan_construction(wanted)
        if json:
            print_json(planned)
            return
        display.say(f"{sum(planned['sets'].values())} sets from {planned['references']} references")
        for cell, count in planned["sets"].items():
            display.say(f"  {cell}: {count}")
        for reason, count in planned["unused"].items():
            display.say(f"  not used: {count} ({reason})")
        display.say(f"{planned['least_calls']} to {planned['most_calls']} calls; nothing was asked.")
        return
    with progress() as report:
        made = construct_sets(
            wanted,
            out,
            store=store,
            progress=lambda done, total, failed: report("construct", done, total, f"{failed} failed"),
        )
    if json:
        print_json(made.model_dump(mode="json"))
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
