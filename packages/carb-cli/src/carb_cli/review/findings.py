"""The results of a review: the human line, each reviewer, each set, and votes on the data set and
on people's questions."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from math import nan
from pathlib import Path
from statistics import median
from typing import Literal, get_args

from pydantic import Field

from carb_cli.review.asking import ReviewItem
from carb_cli.review.regions import covered, region_name
from carb_cli.review.review_file import GivenAnswer, given, places, setting
from carb_data import BonSet, CarbError, Dataset, Frozen, Votes, read_file
from carb_metrics import HumanLine, human_line

Verdict = Literal["keep", "fix", "retire", "open"]
WHOLE = "/"
"""Name of the human line over all sets."""


class OptionTally(Frozen):
    """Verdicts on one answer, in numbers of reviewers."""

    response: str
    """Id of the response."""
    best: int
    right: int
    """Reviewers who say that it is right here too; ``best`` is not counted again."""
    wrong: int
    depends: int
    unnatural: int
    on: dict[str, int]
    """Causes of ``depends``: region, generation, religion or other."""
    which: tuple[str, ...] = ()
    """The reviewers' words for what it depends on."""
    better: tuple[str, ...] = ()
    """Better wordings that were offered."""


class SetTally(Frozen):
    """Answers to one set, and its verdict."""

    set_id: str
    reviews: int
    """Reviewers who picked an answer or objected to the question."""
    picks: int
    """Reviewers who picked an answer."""
    unknown: int
    """Reviewers who do not know; they count nowhere else."""
    options: tuple[OptionTally, ...]
    comments: tuple[str, ...] = ()
    verdict: Verdict
    """``keep``: verified; ``open``: too few reviews."""
    reasons: tuple[str, ...]
    """Every rule that applies, also those of a milder verdict."""


def tally(item: ReviewItem, answers: Iterable[GivenAnswer]) -> SetTally:
    """Count the answers to one item."""
    answered = [one.event.answer for one in answers]
    picked = [answer for answer in answered if answer.status == "answered"]
    objections = sum(answer.status == "objected" for answer in answered)
    counted = {}
    for token, response in item.options.items():
        opinions = [answer.opinions[token] for answer in picked]
        verdicts = Counter(str(opinion.verdict) for opinion in opinions)
        counted[token] = OptionTally(
            response=response.id,
            best=verdicts["best"],
            right=verdicts["right"],
            wrong=verdicts["wrong"],
            depends=verdicts["depends"],
            unnatural=sum(not opinion.natural for opinion in opinions),
            on=dict(sorted(Counter(on for opinion in opinions for on in opinion.on).items())),
            which=tuple(opinion.which for opinion in opinions if opinion.which),
            better=tuple(opinion.better for opinion in opinions if opinion.better),
        )
    options = tuple(counted.values())
    verdict, reasons = _decide(counted[item.key], options, len(picked), objections)
    return SetTally(
        set_id=item.set.id,
        reviews=len(picked) + objections,
        picks=len(picked),
        unknown=sum(answer.status == "unknown" for answer in answered),
        options=options,
        comments=tuple(answer.comment for answer in answered if answer.comment),
        verdict=verdict,
        reasons=reasons,
    )


RULES_NAME = "strict/1"
"""Written beside every verdict; another number where a rule changes."""
MIN_REVIEWS = 3
"""Reviews that a set needs before it can be kept, fixed or retired; below that it stays open."""


def _decide(
    key: OptionTally, options: Sequence[OptionTally], picks: int, objections: int
) -> tuple[Verdict, tuple[str, ...]]:
    """Verdict and reasons by the rules: ``retire`` before ``fix`` before ``keep``."""
    reviews = picks + objections
    if reviews < MIN_REVIEWS:
        return "open", (f"reviews still needed: {MIN_REVIEWS - reviews}",)

    def share(count: int) -> float:
        if not picks:
            return nan  # no comparison with nan is true, so no rule applies
        return count / picks

    objected = objections / reviews
    picked = share(key.best)
    # The last three are the largest share that any one answer has.
    right_too = share(max(one.best + one.right for one in options if one is not key))
    depends = share(max(one.depends for one in options))
    unnatural = share(max(one.unnatural for one in options))
    retire = {
        "half of the reviewers or more say that the question itself is wrong": objected >= 0.5,
        "fewer than half of the picks are the key": picked < 0.5,
        "a third of the reviewers or more find the key wrong here": share(key.wrong) >= 0.34,
    }
    fix = {
        "a fifth of the reviewers or more say that the question itself is wrong": objected >= 0.2,
        "fewer than three quarters of the picks are the key": picked < 0.75,
        "a third of the reviewers or more find a wrong answer right here too": right_too >= 0.34,
        "a third of the reviewers or more say that it depends": depends >= 0.34,
        "a third of the reviewers or more find that a text does not read naturally": unnatural
        >= 0.34,
    }
    reasons = tuple(reason for reason, applies in (retire | fix).items() if applies)
    if any(retire.values()):
        return "retire", reasons
    if reasons:
        return "fix", reasons
    return "keep", ()


class ReviewerRow(Frozen):
    """One reviewer. Shares are null where there is nothing to count."""

    name: str
    region: str
    answered: int
    picks: int
    """Sets on which an answer was picked."""
    key: float | None
    """Share of the picks that are the key."""
    others: float | None
    """Share of other people's picks on the same sets that are the same."""
    seconds: float | None
    """Median time on an item."""
    first: float | None
    """Share of picks that were on top of the screen. Far above 1/N, the reviewer may not read."""


class Findings(Frozen):
    """Everything that the answers say so far."""

    data: str
    rules: str
    """Name and version of the rules."""
    fingerprint: str = ""
    """Fingerprint of the reviewed data set that was written; empty before."""
    lines: dict[str, HumanLine]
    """The human line over all (``WHOLE``), and of each ``culture/`` and ``/domain``. Retired sets
    count, so leaving out disputed sets does not raise it."""
    reviewers: tuple[ReviewerRow, ...]
    """Empty in the file beside a data set: people agreed to publication without their pseudonym."""
    verdicts: dict[str, int]
    needed: int
    """Reviews that open sets still need."""
    nobody: dict[str, int] = Field(default={})
    """Sets about each region that nobody who answers knows; nobody can answer them yet."""
    sets: tuple[SetTally, ...]


def find(db: sqlite3.Connection) -> Findings:
    """Everything that the answers in an open review file say so far.

    An answer to a set about a region counts only from somebody who knows that region.
    """
    known = {reviewer: covered(codes) for reviewer, codes in places(db).items()}
    reached = {""}.union(*known.values())
    counted = []
    answers: list[GivenAnswer] = []
    nobody: Counter[str] = Counter()
    for item, given_answers in given(db):
        heard = [one for one in given_answers if item.region in known.get(one.reviewer, ())]
        answers += heard
        counted.append(tally(item, heard))
        if item.region not in reached:
            nobody[item.region] += 1
    verdicts = Counter(one.verdict for one in counted)
    picks = [one for one in answers if one.picked is not None]
    people = db.execute("SELECT id, name, region, places FROM reviewer ORDER BY rowid")
    return Findings(
        data=setting(db, "data"),
        rules=RULES_NAME,
        lines=_lines(picks),
        reviewers=tuple(_reviewer(person, answers, picks) for person in people),
        verdicts={name: verdicts[name] for name in get_args(Verdict)},
        needed=sum(max(0, MIN_REVIEWS - one.reviews) for one in counted),
        nobody=nobody,
        sets=tuple(counted),
    )


def _lines(picks: Sequence[GivenAnswer]) -> dict[str, HumanLine]:
    groups: dict[str, list[GivenAnswer]] = {WHOLE: []}
    for one in picks:
        of = one.item.set
        for name in (WHOLE, f"{of.culture}/", f"/{of.domain}"):
            groups.setdefault(name, []).append(one)
    lines = {}
    for name, group in sorted(groups.items()):
        keys = [int(one.picked == one.item.key) for one in group]
        origins = [one.item.set.family or one.item.set.source_item for one in group]
        lines[name] = human_line(keys, origins, [one.reviewer for one in group])
    return lines


def _reviewer(
    person: sqlite3.Row, answers: Sequence[GivenAnswer], picks: Sequence[GivenAnswer]
) -> ReviewerRow:
    id_ = person["id"]
    answered = [one for one in answers if one.reviewer == id_]
    times = [one.event.active_ms / 1000 for one in answered if one.event.active_ms]
    picked = {one.item.id: one for one in picks if one.reviewer == id_}
    others = [one for one in picks if one.reviewer != id_ and one.item.id in picked]
    places = ", ".join(map(region_name, person["places"].split()))
    return ReviewerRow(
        name=person["name"],
        region=person["region"] or places,
        answered=len(answered),
        picks=len(picked),
        key=_mean([one.picked == one.item.key for one in picked.values()]),
        others=_mean([one.picked == picked[one.item.id].picked for one in others]),
        seconds=median(times) if times else None,
        first=_mean([one.picked == one.event.shown[0] for one in picked.values()]),
    )


def _mean(values: Sequence[float]) -> float | None:
    if not values:
        return None
    return sum(values) / len(values)


def apply(dataset: Dataset, findings: Findings) -> tuple[Dataset, Findings]:
    """Put votes on every reviewed response of a data set, mark verified sets, and leave retired
    ones out.

    Raises:
        CarbError: the review is of another data set.
    """
    counted = {one.set_id: one for one in findings.sets}
    unknown = sorted(set(counted) - {item.id for item in dataset})
    if unknown:
        raise CarbError(
            f"The review is of other data: it has sets that --data has not, such as {unknown[0]}."
        )
    made = Dataset(
        voted(item, counted[item.id]) if item.id in counted else item
        for item in dataset
        if item.id not in counted or counted[item.id].verdict != "retire"
    )
    return made, findings.changed(fingerprint=made.fingerprint, reviewers=())


def voted(item: BonSet, counted: SetTally) -> BonSet:
    """A set with people's votes, and the mark that it is verified."""
    if not counted.picks:
        return item
    votes = {
        one.response: Votes(asked=counted.picks, right=one.best + one.right)
        for one in counted.options
    }
    responses = tuple(one.changed(votes=votes[one.id]) for one in item.responses)
    made = item.changed(responses=responses)
    mark = f"verified by {counted.reviews} native speakers (rules {RULES_NAME})"
    if counted.verdict != "keep":
        return made
    return _noted(made, mark)


def _noted(item: BonSet, *notes: str, **more: object) -> BonSet:
    """The set with further notes and fields in its provenance."""
    before = item.provenance
    parts = filter(None, (before.notes, *notes))
    noted = before.changed(notes="; ".join(parts), **more)
    return item.changed(provenance=noted)


def written(db: sqlite3.Connection) -> Dataset:
    """The questions that people wrote, with the votes of those who were asked them.

    ``provenance.tier`` is ``human-voted`` where more than half of the other people picked the
    writer's answer, else ``human-written``; ``provenance.notes`` has the numbers, and whether a
    model was fooled. Names are not in it.

    Raises:
        CarbError: nobody wrote one.
    """
    texts = given(db, written=True)
    if not texts:
        raise CarbError(
            "Nobody has written a question yet; `carb review serve --beat` lets people write."
        )
    models = {row["id"]: row["model"] for row in db.execute("SELECT id, model FROM item")}
    made = []
    for item, answers in texts:
        counted = tally(item, answers)
        agree = sum(one.picked == item.key for one in answers)
        header = "nobody else has read it"
        if counted.reviews:
            header = f"{agree} of {counted.reviews} other people agree"
        notes = "written by a person of the place", header, models[item.id]
        tier = "human-written"
        if 2 * agree > counted.reviews:
            tier = "human-voted"
        made.append(_noted(voted(item.set, counted), *notes, tier=tier))
    return Dataset(made)


def companion(path: Path) -> Path:
    """Path of the file beside a reviewed data set."""
    return path.with_suffix(".review.json")


def line_beside(path: Path) -> Findings | None:
    """The review of a file's data set, for reports that show the human line; null where it
    was not reviewed.

    Raises:
        CarbError: the file beside it cannot be read.
    """
    beside = companion(path)
    if not beside.is_file():
        return None
    return read_file(Findings, beside, "result of `carb review apply`")
