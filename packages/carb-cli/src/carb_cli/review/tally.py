"""What the answers to one set say together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from carb_cli.review.items import ReviewItem
from carb_cli.review.recording import GivenAnswer
from carb_data.models import Frozen

__all__ = ["OptionTally", "SetTally", "tallies", "tally"]


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
    """Count the answers to one item of kind ``choice``."""
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
    """A tally for each item of kind ``choice``, answered or not, in the order of the items."""
    kept = [item for item in items if item.kind == "choice"]
    found: dict[str, list[GivenAnswer]] = {item.id: [] for item in kept}
    for one in answers:
        if one.item.id in found:
            found[one.item.id].append(one)
    return [tally(item, found[item.id]) for item in kept]
