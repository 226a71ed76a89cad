"""``carb review``: native speakers check a data set, and their votes go into it."""

import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from shlex import quote
from sqlite3 import Connection
from typing import Annotated, Any

from cyclopts import Parameter

from carb_cli.display import advice, number, percent, say, table
from carb_cli.json_output import print_json
from carb_cli.options import DataName, Json, MaybeFile, OutFile, Several, refuse, refuse_loading
from carb_cli.report.key_sections import human_lines
from carb_cli.review import auth, findings, handing_out, review_file
from carb_cli.review.asking import ReviewItem
from carb_cli.review.page_parts import language_of, organisers_kit, single_file
from carb_cli.review.regions import counted, region_of
from carb_cli.selection import loaded, reviewable
from carb_data import CarbError, require, write_whole
from carb_scorers import open_scorer

ReviewFile = Annotated[Path, Parameter(help="The review file.")]
Cultures = Annotated[
    tuple[str, ...],
    Several,
    Parameter(
        help=(
            "Only the sets about these cultures and their varieties, in their own language. "
            "Default: all."
        )
    ),
]


def serve(
    *,
    data: DataName,
    out: Annotated[Path, OutFile],
    culture: Cultures = (),
    invite: int = 3,
    host: str = "127.0.0.1",
    port: int = 8765,
    public_url: str | None = None,
    beat: str | None = None,
    json: Json = False,
) -> None:
    """Serve a page in which native speakers review a data set, and print one private link for each
    of them.

    Each answer is on the disk before the page confirms it. The same command serves the file again
    after a stop; raise --invite to add people. Links are printed once, and only their hashes are
    stored: `carb review collect --renew` makes a new one.

    For example:

        carb review serve --data carb-seed --culture thai --invite 5 --out thai.reviews

    Parameters
    ----------
    out
        The review file, one SQLite file; it is made, or used again where it is of the same data.
    invite
        Number of people in the review.
    host
        Address of this machine to listen at; any other than the default needs --public-url.
    port
        Port to listen at; 0 takes a free one.
    public_url
        Address at which a proxy offers the page to others, for example https://example.org/review.
    beat
        Let people write questions, too, and show them whether they fool this scorer
        ([NAME=]KIND:TARGET?key=value&...); `none` lets them write without one. `carb review collect
        --written` writes their questions to a file.
    """
    require("uvicorn", "carb-cli[review]")
    from carb_cli.review import page_server

    sets = reviewable(data, culture)
    scorer = None
    if beat not in (None, "none"):
        scorer = open_scorer(beat)
    with page_server.listen(host, port, public_url) as taken:
        taken_port = taken.getsockname()[1]
        _say_which_regions(region_of(one) for one in sets)
        page = f"{public_url.rstrip('/')}/" if public_url else f"http://127.0.0.1:{taken_port}/"
        model: str | None = None if beat is None else ""
        if scorer:
            model = scorer.spec.name
        with closing(handing_out.create(out, sets, data, beat=model, url=page)) as db:
            links = {name: f"{page}#{token}" for name, token in handing_out.invite(db, invite)}
            if json:
                print_json({"address": page, "port": taken_port, "links": links})
            else:
                _show_links(out, links, reachable=public_url is not None)
            sys.stdout.flush()
            page_server.serve(db, taken, public_url, scorer)


def _show_links(out: Path, links: dict[str, str], *, reachable: bool) -> None:
    for name, link in links.items():
        say(f"{name}: {link}")
    if links:
        say("Send each link to one person only; it is shown here once and stored nowhere.")
    else:
        say(
            "The links printed before stay valid; `carb review collect --renew NAME` makes "
            "a new one."
        )
    if not reachable:
        say(
            "These links open on this machine only, and on no phone. For others, put a proxy in "
            "front and give its address with --public-url, or send the file of `carb review page`."
        )
    say(f"To count the answers at any time: carb review apply {quote(str(out))}")
    say("Ctrl-C stops the page; the same command serves it again.")


def page(
    *,
    data: DataName,
    out: Annotated[Path, OutFile],
    culture: Cultures = (),
    json: Json = False,
) -> None:
    """Write the review page as one file that works without a network, a review file for its
    answers, and a kit.

    Send the .html file to each reviewer. It does not tell which answers are right. The answers come
    back as a small file, for `carb review collect`. The review file beside it ends in .reviews and
    stays with you. So does the page that ends in .kit.html: guidance on reviewers, time, wording
    and the use of the answers.

    For example:

        carb review page --data carb-seed --culture thai --out review.html

    Parameters
    ----------
    out
        The .html file to write.
    """
    if out.suffix != ".html":
        raise CarbError(f"{out}: the page is written as .html.")
    if not culture:
        _check_one_culture(data)
    sets = reviewable(data, culture)
    items = [ReviewItem(one) for one in sets]
    kept = out.with_suffix(".reviews")
    handing_out.create(kept, sets, data).close()
    write_whole(out, single_file(items, sets.fingerprint))
    kit = out.with_suffix(".kit.html")
    language = language_of(sets[0].culture)
    write_whole(kit, organisers_kit(language, len(items)))
    if json:
        print_json({"out": str(out), "reviews": str(kept), "items": len(items)})
    else:
        say(f"{len(items)} questions written to {out}. Send it to people of the place.")
        say(f"Instructions for you: {kit}")
        _say_which_regions(item.region for item in items)
        say(f"Next, with their files: carb review collect {quote(str(kept))} answers-*.json")


def _check_one_culture(data: str) -> None:
    """A page as a file goes to people of one place."""
    counts = Counter(one.culture for one in loaded(data))
    if len(counts) > 1:
        listed = ", ".join(f"{name} ({count})" for name, count in sorted(counts.items()))
        raise CarbError(f"Name the culture of the people with --culture. {data} has {listed}.")


def _say_which_regions(codes: Iterable[str]) -> None:
    if listed := counted(codes):
        advice(f"Ask people from these regions, too, since nobody else can answer: {listed}.")


def collect(
    reviews: ReviewFile,
    *answers: Path,
    forget: str | None = None,
    renew: str | None = None,
    written: MaybeFile = None,
    json: Json = False,
) -> int:
    """Add answers from files that the page saved; or remove a person, or give one a new link.

    Adding the same file again changes nothing. Exits with 1 where answers fit no item of the
    review.

    For example:

        carb review collect review.reviews answers.json

    Parameters
    ----------
    answers
        Files that the page saved (.json).
    forget
        Remove the person of this name with all answers, questions and links. Earlier copies of the
        review file keep them.
    renew
        Make a new private link for the person of this name; the old one ends, on all devices.
    written
        Write the questions that people wrote to this .jsonl file, with how many others agree.
    """
    if not answers and forget is None and renew is None and written is None:
        raise CarbError(
            "Name at least one file, for example: carb review collect thai.reviews answers.json"
        )
    refuse(forget is not None and forget == renew, "--renew", "for a person who is forgotten")
    changes: list[tuple[str, dict[str, Any]]] = []
    with closing(review_file.connect(reviews)) as db:
        outcomes = review_file.collect(db, answers)
        if forget is not None:
            changes.append(_forget(db, forget, reviews))
        if renew is not None:
            changes.append(_renew(db, renew))
        if written is not None:
            changes.append(_write_questions(db, written))
    states = Counter(one.state for _, one in outcomes)
    new, known, newer = (states[state] for state in ("kept", "known", "conflict"))
    refused = [f"{where}: {one.reason}" for where, one in outcomes if one.state == "refused"]
    lines = [line for line, _ in changes]
    if answers:
        lines.append(f"{new} new answers, {known} known, {newer} with a newer answer in the file.")
    lines += [f"Refused: {line}" for line in refused]
    if json:
        facts = {key: value for _, changed in changes for key, value in changed.items()}
        print_json(facts | {"new": new, "known": known, "newer": newer, "refused": refused})
    else:
        say("\n".join(lines))
        if new:
            say(f"Next: carb review apply {quote(str(reviews))}")
    return 1 if refused else 0


def apply(
    reviews: ReviewFile,
    *,
    data: str | None = None,
    out: MaybeFile = None,
    json: Json = False,
) -> None:
    """Print the results of a review, and put its votes into the data set.

    Without --out it only prints the human line, each reviewer, and the verdict on each set. The
    human line is the share of picks that are the key, with an interval over other people and sets.
    With --out it writes the data set with votes on every response; verified sets are marked,
    retired ones left out. The human line and every set with its verdict, reasons, wordings and
    comments go into a file beside it. `carb report` of a run on the data set shows the human line
    as well. It shows the agreement of people with each other and with each scorer.

    For example:

        carb review apply thai.reviews --data carb-seed --out verified.jsonl

    Parameters
    ----------
    data
        The data set that was reviewed, for --out; by default the one that the review names. Sets
        that were not reviewed stay as they are.
    out
        The .jsonl or .parquet file to write; the other file has its name and ends in .review.json.
    """
    if out is None:
        refuse(data is not None, "--data", "without --out")
        refuse_loading("without --out")
    with closing(review_file.connect(reviews)) as db:
        results = findings.find(db)
    if not json:
        _show(results)
    if out is not None:
        made, results = findings.apply(loaded(data or results.data), results)
        made.save(out)
        beside = findings.companion(out)
        write_whole(beside, results.model_dump_json(indent=1) + "\n")
        if not json:
            verified = results.verdicts["keep"]
            say(
                f"{len(made)} sets written to {out}, {verified} of them verified. Details: {beside}"
            )
    if json:
        print_json(results)


def _show(results: findings.Findings) -> None:
    """Print the results of a review as tables."""
    human_lines(results.lines).show()
    columns = ["reviewer", "region", "answered", "picks", "key %", "others %", "first %", "seconds"]
    people = []
    for one in results.reviewers:
        shares = map(percent, (one.key, one.others, one.first))
        people.append(
            (one.name, one.region, one.answered, one.picks, *shares, number(one.seconds, 0))
        )
    title = (
        "Reviewers: how often their pick is the key, another person's, and the first on the screen"
    )
    table(title, columns, people, right=columns[2:])
    verdicts = ", ".join(f"{name}: {count}" for name, count in results.verdicts.items())
    say(f"Sets by the rules {results.rules}: {verdicts}. Reviews still needed: {results.needed}.")
    if results.nobody:
        codes = (code for code, count in results.nobody.items() for _ in range(count))
        say(f"Sets that nobody can answer yet: {counted(codes)}.")
    wrong = [one for one in results.sets if one.verdict in ("fix", "retire")]
    if wrong:
        rows = [(one.set_id, one.verdict, "; ".join(one.reasons)) for one in wrong]
        table("To fix or retire", ["set", "verdict", "reasons"], rows)


def _forget(db: Connection, person: str, reviews: Path) -> tuple[str, dict[str, Any]]:
    """Remove a person; returns a sentence about it, and the content of ``--json``."""
    gone = handing_out.forget(db, person)
    line = f"{person} and {gone} answers are removed from {reviews}. Delete the copies yourself."
    return line, {"forgotten": gone}


def _renew(db: Connection, person: str) -> tuple[str, dict[str, Any]]:
    """Make a new link of a person."""
    with review_file.transaction(db):
        token = auth.make_link(db, handing_out.named(db, person))
    link = f"{review_file.setting(db, 'url')}#{token}"
    return f"{person}: {link}", {"link": link}


def _write_questions(db: Connection, path: Path) -> tuple[str, dict[str, Any]]:
    """Write the questions that people wrote."""
    made = findings.written(db)
    made.save(path)
    agreed = sum(item.provenance.tier == "human-voted" for item in made)
    line = f"{len(made)} questions written to {path}; other people agree on {agreed}."
    return line, {"questions": len(made), "agreed": agreed}
