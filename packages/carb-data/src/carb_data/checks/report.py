"""The result of checking a data set."""

from __future__ import annotations

from typing import Literal

from carb_data.models import Frozen


class Finding(Frozen):
    """One thing about one set that is wrong, or that deserves a look."""

    severity: Literal["error", "warning"]
    """``error``: the set contradicts itself or another one; ``warning``: likely a mistake, for a person to decide."""
    check: Literal["duplicate", "near-duplicate", "language", "perturbation"]
    item_id: str
    field: str
    """``prompt`` or the id of a response."""
    message: str


class Leak(Frozen):
    """How far one surface feature alone tells which response is chosen."""

    feature: Literal["longest", "shortest", "overlap", "punctuation", "language", "label", "first"]
    """The rule that picks a response: the longest or shortest text in characters, the one that shares most of its
    character trigrams with the prompt, the one with most punctuation marks, one in the prompt's language, one that
    names the culture, the one that stands first in the file."""
    culture: str | None
    """Null for the whole data set."""
    accuracy: float | None
    """Share of sets in which the rule picks ``chosen``; k responses that tie count 1/k. Null where there is no set."""
    low: float | None
    high: float | None
    """95% interval of ``accuracy`` (Wilson 1927, J. Am. Stat. Assoc. 22:209)."""
    chance: float | None
    """Accuracy of a blind pick: the mean of 1/N over the sets of N responses."""
    effect: float | None
    """Cohen's d of the feature between chosen and rejected responses (Cohen 1988, section 2.2): positive where
    ``chosen`` has more of it; null where the feature does not vary."""
    n: int
    """Number of sets."""

    @property
    def leaks(self) -> bool:
        """Whether the interval lies above chance."""
        return self.low is not None and self.chance is not None and self.low > self.chance


class Count(Frozen):
    """Number of sets of one culture in one domain."""

    culture: str
    domain: str
    sets: int


class CheckReport(Frozen):
    """What was found in a data set whose form is valid."""

    sets: int
    fingerprint: str
    findings: tuple[Finding, ...]
    """In the order of the data set."""
    leaks: tuple[Leak, ...]
    """Each feature over all sets, then by culture."""
    balance: tuple[Count, ...]
    """Sorted by culture and domain; combinations without sets are listed with 0."""
    positions: tuple[int, ...]
    """How often ``chosen`` stands at each position in the file, the first position first."""
    licenses: dict[str, int]
    """Number of sets under each licence, most frequent first."""
    sources: dict[str, int]
    """Number of sets from each source, most frequent first."""

    @property
    def passed(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.severity != "error" for finding in self.findings)

    @property
    def warnings(self) -> int:
        """Number of findings that are warnings."""
        return sum(finding.severity == "warning" for finding in self.findings)
