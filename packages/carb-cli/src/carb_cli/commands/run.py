"""``carb run``: score a data set with reward models."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import anyio
from cyclopts import Parameter
from pydantic import Field

from carb_cli import display
from carb_cli.options import CultureFile, Json, Quiet, add_cultures
from carb_cli.output import Output
from carb_cli.progress import Rates, label, progress
from carb_data import CarbError, Dataset, load
from carb_scorers.evaluation import Progress
from carb_scorers.runs import RunRecord
from carb_scorers.runs import run as run_scorers


class RunOutput(Output, RunRecord):
    """Output of ``carb run --json``: the content of ``run.json``, and where it lies."""

    schema_: Literal["carb.run/1"] = Field(default="carb.run/1", alias="schema")
    out: str


Several = Parameter(negative=(), consume_multiple=True)


def run(
    *,
    data: Annotated[tuple[str, ...], Several],
    scorer: Annotated[tuple[str, ...], Several],
    out: Path,
    limit: int | None = None,
    cultures: Annotated[tuple[str, ...], Several] = (),
    domains: Annotated[tuple[str, ...], Several] = (),
    perturbed: bool = True,
    seed: int = 0,
    window: int = 256,
    fresh: Annotated[bool, Parameter(negative=())] = False,
    culture_file: CultureFile = (),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score a data set with reward models. The same command goes on after any interruption.

    Example:

        carb run --data carb-seed --scorer baseline:length --scorer baseline:random --out runs/first

    Parameters
    ----------
    data
        carb-seed, a path, or hf://owner/name; may be repeated.
    scorer
        KIND:TARGET?key=value&..., for example baseline:length or judge:path/to/model; may be repeated.
    out
        Folder for run.json, scores.parquet, errors.jsonl and the journal.
    limit
        Score only this many sets, spread evenly over cultures and domains.
    cultures
        Only these cultures; may be repeated.
    domains
        Only these domains; may be repeated.
    perturbed
        Score the perturbed texts too.
    seed
        Of the order in which candidates are presented.
    window
        Requests handed to a scorer at once.
    fresh
        Discard results that are in the folder already.
    """
    add_cultures(culture_file)
    dataset = select(data, limit=limit, cultures=cultures, domains=domains, perturbed=perturbed)

    with progress(quiet) as report:
        rates = Rates()

        def on_progress(state: Progress) -> None:
            detail = rates.detail(state.scorer, state.done, state.total, state.errors, state.tokens)
            report(label(state.scorer), state.done, state.total, detail)

        async def score() -> RunRecord:
            return await run_scorers(
                dataset,
                scorer,
                out,
                names=data,
                seed=seed,
                window=window,
                fresh=fresh,
                command=("carb", *sys.argv[1:]),
                on_progress=on_progress,
            )

        record = anyio.run(score)
    if json:
        RunOutput(out=str(out), **record.model_dump()).print()
        return
    errors = sum(s.errors for s in record.scorers)
    display.say(f"{len(record.scorers)} scorers, {record.dataset.sets} sets, {errors} errors: {out}")
    display.say(f"Next: carb report {out} --html report.html")


def select(
    data: Sequence[str],
    *,
    limit: int | None = None,
    cultures: Sequence[str] = (),
    domains: Sequence[str] = (),
    perturbed: bool = True,
) -> Dataset:
    """Load data sets and narrow them down.

    Raises:
        CarbError: nothing is left, or a culture or domain is unknown.
    """
    from carb_data import Domain
    from carb_data import cultures as registry

    unknown = set(domains) - {str(d) for d in Domain}
    if unknown:
        raise CarbError(f"Unknown domains {sorted(unknown)}; there are {', '.join(Domain)}.")
    wanted = {c.id for name in cultures for c in (registry[name], *registry.varieties(name))}
    dataset = Dataset(item for name in data for item in load(name))
    dataset = dataset.filter(cultures=wanted or None, domains=domains or None)
    if limit is not None:
        dataset = spread(dataset, limit)
    if not perturbed:
        dataset = Dataset(item.model_copy(update={"perturbed": ()}) for item in dataset)
    if not len(dataset):
        raise CarbError("No sets are left to score; loosen --limit, --cultures or --domains.")
    return dataset


def spread(dataset: Dataset, limit: int) -> Dataset:
    """The first sets of each culture and domain in turn, until there are ``limit``; in the original order."""
    if limit < 1:
        raise CarbError(f"--limit must be at least 1, got {limit}.")
    rank: dict[tuple[str, str], int] = {}
    keyed = []
    for place, item in enumerate(dataset):
        group = (item.culture, str(item.domain))
        rank[group] = rank.get(group, 0) + 1
        keyed.append((rank[group], place))
    kept = {place for _, place in sorted(keyed)[:limit]}
    return Dataset(item for place, item in enumerate(dataset) if place in kept)
