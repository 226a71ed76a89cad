"""``carb results``: entries of a leaderboard, whose numbers are computed again from their rows."""

from pathlib import Path
from typing import Annotated

from carb_cli.display import counted, say
from carb_cli.json_output import print_json
from carb_cli.main import FAILED, OK
from carb_cli.options import Json, Names, OutFolder, refuse, refuse_loading
from carb_cli.report.report_json import marked
from carb_cli.results import entry as entries
from carb_cli.runs import run_folders
from carb_cli.selection import loaded
from carb_data import CarbError


def add(
    *runs: Path,
    out: Annotated[Path, OutFolder] = Path("results"),
    json: Json = False,
) -> None:
    """Turn runs into entries of a folder of results, one for each scorer; an older one of the
    scorer is replaced.

    An entry holds the scores of every set under the set's id and a hash of its content. It holds
    the command, versions, machine and seed of the run. Its numbers are computed from the rows
    alone. Texts are not copied.

    For example:

        carb results add runs/first --out results

    Parameters
    ----------
    runs
        Folders that `carb run` wrote.
    out
        The folder of results; `results` by default.
    """
    if not runs:
        raise CarbError("Name at least one run folder, for example: carb results add runs/first")
    made = [
        one for folder in runs for run in run_folders(folder) for one in entries.entries_of(run)
    ]
    folders = tuple(str(entries.save(one, packed, out)) for one, packed in made)
    if json:
        numbers = [one.numbers for one, _ in made]
        print_json({"folders": folders, "numbers": numbers})
        return
    for (one, _), folder in zip(made, folders, strict=True):
        name = marked(one.name, one.run.scorers[0].spec)
        say(f"{name}: {one.numbers.sentence}, {folder}")


def check(
    results: Path = Path("results"),
    *,
    data: Names = (),
    json: Json = False,
) -> int:
    """Recompute every number of a folder's entries from their rows.

    Prints the numbers that it confirmed. Exits with 1 where a number is different, or an entry's
    sets are not here to compute it from.

    Nothing of an entry is executed, and no file or address that it names is opened.

    For example:

        carb results check results

    Parameters
    ----------
    results
        The folder of results; `results` by default.
    data
        Data sets that entries may be about, besides carb-seed: paths, or hf://owner/name.
    """
    if not data:
        refuse_loading("without --data")
    folders = entries.found_in(results)
    known = entries.candidates([loaded(name) for name in data])
    checked = {str(folder): entries.check(folder, known) for folder in folders}
    wrong = sum(bool(entry.problems) for entry in checked.values())
    if json:
        listed = [
            {"folder": folder, **entry.model_dump(mode="json")} for folder, entry in checked.items()
        ]
        print_json({"entries": listed})
    else:
        for folder, entry in checked.items():
            for problem in entry.problems:
                say(f"{folder}: {problem}")
            if entry.confirmed is not None:
                say(f"{folder}: confirmed from its rows: {entry.confirmed.sentence}")
        say(f"{len(checked)} entries checked, {wrong} with problems.")
    return FAILED if wrong else OK


def site(
    *sources: Path,
    out: Annotated[Path, OutFolder] = Path("site"),
    data: Names = (),
) -> None:
    """Write a leaderboard site: a table for each data set, and its report as HTML and JSON.

    The files need no server. Entries are checked as by `carb results check`; one that does not
    follow from its rows stops the command. Entries on data that are not here, or have changed, are
    listed at the end of the page.

    For example:

        carb results site results --out site

    Parameters
    ----------
    sources
        Folders that `carb run` wrote, and folders of results.
    out
        The folder to write; `site` by default.
    data
        Data sets that entries may be about, besides carb-seed: paths, or hf://owner/name.
    """
    if not data:
        refuse_loading("without --data")
    from carb_cli.report.site import write_site

    if not sources:
        raise CarbError(
            "Name at least one folder, for example: carb results site results --out site"
        )
    folders = [run for source in sources for run in run_folders(source)]
    if all((folder / "run.json").is_file() for folder in folders):
        refuse(data, "--data", "where no folder holds entries, since a run keeps its own data")
    known = entries.candidates([loaded(name) for name in data])
    pages = write_site(folders, out, known)
    say(f"Written: {(out / 'index.html').resolve()} and {counted(pages, 'report')}")
