"""``carb data check``: everything that a program can say about a data set, in one report with sections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from carb_data.audit import Attack, AuditReport, audit
from carb_data.dataset import Dataset
from carb_data.models import BonSet, Domain, Frozen
from carb_data.overlap import ContaminationReport, check_contamination
from carb_data.set_checks import Finding, find

__all__ = ["CheckReport", "Finding", "check"]


class CheckReport(Frozen):
    """What was found in a data set whose form is valid; a section each."""

    sets: int
    fingerprint: str
    findings: tuple[Finding, ...]
    """What is wrong with single sets, in the order of the data set."""
    audit: AuditReport
    """What attacks on the answers alone got."""
    contamination: ContaminationReport | None
    """What the texts it was checked against have of it; null where none were given."""
    balance: dict[str, dict[str, int]]
    """Number of sets by culture and domain."""
    licenses: dict[str, int]
    """Number of sets under each licence, most frequent first."""
    sources: dict[str, int]
    """Number of sets from each source, most frequent first."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that are errors."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def leaks(self) -> tuple[Attack, ...]:
        """The attacks whose interval lies ten points beyond chance over all or all main sets."""
        return tuple(attack for attack in self.audit.working if attack.severe and attack.level in ("all", "main"))

    @property
    def passed(self) -> bool:
        """Whether there are no errors, no leaks, and nothing of it in the texts it was checked against."""
        return not self.errors and not self.leaks and (self.contamination is None or self.contamination.clean)


def check(
    dataset: Dataset,
    *,
    against: Iterable[str | BonSet] | None = None,
    more: Mapping[str, Callable[[Sequence[BonSet]], Sequence[Sequence[float]]]] | None = None,
    seed: int = 0,
) -> CheckReport:
    """Check a data set whose form is valid (``load`` has seen to that).

    Args:
        dataset: the data set to check.
        against: training data: texts, or sets. Null looks for none of it.
        more: further attacks by name, as ``audit`` takes them.
        seed: the seed that divides the sets into the folds of the attacks that are trained.

    Raises:
        MissingExtraError: a library of the extra ``checks`` is not installed.
    """
    items = list(dataset)
    cells = Counter((item.culture, item.domain) for item in items)
    return CheckReport(
        sets=len(dataset),
        fingerprint=dataset.fingerprint,
        findings=tuple(find(items)),
        audit=audit(dataset, more=more, seed=seed),
        contamination=None if against is None else check_contamination(against, items),
        balance={
            culture: {domain.value: cells[culture, domain] for domain in Domain}
            for culture in sorted({item.culture for item in items})
        },
        licenses=dict(Counter(item.provenance.license for item in items).most_common()),
        sources=dict(Counter(item.provenance.source for item in items).most_common()),
    )
