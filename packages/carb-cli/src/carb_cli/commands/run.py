"""``carb run``: score a data set with reward models."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
from cyclopts import Parameter
from pydantic import Field

from carb_cli import display
from carb_cli.config import RunConfig, read_config, to_toml
from carb_cli.engines import engine_of
from carb_cli.interrupts import graceful
from carb_cli.labels import labels
from carb_cli.main import FAILED, INTERRUPTED, OK, command_line
from carb_cli.options import Json, Quiet, Several, add_cultures
from carb_cli.output import Output, write
from carb_cli.plan import plan_run
from carb_cli.progress import Rates, label, progress
from carb_cli.selection import chance, select
from carb_data import Dataset, ScoreTable, load
from carb_metrics import bon_accuracy, main_sets
from carb_scorers import Progress
from carb_scorers.runs import RunRecord
from carb_scorers.spec import parse_spec


class RunOutput(Output, RunRecord):
    """Output of ``carb run --json``: the content of ``run.json``, and where it lies."""

    schema_: Literal["carb.run/1"] = Field(default="carb.run/1", alias="schema")
    out: str


Flag = Parameter(negative=())


def run(
    *,
    data: Annotated[tuple[str, ...], Several] = (),
    scorer: Annotated[tuple[str, ...], Several] = (),
    out: Path | None = None,
    limit: int | None = None,
    cultures: Annotated[tuple[str, ...], Several] = (),
    domains: Annotated[tuple[str, ...], Several] = (),
    perturbed: bool | None = None,
    seed: int | None = None,
    window: int | None = None,
    engine: Literal["local", "ray"] | None = None,
    fresh: Annotated[bool, Flag] = False,
    retry_errors: Annotated[bool, Flag] = False,
    config: Path | None = None,
    print_config: Annotated[bool, Flag] = False,
    dry_run: Annotated[bool, Flag] = False,
    price_in: float | None = None,
    price_out: float | None = None,
    culture_file: Annotated[tuple[Path, ...], Several] = (),
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Score a data set with reward models. The same command goes on after any interruption.

    For example:

        carb run --data carb-seed --scorer baseline:length baseline:random --out runs/first

        carb run --data carb-seed --scorer baseline:label --out runs/label --limit 40 --dry-run

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
        Score only these cultures; may be repeated.
    domains
        Score only these domains; may be repeated.
    perturbed
        Score the perturbed texts too, which is the default.
    seed
        Seed of the order in which candidates are presented; default 0.
    window
        Number of requests handed to a scorer at once; default 64.
    engine
        Where the scorers run: in this process, which is the default, or on a Ray cluster.
    fresh
        Discard the results that the folder already holds.
    retry_errors
        Ask again for items that failed in an earlier run into the same folder.
    config
        A TOML file with these options; options on the command line take precedence.
    print_config
        Print these options as a TOML file, and do nothing else.
    dry_run
        Say what would be done, with counts, an estimate of the tokens and the cost, and do nothing else.
    price_in
        Price of a million input tokens of a paid API, for the estimate.
    price_out
        Price of a million output tokens of a paid API, for the estimate.
    culture_file
        A file that defines further cultures; may be repeated.
    """
    flags: dict[str, object] = {"data": data, "scorer": scorer, "out": out, "limit": limit, "cultures": cultures}
    flags |= {"domains": domains, "perturbed": perturbed, "seed": seed, "window": window, "engine": engine}
    flags |= {"culture_file": tuple(map(str, culture_file))}
    wanted = read_config(config, flags)
    if print_config:
        display.console.file.write(to_toml(wanted))
        return OK
    add_cultures(tuple(map(Path, wanted.culture_file)))
    dataset = select(
        wanted.data,
        limit=wanted.limit,
        cultures=wanted.cultures,
        domains=wanted.domains,
        perturbed=wanted.perturbed,
    )
    changed = sum(len(item.perturbed) for item in dataset)
    asking = any(parse_spec(given).kind not in ("baseline", "classifier", "implicit") for given in wanted.scorer)
    if changed and perturbed is None and asking and not quiet:
        sets = len(dataset)
        display.advice(
            f"A judge gets {sets + changed:,} requests for these {sets:,} sets: {changed:,} of them are about "
            f"perturbed texts, for the report's section on robustness. --no-perturbed leaves these out."
        )
    if dry_run:
        plan = plan_run(wanted, dataset, price_in=price_in, price_out=price_out)
        plan.print() if json else plan.show()
        return OK
    record = score(wanted, dataset, fresh=fresh, retry_errors=retry_errors, quiet=quiet)
    if record is None:
        return INTERRUPTED
    if json:
        RunOutput(out=str(wanted.out), **record.model_dump()).print()
        return _code(record)
    _say_what_was_done(record, wanted.out)
    _say_what_was_found(wanted.out, dataset)
    return _code(record)


def _code(record: RunRecord) -> int:
    """1 where a scorer has no score at all: the run did not do what it was asked for."""
    return FAILED if any(scorer.scored == 0 for scorer in record.scorers) else OK


def score(
    wanted: RunConfig, dataset: Dataset, *, fresh: bool = False, retry_errors: bool = False, quiet: bool = False
) -> RunRecord | None:
    """Score a data set as ``carb run`` does.

    Returns:
        The record of the finished run; ``None`` where the user stopped it.
    """
    run_scorers = engine_of(wanted.engine)
    arguments = command_line()
    rates = Rates()
    begun: dict[str, int] = {}
    with (
        progress(quiet) as report,
        graceful(
            "Stopping after the requests that are being scored; press Ctrl-C again to stop at once.",
            lambda: _say_how_to_go_on(wanted.out, arguments),
        ) as stop,
    ):

        def on_progress(state: Progress) -> None:
            # A scorer may load its model at its first batch; the last batch of one is followed by the next's loading.
            stop.loading = state.done in (begun.setdefault(state.scorer, state.done), state.total)
            detail = rates.detail(state.scorer, state.done, state.total, state.errors, state.tokens)
            report(label(state.scorer), state.done, state.total, detail)
            stop.check()

        async def work() -> RunRecord | None:
            loop = asyncio.get_running_loop()
            with anyio.CancelScope() as scope:
                stop.on_ask = lambda: loop.call_soon_threadsafe(scope.cancel)
                return await run_scorers(
                    dataset,
                    wanted.scorer,
                    wanted.out,
                    names=wanted.data,
                    seed=wanted.seed,
                    window=wanted.window,
                    fresh=fresh,
                    retry_errors=retry_errors,
                    command=arguments,
                    on_progress=on_progress,
                )
            return None

        record: RunRecord | None = None
        try:
            record = anyio.run(work)
        except BaseException:  # KeyboardInterrupt, alone or in a group
            if not stop.asked:
                raise
    if record is None:
        _say_how_to_go_on(wanted.out, arguments)
    else:
        _keep_the_review(wanted, record)
    return record


def _keep_the_review(wanted: RunConfig, record: RunRecord) -> None:
    """Copy what people said of the data set into the run's folder, so that its report shows the human line anywhere."""
    from carb_cli.review.findings import (
        companion,
        line_beside,
    )  # takes a fifth of a second, which a first score waits for

    kept, path = companion(wanted.out / "dataset.parquet"), Path(wanted.data[0])
    kept.unlink(missing_ok=True)
    review = line_beside(path) if len(wanted.data) == 1 else None  # of several data sets it would be one's line
    if review is not None and review.fingerprint in (record.dataset.fingerprint, load(path).fingerprint):
        write(kept, companion(path).read_bytes())


def _say_how_to_go_on(out: Path, arguments: Sequence[str]) -> None:
    again = shlex.join(part for part in arguments if part != "--fresh")
    display.note(f"Stopped. What was scored is kept in {out}. To go on, run the same command again:")
    display.note(f"  {again}")


def _say_what_was_found(out: Path, dataset: Dataset) -> None:
    main = main_sets(ScoreTable.load(out / "scores.parquet").with_items(dataset))
    found = bon_accuracy(main, by=("scorer",))
    cells = {name: found.cell(name) for name in found.groups["scorer"].to_list()}
    short = labels(cells)
    for name, cell in cells.items():
        if cell.errors and cell.n == cell.errors:
            display.say(f"  {short[name]}: no scores, every set failed")
            continue
        limits = display.interval(cell.low, cell.high)
        display.say(f"  {short[name]}: {display.percent(cell.accuracy)}% right [{limits}]")
    counted = max((cell.n for cell in cells.values()), default=0)
    if counted < len(dataset):
        display.say(f"Shares are of the {counted:,} main sets.")
    by_chance = display.percent(chance(dataset))
    display.say(f"Chance is {by_chance}%; brackets are 95% intervals.")
    display.say(f"Next: {shlex.join(['carb', 'report', str(out), '--html', 'report.html'])}")


def _say_what_was_done(record: RunRecord, out: Path) -> None:
    errors = sum(scorer.errors for scorer in record.scorers)
    number: Any = len(record.scorers)
    display.say(f"{number} scorer{'' if number == 1 else 's'}, {record.dataset.sets} sets, {errors} errors: {out}")
    if errors:
        display.say(f"Why items failed: {out / 'errors.jsonl'}; to try them again: --retry-errors")
