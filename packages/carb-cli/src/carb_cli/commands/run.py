"""``carb run``: score a data set with reward models."""

import math
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from carb_cli.display import note, say, table
from carb_cli.json_output import print_json
from carb_cli.main import FAILED, OK, invoked
from carb_cli.options import (
    Flag,
    Json,
    LatexFile,
    MdFile,
    Names,
    OutFolder,
    refuse,
    refuse_files,
    refuse_mixed_output,
)
from carb_cli.planning import check_specs, plan_run, timed
from carb_cli.scoring import AS_USUAL, RunOptions, exit_code, score
from carb_cli.selection import EVERY_SET, SetOptions, select
from carb_cli.suite import Outcome, SuiteModel, read_suite, run_suite
from carb_data import CarbError, Dataset
from carb_scorers import RunRecord, known_model


def run(
    *,
    data: Names,
    scorer: Names = (),
    suite: Path | None = None,
    out: Annotated[Path, OutFolder],
    sets: SetOptions = EVERY_SET,
    options: RunOptions = AS_USUAL,
    dry_run: Flag = False,
    timeout_per_model: float | None = None,
    md: MdFile = None,
    latex: LatexFile = None,
    json: Json = False,
) -> int:
    """Score a data set with reward models. The same command resumes after an interruption.

    For example:

        carb run --data carb-seed --scorer baseline:length baseline:random --out runs/first

    Parameters
    ----------
    data
        carb-seed, a path, or hf://owner/name; may be repeated.
    scorer
        [NAME=]KIND:TARGET?key=value&..., for example baseline:length or mine=judge:path/to/model;
        may be repeated.
    suite
        TOML file with a table [[model]] for each model, in place of --scorer: name, spec, and
        perhaps revision, memory_gb and gpus. Each model has its own process, and its own GPU where
        there are any. A model that does not fit or fails is reported; the command then ends with 1.
    out
        Folder for run.json, scores.parquet, errors.jsonl and the journal; a suite makes one for
        each model in it.
    dry_run
        Print the calls, the gigabytes to fetch, and estimates of tokens, cost and time; keep no
        score. If the weights are on this disk, ten sets are scored to estimate the time. The cost
        needs price_in and price_out (per million tokens) in the spec.
    timeout_per_model
        Seconds until a model of a suite is stopped and reported. Default: no limit.
    """
    _check(scorer, suite, timeout_per_model)
    refuse(options.fresh and options.retry_errors, "--retry-errors", "with --fresh")
    if dry_run:
        refuse(options.retry_errors, "--retry-errors", "with --dry-run")
        refuse(timeout_per_model, "--timeout-per-model", "with --dry-run")
        refuse(md, "--md", "with --dry-run")
        refuse(latex, "--latex", "with --dry-run")
    refuse_mixed_output(json, md, latex)
    refuse_files(md, latex)
    models = () if suite is None else read_suite(suite)
    for model in models:
        _say_whether_it_needs_code(model)
    dataset = select(data, sets)
    if dry_run:
        specs = scorer or [str(model.scorer) for model in models]
        timed(plan_run(data, dataset, specs), dataset, specs).show(json=json)
        return OK
    if models:
        given = [*sets.arguments(), *invoked.loading(), *options.arguments()]
        command = partial(_command_of, data, given)
        outcomes = run_suite(models, dataset, out, command, timeout_per_model or math.inf)
        return _show_suite(outcomes, out, md=md, latex=latex, json=json)
    record = score(data, dataset, scorer, out, options)
    _show_run(record, out, dataset, md=md, latex=latex, json=json)
    return exit_code(record)


def _check(scorer: Sequence[str], suite: Path | None, timeout: float | None) -> None:
    if bool(scorer) == (suite is not None):
        raise CarbError("Give either --scorer or --suite, for example: --scorer baseline:length")
    check_specs(scorer)
    if timeout is not None and not (suite and 0 < timeout < math.inf):
        raise CarbError("--timeout-per-model needs --suite, and a number of seconds above 0.")


def _command_of(
    data: Sequence[str], given: Sequence[str], model: SuiteModel, folder: Path
) -> list[str]:
    """The arguments of the command that scores one model of a suite."""
    files = [part for file in invoked.culture_files for part in ("--culture-file", file)]
    scored = ["--scorer", str(model.scorer), "--out", str(folder)]
    return ["run", "--data", *data, *scored, *given, *files]


def _show_run(
    record: RunRecord,
    out: Path,
    dataset: Dataset,
    *,
    md: Path | None,
    latex: Path | None,
    json: bool,
) -> None:
    """Print the results of one run, and write the requested tables."""
    # Importing these takes half a second, which a first score waits for.
    from carb_cli import summary
    from carb_cli.commands.report import save
    from carb_cli.report.content import content, read_runs

    if json:
        numbers = summary.of_run(record, out, dataset)
        results = [{"scorer": name, **one.model_dump(mode="json")} for name, one in numbers.items()]
        head = {"schema": "carb.run/2", "out": str(out), "results": results}
        print_json(head | record.model_dump(mode="json"))
    else:
        summary.show(record, out, dataset)
    if md is not None or latex is not None:
        save(content(read_runs([out])), md=md, latex=latex)
    if not json:
        say(f"Next: {shlex.join(['carb', 'report', str(out), '--html', 'report.html'])}")


def _say_whether_it_needs_code(model: SuiteModel) -> None:
    known = known_model(model.scorer.target)
    if known is not None and known.remote_code and "trust_remote_code" not in model.scorer.options:
        note(
            f"{model.name} needs code of its own. Read it, and if you trust it, add "
            "trust_remote_code=true to its spec."
        )


def _show_suite(
    outcomes: Mapping[str, Outcome], out: Path, *, md: Path | None, latex: Path | None, json: bool
) -> int:
    """Print one table of a suite, and the models without scores."""
    from carb_cli.commands.report import save, show  # as above
    from carb_cli.report.content import content, read_runs

    folders = [out / name for name, outcome in outcomes.items() if outcome.shown]
    report = None
    if folders:
        report = content(read_runs(folders))
    files: list[Path] = []
    printed = False
    if report is not None:
        files, printed = save(report, md=md, latex=latex)
    failed = [(name, outcome.why) for name, outcome in outcomes.items() if outcome.why is not None]
    if json:
        models = [
            {"name": name, "out": str(out / name), "why": outcome.why}
            for name, outcome in outcomes.items()
        ]
        print_json({"models": models, "report": report})
        return FAILED if failed else OK
    if report is not None and not printed:
        show(report)
    for path in files:
        note(f"Written: {path.resolve()}")
    if failed:
        table("Not scored", ["model", "why"], failed)
    return FAILED if failed else OK
