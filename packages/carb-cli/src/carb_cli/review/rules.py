"""Which sets are kept, fixed or retired: rules in a file, applied to tallies."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from carb_cli.review.tally import SetTally
from carb_data import CarbError
from carb_data.models import Frozen
from carb_data.validation import validate

__all__ = ["Decision", "Rule", "Rules", "decide", "read_rules"]

Share = Annotated[float, Field(ge=0, le=1)]
Verdict = Literal["keep", "fix", "retire", "open"]
STRICT = "strict"


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
        if str(name) == STRICT:
            text = (resources.files("carb_cli.review") / "rules" / "strict.json").read_text("utf-8")
        else:
            text = Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CarbError(f"Cannot read the rules {name}: {error}. Give 'strict' or a JSON file.") from None
    return validate(Rules, text.encode(), f"{name} holds no rules", "`carb review rules` prints an example.")


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
