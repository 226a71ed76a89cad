"""The result of an audit."""

from __future__ import annotations

from typing import Literal

from carb_data.models import Frozen

__all__ = ["KNOWN_TOPICS", "Attack", "AuditReport", "WorstSet"]

KNOWN_TOPICS = " (known topics)"
"""Ending of an attack's name that was trained on other sets of the same topics: it may have learned facts."""


class Attack(Frozen):
    """How far one attack gets that does not know what is asked about which culture."""

    attack: str
    """Its name; it takes the answer of which it has most. With the ending ``KNOWN_TOPICS``, a classifier that has seen
    the topic in another set: shown beside the same attack on new topics, and never said to work."""
    level: Literal["all", "main", "domain", "culture"]
    """``all`` sets; the ``main`` ones, where there are mirrors; those of a ``domain`` or a ``culture`` (main ones)."""
    group: str | None
    """The domain or culture; null for the other levels."""
    accuracy: float | None
    """Share of sets in which the attack takes ``chosen``; k answers that tie count 1/k. Null where there is no set."""
    low: float | None
    high: float | None
    """95% interval of ``accuracy``, corrected for the number of attacks and of groups of its level (Bonferroni).
    Wilson's (1927, J. Am. Stat. Assoc. 22:209), on the effective number of sets: those of one source item or family
    count together."""
    chance: float | None
    """Accuracy of a blind pick: the mean of 1/N over the sets of N answers."""
    effect: float | None
    """Cohen's d of what the attack looks at between right and wrong answers (Cohen 1988, section 2.2); null where it
    does not vary."""
    n: int
    """Number of sets."""

    @property
    def works(self) -> bool:
        """Whether the interval lies above chance, and not by what another set of the topic says is true."""
        if self.attack.endswith(KNOWN_TOPICS):
            return False
        return self.low is not None and self.chance is not None and self.low > self.chance

    @property
    def severe(self) -> bool:
        """Whether its interval lies ten points or more beyond chance."""
        return self.low is not None and self.chance is not None and self.low >= self.chance + 0.1


class WorstSet(Frozen):
    """A set that an attack which works solves most clearly."""

    attack: str
    item_id: str
    margin: float
    """How far the right answer is ahead of the next, in standard deviations of what the attack looks at."""


class AuditReport(Frozen):
    """What attacks on the answers alone got out of a data set."""

    sets: int
    mirrors: int
    """Sets of families that count for no culture's accuracy."""
    fingerprint: str
    attacks: tuple[Attack, ...]
    """Every attack at every level."""
    worst: tuple[WorstSet, ...]
    """Up to five sets for each attack that works over the whole."""

    @property
    def working(self) -> tuple[Attack, ...]:
        """The attacks that work, the strongest first."""
        found = (attack for attack in self.attacks if attack.works)
        return tuple(sorted(found, key=lambda a: (a.chance or 0.0) - (a.accuracy or 0.0)))

    @property
    def passed(self) -> bool:
        """Whether no attack works at any level."""
        return not self.working
