"""What the answers to one set say together, and what follows: rules keep, fix or retire a set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal, NamedTuple

from carb_cli.review.asked import ReviewItem
from carb_cli.review.recording import GivenAnswer
from carb_data.models import Frozen

__all__ = ["MIN_REVIEWS", "RULES_NAME", "Decision", "OptionTally", "SetTally", "decide", "tallies", "tally"]

Verdict = Literal["keep", "fix", "retire", "open"]
VERDICTS: tuple[Verdict, ...] = ("keep", "fix", "retire", "open")


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
    """What ``depends`` depends on: region, generation, religion or other."""
    which: tuple[str, ...] = ()
    """The reviewers' words for what it depends on."""
    better: tuple[str, ...] = ()
    """Better wordings that were offered."""


class SetTally(Frozen):
    """Answers to one set. Shares are null where nobody was counted."""

    set_id: str
    reviews: int
    """Reviewers who picked an answer or objected to the question."""
    picks: int
    """Reviewers who picked an answer."""
    unknown: int
    """Reviewers who do not know; they count nowhere else."""
    key_picks: int
    objections: int
    options: tuple[OptionTally, ...]
    sources: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    objected: float | None
    """Share of the reviews that object to the question."""
    key_picked: float | None
    """Share of the picks that are the key."""
    key_wrong: float | None
    """Share of the picks that come with the verdict that the key is wrong here."""
    other_right: float | None
    """Largest share of a wrong answer that is said to be best here or right here too."""
    depends: float | None
    """Largest share of an answer that is said to depend."""
    unnatural: float | None
    """Largest share of an answer that is said not to read naturally."""


def tally(item: ReviewItem, answers: Iterable[GivenAnswer]) -> SetTally:
    """Count the answers to one item."""
    found = [given.answer for given in answers]
    picked = [answer for answer in found if answer.status == "answered"]
    objections = sum(answer.status == "objected" for answer in found)
    options = []
    for token in item.tokens:
        opinions = [answer.opinions[token] for answer in picked]
        verdicts = Counter(str(opinion.verdict) for opinion in opinions)
        options.append(
            OptionTally(
                response=item.responses[token],
                best=verdicts["best"],
                right=verdicts["right"],
                wrong=verdicts["wrong"],
                depends=verdicts["depends"],
                unnatural=sum(not opinion.natural for opinion in opinions),
                on=dict(sorted(Counter(on for opinion in opinions for on in opinion.on).items())),
                which=tuple(opinion.which for opinion in opinions if opinion.which),
                better=tuple(opinion.better for opinion in opinions if opinion.better),
            )
        )
    key = next(option for option, token in zip(options, item.tokens, strict=True) if token == item.key)
    others = [option for option in options if option is not key]
    n = len(picked)

    def share(count: int, of: int = n) -> float | None:
        return count / of if of else None

    return SetTally(
        set_id=item.set_id,
        reviews=n + objections,
        picks=n,
        unknown=sum(answer.status == "unknown" for answer in found),
        key_picks=key.best,
        objections=objections,
        options=tuple(options),
        sources=tuple(answer.source for answer in found if answer.source),
        comments=tuple(answer.comment for answer in found if answer.comment),
        objected=share(objections, n + objections),
        key_picked=share(key.best),
        key_wrong=share(key.wrong),
        other_right=share(max(option.best + option.right for option in others)),
        depends=share(max(option.depends for option in options)),
        unnatural=share(max(option.unnatural for option in options)),
    )


def tallies(items: Iterable[ReviewItem], answers: Iterable[GivenAnswer]) -> list[SetTally]:
    """A tally for each item, answered or not, in the order of the items."""
    kept = list(items)
    found: dict[str, list[GivenAnswer]] = {item.id: [] for item in kept}
    for one in answers:
        if one.item.id in found:
            found[one.item.id].append(one)
    return [tally(item, found[item.id]) for item in kept]


class Rule(NamedTuple):
    """A set whose share is at least, or below, a border gets the verdict, with the reason."""

    verdict: Literal["fix", "retire"]
    share: str
    """A share in the tally of a set; the rule does not apply where it is null."""
    border: float
    reason: str
    below: bool = False

    def applies(self, counted: SetTally) -> bool:
        """Does the rule apply to a set?"""
        value: float | None = getattr(counted, self.share)
        return value is not None and (value < self.border if self.below else value >= self.border)


RULES = (
    Rule("retire", "objected", 0.5, "half of the reviewers or more say that the question itself is wrong"),
    Rule("retire", "key_picked", 0.5, "fewer than half of the picks are the key", below=True),
    Rule("retire", "key_wrong", 0.34, "a third of the reviewers or more find the key wrong here"),
    Rule("fix", "objected", 0.2, "a fifth of the reviewers or more say that the question itself is wrong"),
    Rule("fix", "key_picked", 0.75, "fewer than three quarters of the picks are the key", below=True),
    Rule("fix", "other_right", 0.34, "a third of the reviewers or more find a wrong answer right here too"),
    Rule("fix", "depends", 0.34, "a third of the reviewers or more say that it depends"),
    Rule("fix", "unnatural", 0.34, "a third of the reviewers or more find that a text does not read naturally"),
)
RULES_NAME = "strict/1"
"""Written beside every verdict; another number where a rule changes."""
MIN_REVIEWS = 3
"""Reviews that a set needs before it can be kept, fixed or retired; below that it stays open."""


class Decision(Frozen):
    """The verdict on a set."""

    set_id: str
    verdict: Verdict
    """``keep``: verified; ``open``: too few reviews."""
    reasons: tuple[str, ...] = ()
    """Every rule that applies, also those of a milder verdict."""


def decide(counted: SetTally) -> Decision:
    """The verdict on a set: ``retire`` before ``fix`` before ``keep``; ``open`` below the number of reviews."""
    if counted.reviews < MIN_REVIEWS:
        missing = MIN_REVIEWS - counted.reviews
        return Decision(set_id=counted.set_id, verdict="open", reasons=(f"reviews still needed: {missing}",))
    hit = [rule for rule in RULES if rule.applies(counted)]
    verdict: Verdict = "keep"
    if hit:
        verdict = "retire" if any(rule.verdict == "retire" for rule in hit) else "fix"
    return Decision(set_id=counted.set_id, verdict=verdict, reasons=tuple(rule.reason for rule in hit))
