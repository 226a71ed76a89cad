"""``carb site``: a leaderboard as static files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from carb_cli import display
from carb_cli.options import Confidence, CultureFile, Several, add_cultures, bytes_of
from carb_data import CarbError, load


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

        carb site results --out site

        carb site runs/first --out site

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
    from carb_cli.results.entry import Candidates

    if not sources:
        raise CarbError("Name at least one folder, for example: carb site results --out site")
    add_cultures(culture_file)
    candidates = Candidates([load(name) for name in data])
    pages = write_site(sources, out, candidates, confidence=confidence, budget=bytes_of(texts))
    display.say(f"Written: {(out / 'index.html').resolve()} and {pages} report{'' if pages == 1 else 's'}")
