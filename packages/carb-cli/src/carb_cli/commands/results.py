"""``carb results``: entries of a leaderboard, whose numbers are computed again from their rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import Field

from carb_cli import display
from carb_cli.options import Confidence, CultureFile, Json, Several, add_cultures, bytes_of
from carb_cli.output import Output, OutputPart
from carb_cli.results import entry as entries
from carb_data import CarbError, load

FAILED = 1


class Added(Output):
    """Output of ``carb results add --json``."""

    schema_: Literal["carb.results.add/1"] = Field(default="carb.results.add/1", alias="schema")
    folders: tuple[str, ...]


class Checked(OutputPart):
    """An entry and what is wrong with it."""

    folder: str
    problems: tuple[str, ...]
    """Empty where every number follows from the rows."""


class Checks(Output):
    """Output of ``carb results check --json``."""

    schema_: Literal["carb.results.check/1"] = Field(default="carb.results.check/1", alias="schema")
    entries: tuple[Checked, ...]


def add(
    *runs: Path,
    out: Path = Path("results"),
    relationship: entries.Relationship = "unknown",
    trained_on: entries.TrainedOn = "unknown",
    replace: Annotated[bool, Parameter(negative=())] = False,
    culture_file: CultureFile = (),
    json: Json = False,
) -> None:
    """Turn runs into entries of a folder of results, one for each scorer.

    An entry holds the scores of every set under the set's id and a hash of its content, the command, versions, machine
    and seed of the run, and numbers that are computed from the rows alone. Texts are not copied.

    For example:

        carb results add runs/first --out results --relationship author --trained-on no

    Parameters
    ----------
    runs
        Folders that `carb run` wrote.
    out
        The folder of results; `results` by default.
    relationship
        Who ran it: the author of the model, somebody independent, or unknown, which is the default.
    trained_on
        Whether the models were trained on these sets or their sources: no, yes, or unknown, which is the default.
    replace
        Replace entries that are there already.
    """
    if not runs:
        raise CarbError("Name at least one run folder, for example: carb results add runs/first")
    add_cultures(culture_file)
    made = [one for run in runs for one in entries.entries_of(run, relationship, trained_on)]
    there = [out / one.folder for one, _ in made if (out / one.folder).exists()]
    if there and not replace:
        raise CarbError(f"{there[0]} is there already; --replace writes it again.")
    folders = tuple(str(entries.save(one, packed, out)) for one, packed in made)
    if json:
        Added(folders=folders).print()
        return
    for (one, _), folder in zip(made, folders, strict=True):
        cell = one.numbers.accuracy
        limits = display.interval(cell.low, cell.high)
        display.say(f"{one.name}: {display.percent(cell.accuracy)}% [{limits}] of {cell.n:,} main sets, {folder}")


def check(
    results: Path = Path("results"),
    *,
    data: Annotated[tuple[str, ...], Several] = (),
    culture_file: CultureFile = (),
    json: Json = False,
) -> int:
    """Compute every number of the entries in a folder again from their rows.

    Exits with 1 where a number is different, or an entry's sets are not here to compute it from.

    Nothing of an entry is executed, and no file or address that it names is opened.

    For example:

        carb results check results

    Parameters
    ----------
    results
        The folder of results, or `reference` for the results that come with carb; `results` by default.
    data
        Data sets, other than carb-seed, to which entries may belong: paths, or hf://owner/name.
    """
    add_cultures(culture_file)
    folders = entries.found_in(results)
    candidates = entries.Candidates([load(name) for name in data])
    checked = tuple(Checked(folder=str(f), problems=tuple(entries.check(f, candidates))) for f in folders)
    if json:
        Checks(entries=checked).print()
    else:
        for one in checked:
            for problem in one.problems:
                display.say(f"{one.folder}: {problem}")
        wrong = sum(bool(one.problems) for one in checked)
        display.say(f"{len(checked)} entries checked, {wrong} with problems.")
    return FAILED if any(one.problems for one in checked) else 0


def site(
    *sources: Path,
    out: Path = Path("site"),
    data: Annotated[tuple[str, ...], Several] = (),
    texts: float = 2.2,
    confidence: Confidence = 0.95,
    culture_file: CultureFile = (),
) -> None:
    """Write a leaderboard site: a table for each data set, its report and CSV, and a page for each scorer.

    The files need no server. Entries are checked as by `carb results check`; one that does not follow from its rows
    stops the command. Entries on data that are not here, or have changed, are shown on their scorers' pages alone.

    For example:

        carb results site results --out site

        carb results site runs/first --out site

    Parameters
    ----------
    sources
        Folders that `carb run` wrote, and folders of results; `reference` for the results that come with carb.
    out
        The folder to write; `site` by default.
    data
        Data sets, other than carb-seed, to which entries may belong: paths, or hf://owner/name.
    texts
        Megabytes of each report that the texts of the sets may take; 2.2 by default.
    """
    from carb_cli.report.site import write_site

    if not sources:
        raise CarbError("Name at least one folder, for example: carb results site results --out site")
    add_cultures(culture_file)
    candidates = entries.Candidates([load(name) for name in data])
    pages = write_site(sources, out, candidates, confidence=confidence, budget=bytes_of(texts))
    display.say(f"Written: {(out / 'index.html').resolve()} and {pages} report{'' if pages == 1 else 's'}")
