"""What the answers to one set say together, and what follows: rules keep, fix or retire a set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from carb_cli.review.asked import ReviewItem
from carb_cli.review.recording import GivenAnswer
from carb_data import CarbError
from carb_data.models import Frozen
from carb_data.validation import validate

__all__ = ["Decision", "OptionTally", "Rule", "Rules", "SetTally", "decide", "read_rules", "tallies", "tally"]

Share = Annotated[float, Field(ge=0, le=1)]
Verdict = Literal["keep", "fix", "retire", "open"]
VERDICTS: tuple[Verdict, ...] = ("keep", "fix", "retire", "open")
STRICT = "strict"
STRICT_FILE = resources.files("carb_cli.review") / "rules" / "strict.json"


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


class Rule(Frozen):
    """A set whose measure is at least, or below, a share gets the verdict, with the reason."""

    verdict: Literal["fix", "retire"]
    measure: Literal["objected", "key_picked", "key_wrong", "other_right", "depends", "unnatural"]
    """A share in the tally of a set; a rule does not apply where it is null."""
    at_least: Share | None = None
    below: Share | None = None
    reason: str

    @model_validator(mode="after")
    def _one_border(self) -> Self:
        if (self.at_least is None) == (self.below is None):
            raise ValueError("give either at_least or below")
        return self

    def applies(self, tally: SetTally) -> bool:
        """Does the rule apply to a set?"""
        value: float | None = getattr(tally, self.measure)
        if value is None:
            return False
        return value >= self.at_least if self.at_least is not None else value < (self.below or 0)


class Rules(Frozen):
    """Rules with a name and a version, so that a verdict can say by what it was reached."""

    name: str
    version: int
    min_reviews: Annotated[int, Field(ge=1)]
    """Reviews that a set needs before it can be kept, fixed or retired; below that it stays open."""
    rules: tuple[Rule, ...]


class Decision(Frozen):
    """The verdict on a set."""

    set_id: str
    verdict: Verdict
    """``keep``: verified; ``open``: too few reviews."""
    reasons: tuple[str, ...] = ()
    """Every rule that applies, also those of a milder verdict."""


def read_rules(name: str | Path = STRICT) -> Rules:
    """Read rules: ``strict``, which come with the package, or a JSON file of the same form.

    Raises:
        CarbError: there is no such file, or it is not of this form.
    """
    try:
        text = (STRICT_FILE if str(name) == STRICT else Path(name)).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CarbError(f"Cannot read the rules {name}: {error}. Give 'strict' or a JSON file.") from None
    return validate(
        Rules,
        text.encode(),
        f"{name} holds no rules",
        f"An example: {STRICT_FILE}.",
    )


def decide(tally: SetTally, rules: Rules) -> Decision:
    """The verdict on a set: ``retire`` before ``fix`` before ``keep``; ``open`` below the number of reviews."""
    if tally.reviews < rules.min_reviews:
        missing = rules.min_reviews - tally.reviews
        return Decision(set_id=tally.set_id, verdict="open", reasons=(f"reviews still needed: {missing}",))
    hit = [rule for rule in rules.rules if rule.applies(tally)]
    verdict: Verdict = "keep"
    if hit:
        verdict = "retire" if any(rule.verdict == "retire" for rule in hit) else "fix"
    return Decision(set_id=tally.set_id, verdict=verdict, reasons=tuple(rule.reason for rule in hit))
