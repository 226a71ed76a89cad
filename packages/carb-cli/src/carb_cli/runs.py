"""Reading runs back: one scorer's scores out of a folder, by the name that a user types."""

import shlex
from pathlib import Path

from polars import col

from carb_data import CarbError, Dataset, ScoreTable, closest
from carb_scorers import RunRecord


def run_folders(folder: Path) -> list[Path]:
    """The folder of a run itself, or of its ``run.json``; of a folder of runs, such as a suite's,
    those that are finished."""
    if folder.name == "run.json":
        folder = folder.parent
    if (folder / "run.json").is_file():
        return [folder]
    return sorted(path.parent for path in folder.glob("*/run.json")) or [folder]


def scorers_of(folder: Path) -> list[tuple[Path, str]]:
    """Each scorer of a run, or of a folder of runs, after the run's folder."""
    return [
        (run, scorer.spec.name)
        for run in run_folders(folder)
        for scorer in RunRecord.read(run).scorers
    ]


def scores_of(folder: Path) -> ScoreTable:
    """The table of a finished run."""
    RunRecord.read(folder)
    return ScoreTable.load(folder / "scores.parquet")


def dataset_of(folder: Path) -> Dataset:
    """The sets that a run scored; any culture may occur in them."""
    return Dataset.load(folder / "dataset.parquet", registry=None)


def only(table: ScoreTable, scorer: str) -> ScoreTable:
    """The part of one scorer."""
    return ScoreTable(table.frame.filter(col.scorer == scorer))


def find_scorer(wanted: str) -> tuple[Path, str]:
    """The run folder and the scorer that ``FOLDER`` or ``FOLDER#SCORER`` names.

    ``SCORER`` may be any part of a scorer's name that no other scorer of the run contains.

    Raises:
        CarbError: there is no such run or scorer, or several fit.
    """
    given, _, part = wanted.partition("#")
    folder = Path(given)
    held = scorers_of(folder)
    names = [name for _, name in held]
    matches = [one for one in held if one[1] == part] or [one for one in held if part in one[1]]
    if len(matches) == 1:
        return matches[0]
    listed = ", ".join(names)
    if not part:
        first = shlex.quote(f"{folder}#{names[0]}")
        raise CarbError(
            f"{folder} holds {len(names)} scorers; say which, as {first}. It holds {listed}."
        )
    how = "No scorer" if not matches else "More than one scorer"
    near = closest(part, [*names, *(name.partition(":")[2] for name in names)])
    raise CarbError(f"{how} of {folder} is named '{part}'.{near} It holds {listed}.")
