"""``carb data new``: a sheet to fill in."""

from __future__ import annotations

from pathlib import Path

from carb_cli import display
from carb_cli.options import CultureFile, add_cultures
from carb_data import CarbError, Domain, cultures
from carb_data.shapes import write_template


def new(*, culture: str, out: Path, language: str | None = None, culture_file: CultureFile = ()) -> None:
    """Write a sheet (CSV) with the columns of a set, to fill in and to give to any command as data.

    For example:

        carb data new --culture thai --out thai.csv

    Parameters
    ----------
    culture
        Id of the culture that the sets are about, for example thai or spanish-mx.
    out
        The .csv file to write; a file that is there already is not overwritten.
    language
        BCP 47 tag of the texts' language; by default the main language of the culture.
    """
    add_cultures(culture_file)
    if out.suffix.lower() != ".csv":
        raise CarbError(f"{out}: the sheet is a .csv file.")
    if out.exists():
        raise CarbError(f"{out} is there already; give another name.")
    known = cultures[culture]
    out.parent.mkdir(parents=True, exist_ok=True)
    write_template(out, culture=known.id, language=language or known.language, domains=list(Domain))
    display.say(f"{out} written. Fill in a row for each set, then run: carb data validate {out}")
