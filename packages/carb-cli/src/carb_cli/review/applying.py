"""The reviewers' votes as part of the data set, and the human line beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from carb_cli.output import Output, OutputPart
from carb_cli.review.report import Lines, ReviewReport
from carb_cli.review.rules import Decision
from carb_cli.review.tally import SetTally
from carb_data import BonSet, CarbError, Dataset, Response, Votes
from carb_data.checks.families import find_incomplete_families
from carb_data.validation import read_file

__all__ = ["Applied", "apply", "companion", "line_beside"]

SUFFIX = ".review.json"
"""Ending of the file beside a reviewed data set."""


class Verdicts(OutputPart):
    """A set that people looked at, with what they said and proposed."""

    set_id: str
    verdict: Literal["keep", "fix", "retire", "open"]
    reasons: tuple[str, ...]
    tally: SetTally


class Applied(Output):
    """The file beside a reviewed data set, and the output of ``carb review apply --json``."""

    schema_: Literal["carb.review.applied/1"] = Field(default="carb.review.applied/1", alias="schema")
    fingerprint: str
    """Fingerprint of the reviewed data set that was written."""
    original: str
    """Fingerprint of the data set that was reviewed."""
    rules: str
    kept: int
    """Sets written; retired ones are not."""
    verified: int
    incomplete: tuple[str, ...] = ()
    """Mirrored families of the written sets that lack the set of one of their answers: accuracy over families leaves
    them out."""
    lines: Lines
    """The human line on the sets that were reviewed, retired ones included: it is not raised by leaving out what
    people did not agree on."""
    sets: tuple[Verdicts, ...]
    """Every set that is not open."""


def apply(dataset: Dataset, report: ReviewReport, *, verified_only: bool = False) -> tuple[Dataset, Applied]:
    """Put votes on every reviewed response, mark verified sets, and leave retired ones out.

    Args:
        dataset: the data set that was reviewed.
        report: the report that ``carb_cli.review.report.report`` made of the review.
        verified_only: whether to keep verified sets alone.

    Raises:
        CarbError: the review is of another data set.
    """
    tallies = {one.set_id: one for one in report.sets}
    decisions = {one.set_id: one for one in report.decisions}
    unknown = sorted(set(tallies) - {item.id for item in dataset})
    if unknown:
        raise CarbError(f"The review is of other data: it has sets that --data has not, such as {unknown[0]}.")
    wanted = ("keep",) if verified_only else ("keep", "fix", "open")
    kept = [
        _voted(item, tallies[item.id], decisions[item.id], report.rules) if item.id in tallies else item
        for item in dataset
        if (decisions[item.id].verdict if item.id in decisions else "open") in wanted
    ]
    made = Dataset(kept)
    return made, Applied(
        fingerprint=made.fingerprint,
        original=dataset.fingerprint,
        rules=report.rules,
        kept=len(made),
        incomplete=tuple(str(made[one.item_id].family) for one in find_incomplete_families(made)),
        verified=sum(decision.verdict == "keep" for decision in report.decisions),
        lines=report.lines,
        sets=_listed(report.decisions, tallies),
    )


def _listed(decisions: Sequence[Decision], tallies: dict[str, SetTally]) -> tuple[Verdicts, ...]:
    return tuple(
        Verdicts(set_id=one.set_id, verdict=one.verdict, reasons=one.reasons, tally=tallies[one.set_id])
        for one in decisions
        if one.verdict != "open"
    )


def _voted(item: BonSet, tally: SetTally, decision: Decision, rules: str) -> BonSet:
    if not tally.picks:
        return item
    found = {option.response: option for option in tally.options}

    def with_votes(response: Response) -> Response:
        option = found[response.id]
        votes = Votes(asked=tally.picks, right=option.best + option.right)
        return response.model_copy(update={"votes": votes})

    update: dict[str, object] = {"responses": tuple(map(with_votes, item.responses))}
    if decision.verdict == "keep":
        mark = f"verified by {tally.reviews} native speakers (rules {rules})"
        notes = "; ".join(part for part in (item.provenance.notes, mark) if part)
        update["provenance"] = item.provenance.model_copy(update={"notes": notes})
    return item.model_copy(update=update)


def companion(path: Path) -> Path:
    """Path of the file beside a reviewed data set."""
    return path.with_name(f"{path.stem}{SUFFIX}")


def line_beside(path: Path) -> Applied | None:
    """What people said of a data set, for reports that show the human line; null where it was not reviewed.

    Args:
        path: the file of the data set.

    Raises:
        CarbError: the file beside it cannot be read.
    """
    beside = companion(path)
    if not beside.is_file():
        return None
    return read_file(Applied, beside, "result of `carb review apply`")
