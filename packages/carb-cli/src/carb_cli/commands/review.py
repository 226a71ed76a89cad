"""``carb review``: native speakers check a data set, and their votes go into it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import Field

from carb_cli import display
from carb_cli.options import (
    CultureFile,
    DataName,
    Json,
    ReviewCultures,
    ReviewFile,
    ReviewLanguages,
    add_cultures,
)
from carb_cli.output import Output, OutputPart
from carb_cli.output import write as write_file
from carb_cli.review import people, project
from carb_cli.review import store as files
from carb_cli.selection import reviewable
from carb_data.extras import require


class Invitation(OutputPart):
    """A private link."""

    name: str
    link: str


class Served(Output):
    """Output of ``carb review serve --json``, before the page is served."""

    schema_: Literal["carb.review.serve/1"] = Field(default="carb.review.serve/1", alias="schema")
    address: str
    port: int
    """The port at which this machine listens."""
    board: str
    """Private link of the organiser's progress board; a new one at each start."""
    links: tuple[Invitation, ...]
    """Private links of new reviewers. They are stored nowhere."""


def serve(
    *,
    data: DataName,
    out: Path,
    culture: ReviewCultures = (),
    language: ReviewLanguages = (),
    reviewers: int = 3,
    versions: Annotated[bool, Parameter(negative=())] = False,
    per_set: int | None = None,
    random_share: float = project.RANDOM_SHARE,
    gold: Path | None = None,
    host: str = "127.0.0.1",
    port: int = 8765,
    public_url: str | None = None,
    culture_file: CultureFile = (),
    json: Json = False,
) -> None:
    """Serve a page in which native speakers review a data set, and print one private link for each of them.

    Each answer is on the disk before the page says so. The same command goes on with the file after a stop; raise
    --reviewers to add people. Links are printed once, and only their hashes are stored: `carb review link` makes a new
    one.

    For example:

        carb review serve --data carb-seed --culture thai --reviewers 5 --out thai.reviews

    Parameters
    ----------
    out
        The review file, one SQLite file; it is made, or used again where it is of the same data.
    reviewers
        Number of reviewers.
    versions
        Also ask, as a second task, whether perturbed versions keep their meaning.
    per_set
        Reviewers wanted for each set; by default every reviewer is asked every set.
    random_share
        Share of the sets, from 0 to 1, that each reviewer gets in an order that no answer changes.
    gold
        A text file with one set id in each line: sets whose key is certain, which show which reviewers read with care.
    host
        Address of this machine to listen at; any other than the default needs --public-url.
    port
        Port to listen at; 0 takes a free one.
    public_url
        Address at which a proxy offers the page to others, for example https://example.org/review.
    """
    for module in ("uvicorn", "starlette", "limits"):
        require(module, package="carb-cli", extra="review")
    from carb_cli.review import serving

    add_cultures(culture_file)
    sets = reviewable(data, culture, language)
    trusted = gold.read_text("utf-8").split() if gold else []
    with serving.listen(host, port, public_url) as taken:
        db = project.create(
            out, sets, data, versions=versions, gold=trusted, per_set=per_set, random_share=random_share
        )
        page = serving.address(taken.getsockname()[1], public_url)
        links = tuple(Invitation(name=name, link=f"{page}#{token}") for name, token in project.hand_out(db, reviewers))
        with files.transaction(db):
            board = f"{page}board#{people.make_link(db, None)}"
        db.close()
        if json:
            Served(address=page, port=taken.getsockname()[1], board=board, links=links).print()
        else:
            _invite(links, board)
        import sys

        sys.stdout.flush()
        serving.serve(out, taken, public_url)


def _invite(links: tuple[Invitation, ...], board: str) -> None:
    for one in links:
        display.say(f"{one.name}: {one.link}")
    if links:
        display.say("Send each link to one person only; it is shown here once and stored nowhere.")
    else:
        display.say("The links printed before stay valid; `carb review link` makes new ones.")
    display.say(f"Your progress board: {board}")
    display.say("The page is served until you press Ctrl-C; the same command goes on later.")


class Link(Output):
    """Output of ``carb review link --json``."""

    schema_: Literal["carb.review.link/1"] = Field(default="carb.review.link/1", alias="schema")
    name: str
    link: str | None
    """The new link; null where the old one was only ended."""


def link(
    reviews: ReviewFile,
    name: str,
    *,
    url: str = "http://127.0.0.1:8765",
    days: float = people.LINK_DAYS,
    end: Annotated[bool, Parameter(negative=())] = False,
    qr: Path | None = None,
    json: Json = False,
) -> None:
    """Make a new private link for a reviewer; the old one ends, on all devices.

    For example:

        carb review link thai.reviews "reviewer 2" --qr link.svg

    Parameters
    ----------
    name
        Name or pseudonym of the reviewer.
    url
        Address of the page.
    days
        Days until the link ends by itself.
    end
        Only end the old link, and make no new one.
    qr
        Also write the link as a picture for a phone's camera, to this .svg file.
    """
    with opened(reviews) as db, files.transaction(db):
        id_ = people.named(db, name)
        people.revoke(db, id_)
        made = None if end else f"{url.rstrip('/')}/#{people.make_link(db, id_, days)}"
    if made and qr:
        from io import BytesIO

        picture = BytesIO()
        require("segno", package="carb-cli", extra="review").make(made, error="m").save(picture, kind="svg", scale=8)
        write_file(qr, picture.getvalue())
    if json:
        Link(name=name, link=made).print()
    else:
        display.say(f"{name}: {made}" if made else f"The link of {name} has ended.")


class Forgotten(Output):
    """Output of ``carb review forget --json``."""

    schema_: Literal["carb.review.forget/1"] = Field(default="carb.review.forget/1", alias="schema")
    name: str
    answers: int
    """Answers that were removed with the person."""


def forget(reviews: ReviewFile, name: str, *, json: Json = False) -> None:
    """Remove a reviewer with all answers, links and sessions. Copies made before keep what they have.

    For example:

        carb review forget thai.reviews "reviewer 2"

    Parameters
    ----------
    name
        Name or pseudonym of the reviewer.
    """
    with opened(reviews) as db:
        answers = people.forget(db, name)
    if json:
        Forgotten(name=name, answers=answers).print()
    else:
        display.say(f"{name} and {answers} answers are removed from {reviews}. Delete the backups yourself.")


class BackedUp(Output):
    """Output of ``carb review backup --json``."""

    schema_: Literal["carb.review.backup/1"] = Field(default="carb.review.backup/1", alias="schema")
    out: str


def backup(reviews: ReviewFile, out: Path, *, json: Json = False) -> None:
    """Copy a review file, also while it is being served. A plain copy of the file would miss its latest answers.

    For example:

        carb review backup thai.reviews thai-monday.reviews

    Parameters
    ----------
    out
        The copy to write.
    """
    with opened(reviews) as db:
        files.backup(db, out)
    if json:
        BackedUp(out=str(out)).print()
    else:
        display.say(f"Copied to {out}.")


@contextmanager
def opened(reviews: Path) -> Iterator[sqlite3.Connection]:
    """The review file, closed at the end."""
    db = files.connect(reviews)
    try:
        yield db
    finally:
        db.close()
