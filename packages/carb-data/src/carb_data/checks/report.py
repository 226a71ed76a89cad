"""The result of checking a data set."""

from __future__ import annotations

from typing import Literal

from carb_data.audit.report import Attack, AuditReport
from carb_data.models import Frozen

__all__ = ["CheckReport", "Finding"]


class Finding(Frozen):
    """One thing about one set that is wrong, or that deserves a look."""

    severity: Literal["error", "warning"]
    """``error``: the set contradicts itself or another one; ``warning``: likely a mistake, for a person to decide."""
    check: Literal["duplicate", "near-duplicate", "language", "perturbation", "family"]
    item_id: str
    field: str
    """``prompt``, ``family`` or the id of a response."""
    message: str


class SetCount(Frozen):
    """Number of sets of one culture in one domain."""

    culture: str
    domain: str
    sets: int


class CheckReport(Frozen):
    """What was found in a data set whose form is valid."""

    sets: int
    fingerprint: str
    findings: tuple[Finding, ...]
    """Findings in the order of the data set."""
    audit: AuditReport
    """What attacks on the answers alone got; with two that look at more: ``language`` (is an answer in the prompt's
    language?) and ``label`` (does it name the set's culture?)."""
    balance: tuple[SetCount, ...]
    """Sorted by culture and domain; combinations without sets are listed with 0."""
    positions: tuple[int, ...]
    """How often ``chosen`` stands at each position in the file, the first position first."""
    licenses: dict[str, int]
    """Number of sets under each licence, most frequent first."""
    sources: dict[str, int]
    """Number of sets from each source, most frequent first."""

    @property
    def passed(self) -> bool:
        """Whether no finding is an error, and no attack gets ten points beyond chance over the whole."""
        return all(finding.severity != "error" for finding in self.findings) and not self.leaks

    @property
    def leaks(self) -> tuple[Attack, ...]:
        """The attacks whose interval lies ten points beyond chance over all or all main sets."""
        return tuple(attack for attack in self.audit.working if attack.severe and attack.level in ("all", "main"))

    @property
    def warnings(self) -> int:
        """Number of findings that are warnings."""
        return sum(finding.severity == "warning" for finding in self.findings)
