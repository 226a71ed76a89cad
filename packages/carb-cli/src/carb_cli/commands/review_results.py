"""``carb review page|collect|export|import|rules|report|apply``: answers without a server, and what they say."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import polars as pl
from cyclopts import Parameter
from pydantic import Field

from carb_cli import display
from carb_cli.commands.review import opened
from carb_cli.display import interval, percent
from carb_cli.options import (
    CultureFile,
    DataName,
    Json,
    ReviewCultures,
    ReviewFile,
    ReviewLanguages,
    RulesName,
    add_cultures,
)
from carb_cli.output import Output, print_json
from carb_cli.output import write as write_file
from carb_cli.review import applying, collecting, exchange, project, recording
from carb_cli.review import report as reports
from carb_cli.review.items import items_of
from carb_cli.review.rules import STRICT, read_rules
from carb_cli.review.showing import show
from carb_cli.runs import find_scorer, only, scores_of
from carb_cli.selection import reviewable
from carb_data import CarbError, load

ToolName = Annotated[exchange.Tool, Parameter(name="--to")]


class Paged(Output):
    """Output of ``carb review page --json``."""

    schema_: Literal["carb.review.page/1"] = Field(default="carb.review.page/1", alias="schema")
    out: str
    items: int


def page(
    *,
    data: DataName,
    out: Path,
    culture: ReviewCultures = (),
    language: ReviewLanguages = (),
    versions: Annotated[bool, Parameter(negative=())] = False,
    culture_file: CultureFile = (),
    json: Json = False,
) -> None:
    """Write the review page as one file that works without a network, or as a sheet.

    Send the file to each reviewer. It holds no key. The answers come back as a small file, for `carb review collect`.

    For example:

        carb review page --data carb-seed --culture thai --out review.html

    Parameters
    ----------
    out
        The .html page, or the .xlsx sheet, to write.
    versions
        Also ask, as a second task, whether perturbed versions keep their meaning; not in a sheet.
    """
    add_cultures(culture_file)
    if out.suffix not in (".html", ".xlsx"):
        raise CarbError(f"{out}: a page is written as .html, a sheet as .xlsx.")
    if versions and out.suffix == ".xlsx":
        raise CarbError("--versions: a sheet has no second task; write a page (.html) for it, or leave --versions out.")
    sets = reviewable(data, culture, language)
    items = list(items_of(sets, versions=versions))
    if out.suffix == ".xlsx":
        from carb_cli.review.sheets import write_sheet

        count = write_sheet(items, out)
    else:
        from carb_cli.review.page import single_file

        write_file(out, single_file(items, sets.fingerprint))
        count = len(items)
    if json:
        Paged(out=str(out), items=count).print()
    else:
        display.say(f"{count} items written to {out}.")


def collect(
    *files: Path,
    out: Path,
    data: str | None = None,
    culture: ReviewCultures = (),
    language: ReviewLanguages = (),
    versions: Annotated[bool, Parameter(negative=())] = False,
    culture_file: CultureFile = (),
    json: Json = False,
) -> int:
    """Add answers from files that the page saved, or from filled sheets. Adding the same file again changes nothing.

    Exits with 1 where answers fit no item of the review.

    For example:

        carb review collect answers.json --out thai.reviews

    Parameters
    ----------
    files
        Files that the page saved (.json) and filled sheets (.xlsx).
    out
        The review file; if there is none, it is made, which needs --data.
    data
        The data set of the page: carb-seed, a path, or hf://owner/name.
    versions
        As in `carb review page`.
    """
    if not files:
        raise CarbError("Name at least one file, for example: carb review collect answers.json --out thai.reviews")
    add_cultures(culture_file)
    with _made(out, data, culture, language, versions) as db:
        found = collecting.collect(db, files)
    return _say_collected(found, json)


def _say_collected(found: collecting.Collected, json: bool) -> int:
    if json:
        found.print()
    else:
        display.say(
            f"{found.reviewers} reviewers: {found.new} new answers, {found.known} known, {found.newer} with a newer "
            f"answer in the file."
        )
        for line in found.refused:
            display.say(f"Refused: {line}")
    return 1 if found.refused else 0


@contextmanager
def _made(
    out: Path, data: str | None, culture: tuple[str, ...], language: tuple[str, ...], versions: bool
) -> Iterator[sqlite3.Connection]:
    """The review file, made from the data set where it is not there."""
    if data is None:
        with opened(out) as db:
            yield db
        return
    db = project.create(out, reviewable(data, culture, language), data, versions=versions)
    try:
        yield db
    finally:
        db.close()


class ReviewExported(Output):
    """Output of ``carb review export --json``."""

    schema_: Literal["carb.review.export/1"] = Field(default="carb.review.export/1", alias="schema")
    out: str
    items: int


def export(reviews: ReviewFile, *, to: ToolName, out: Path, json: Json = False) -> None:
    """Write a review for Label Studio or Argilla. Perturbed versions are left out.

    For example:

        carb review export thai.reviews --to label-studio --out studio

    Parameters
    ----------
    to
        The tool.
    out
        The folder to write: tasks.json and labeling.xml for Label Studio; for Argilla what its from_disk reads.
    """
    with opened(reviews) as db:
        count = exchange.export_to(to, list(recording.items(db).values()), out)
    if json:
        ReviewExported(out=str(out), items=count).print()
    else:
        display.say(f"{count} items written to {out}.")


def import_(reviews: Path, exported: Path, *, to: ToolName, json: Json = False) -> int:
    """Add the answers that people gave in Label Studio or Argilla. Ask for consent there; accounts are not stored.

    For example:

        carb review import thai.reviews studio-export.json --to label-studio

    Parameters
    ----------
    reviews
        The review file from which the items were exported.
    exported
        Label Studio's JSON export, or Argilla's records.json.
    to
        The tool.
    """
    with opened(reviews) as db:
        found = exchange.import_from(to, db, exported)
    return _say_collected(found, json)


def rules(name: str = STRICT) -> None:
    """Print the rules by which sets are kept, fixed or retired, as JSON; you can change them into your own.

    For example:

        carb review rules

    Parameters
    ----------
    name
        strict, or a file, which is checked.
    """
    print_json(read_rules(name).model_dump(mode="json", exclude_none=True))


def report(reviews: ReviewFile, *, rules: RulesName = STRICT, judge: str | None = None, json: Json = False) -> None:
    """Show what a review says: the human line, agreement, each reviewer, regions, and the verdict on each set.

    The human line is the share of picks that are the key. Its interval is over other people and other sets.

    For example:

        carb review report thai.reviews

    Parameters
    ----------
    judge
        A scorer of a run on the same sets, as FOLDER#SCORER: its picks and people's answers together give a shorter
        interval, which holds however wrong the scorer is.
    """
    with opened(reviews) as db:
        found = reports.report(db, read_rules(rules), None if judge is None else _picks(judge))
    if json:
        found.print()
    else:
        show(found)


def _picks(judge: str) -> dict[str, float]:
    """Set id to whether the scorer picks the key; sets with an error are left out."""
    folder, name = find_scorer(judge)
    frame = only(scores_of(folder), name).frame.filter(pl.col("perturbation").is_null())
    score, key = pl.col("score"), pl.col("role").cast(pl.String) == "chosen"
    sets = frame.group_by("item_id").agg(
        score.is_null().any().alias("failed"), (score.filter(key).max() > score.filter(~key).max()).alias("picked")
    )
    return {row["item_id"]: float(row["picked"]) for row in sets.filter(~pl.col("failed")).iter_rows(named=True)}


def apply(
    reviews: ReviewFile,
    *,
    data: str,
    out: Path,
    rules: RulesName = STRICT,
    verified_only: Annotated[bool, Parameter(negative=())] = False,
    culture_file: CultureFile = (),
    json: Json = False,
) -> None:
    """Write the data set with people's votes on every response; verified sets are marked, retired ones left out.

    The human line, and every set with its verdict, reasons, wordings and comments, go into a file beside it.

    For example:

        carb review apply thai.reviews --data carb-seed --out verified.jsonl

    Parameters
    ----------
    data
        The data set that was reviewed; sets that were not reviewed stay as they are.
    out
        The .jsonl or .parquet file to write; the other file has its name and ends in .review.json.
    verified_only
        Write only sets that were verified.
    """
    add_cultures(culture_file)
    with opened(reviews) as db:
        found = reports.report(db, read_rules(rules))
    made, applied = applying.apply(load(data), found, verified_only=verified_only)
    made.save(out)
    beside = applying.companion(out)
    write_file(beside, applied.model_dump_json(indent=1) + "\n")
    if json:
        applied.print()
        return
    line, incomplete = applied.lines.overall, len(applied.incomplete)
    retired = [one.set_id for one in applied.sets if one.verdict == "retire"]
    display.say(f"{applied.kept} sets written to {out}, {applied.verified} of them verified; retired: {len(retired)}.")
    if incomplete:
        display.say(
            f"{incomplete} of their mirrored families {'lacks' if incomplete == 1 else 'lack'} the set of one of the "
            "answers; accuracy over families leaves them out."
        )
    display.say(f"Human line: {percent(line.share)}% ({interval(line.low, line.high)}). Details: {beside}")
