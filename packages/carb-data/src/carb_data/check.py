"""``carb data check``: everything that a program can say about a data set, in one report with
sections."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from carb_data.audit import Attack, AuditReport, audit
from carb_data.dataset import Dataset
from carb_data.home import HomeLine, home_line, home_lines
from carb_data.language import (
    DETECTED,
    UNDETERMINED,
    in_languages,
    primary,
    same_language,
    shows_another_language,
)
from carb_data.models import BonSet, Frozen, Perturbation, Response, Role
from carb_data.overlap import ContaminationReport, Entry, NgramIndex, check_contamination, normalise
from carb_data.surface import is_known, names_culture

__all__ = ["CheckReport", "Finding", "check"]

NEAR = 0.85
"""Share of a prompt's n-grams that makes two prompts near-duplicates."""


Severity = Literal["error", "warning"]
Check = Literal["duplicate", "near-duplicate", "language", "perturbation", "family"]


class Finding(Frozen):
    """One thing about one set that is wrong, or that deserves a look."""

    severity: Severity
    """``error``: the set contradicts itself or another one; ``warning``: likely a mistake, for a
    person to decide."""
    check: Check
    item_id: str
    field: str
    """``prompt``, ``family`` or the id of a response."""
    message: str


class CheckReport(Frozen):
    """The findings about a data set whose form is valid, by section."""

    sets: int
    fingerprint: str
    findings: tuple[Finding, ...]
    """Faults of single sets, in the order of the data set."""
    audit: AuditReport
    """The results of attacks on the answers alone."""
    home_line: HomeLine
    """The accuracy of "always the home's answer" in the main sets: no surface feature, and no
    defect."""
    home_by_language: dict[str, HomeLine]
    undetected: dict[str, int]
    """Languages that the detector lacks, with the sets in them, whose texts it did not check."""
    contamination: ContaminationReport | None
    """Its overlap with the texts of ``against``; null where none were given."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that are errors."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def leaks(self) -> tuple[Attack, ...]:
        """The attacks whose interval lies ten points beyond chance over all or all main sets."""
        severe = (attack for attack in self.audit.working if attack.severe)
        return tuple(attack for attack in severe if attack.level in ("all", "main"))

    @property
    def passed(self) -> bool:
        """Whether there are no errors, no leaks, and nothing of it in the texts it was checked
        against."""
        if self.contamination is not None and not self.contamination.clean:
            return False
        return not self.errors and not self.leaks


def check(
    dataset: Dataset,
    *,
    against: Iterable[Entry] | None = None,
) -> CheckReport:
    """Check a data set whose form is valid (``load`` checks it).

    Args:
        dataset: the data set to check.
        against: training data: texts, or sets. Null looks for none of it.

    Raises:
        MissingExtraError: a library of the extra ``checks`` is not installed.
    """
    items = list(dataset)
    # First, since a mistake in the training data is not to be reported after minutes.
    contamination = None
    if against is not None:
        contamination = check_contamination(against, items)
    order = {item.id: index for index, item in enumerate(items)}
    findings = [
        *_duplicates(items),
        *_wrong_languages(items),
        *_bad_perturbations(items),
        *incomplete_families(items),
    ]
    findings.sort(key=lambda finding: order[finding.item_id])
    seen = {*DETECTED, UNDETERMINED}
    undetected = Counter(item.language for item in items if primary(item.language) not in seen)
    return CheckReport(
        sets=len(dataset),
        fingerprint=dataset.fingerprint,
        findings=tuple(findings),
        audit=audit(dataset),
        home_line=home_line(dataset),
        home_by_language=home_lines(dataset),
        undetected=undetected,
        contamination=contamination,
    )


def _duplicates(items: Sequence[BonSet]) -> Iterator[Finding]:
    """Prompts that come again, and responses of one set that say the same in the same words.

    The same prompt twice is an error, unless the sets come from one source item (and so never part
    in a split). Each set is compared with all earlier ones and reported once, with the closest.
    """
    for item in items:
        yield from _repeated_responses(item)
    closest: dict[int, tuple[float, bool, int]] = {}
    prompts = [item.prompt_text for item in items]
    index = NgramIndex(prompts, NEAR)
    for match in index.matches(prompts):
        early, late = sorted((index.copies(match.indexed)[0], match.streamed))
        if items[early].source_item != items[late].source_item:
            before = closest.get(late, (0.0, False, 0))
            now = (match.containment, match.exact, early)
            closest[late] = max(before, now)
    for late, (share, exact, early) in sorted(closest.items()):
        one = items[early]
        other = items[late]
        check: Check = "near-duplicate"
        severity: Severity = "warning"
        message = f"shares {share:.0%} of the n-grams of '{one.id}'"
        if exact:
            check = "duplicate"
            message = f"the same prompt as '{one.id}', which has another source item"
            if one.culture == other.culture:
                severity = "error"
        yield _finding(severity, check, other.id, "prompt", message)


def _finding(
    severity: Severity,
    check: Check,
    item_id: str,
    field: str,
    message: str,
) -> Finding:
    return Finding(
        severity=severity,
        check=check,
        item_id=item_id,
        field=field,
        message=message,
    )


_NUMBER = re.compile(r"\d(?:[^\w\s]?[\u00a0\u202f ]?\d)+")


def _repeated_responses(item: BonSet) -> Iterator[Finding]:
    seen: dict[str, Response] = {}
    for response in item.responses:
        # 1.234,5 and 1,234.5 are two answers: marks within numbers count.
        numbers = _NUMBER.findall(response.text)
        words = normalise(response.text) or response.text
        first = seen.setdefault(" ".join([words, *numbers]), response)
        if first is response:
            continue
        message = f"the same text as '{first.id}'"
        if Role.CHOSEN in (first.role, response.role):
            message += ", but the one is right and the other wrong"
        yield _finding("error", "duplicate", item.id, response.id, message)


def _wrong_languages(items: Sequence[BonSet]) -> Iterator[Finding]:
    """Prompts and responses that the detector does not take for their declared language."""
    texts = {}
    for item in items:
        texts[item.id, "prompt"] = (item.prompt_text, item.language)
        for response in item.answers:
            texts[item.id, response.id] = (response.text, response.language)
    pairs = [*{*texts.values()}]
    spoken = dict(zip(pairs, in_languages(pairs), strict=True))
    for (item_id, field), pair in texts.items():
        text, language = pair
        if not spoken[pair] and shows_another_language(text, language):
            message = f"declared as '{language}', but does not look like it"
            yield _finding("warning", "language", item_id, field, message)


def _bad_perturbations(items: Sequence[BonSet]) -> Iterator[Finding]:
    """Perturbed texts that lack the intended change, or change another part."""
    for item in items:
        originals = {response.id: response for response in item.responses}
        for response in item.perturbed:
            assert response.original is not None
            original = originals[response.original]
            for severity, fault in _perturbation_faults(item, original, response):
                message = f"{response.perturbation}: {fault}"
                yield _finding(severity, "perturbation", item.id, response.id, message)


def _perturbation_faults(
    item: BonSet, original: Response, changed: Response
) -> Iterator[tuple[Severity, str]]:
    """A fault, and how bad it is."""
    if normalise(original.text) == normalise(changed.text):
        yield "error", "the same text as its original"
        return
    named = names_culture(original.text, item.culture)
    names = names_culture(changed.text, item.culture)
    if changed.perturbation is Perturbation.RC:
        if not named:
            yield "warning", "its original does not name the culture"
        if names:
            yield "error", "still names the culture"
    elif named and not names and is_known(item.culture, changed.language):
        yield "warning", "no longer names the culture"
    same = same_language(changed.language, original.language)
    translated = changed.perturbation is Perturbation.CL
    if translated and same:
        yield "error", "in the language of its original"
    if not translated and not same:
        yield "error", f"in another language ('{changed.language}') than its original"


def incomplete_families(items: Iterable[BonSet]) -> Iterator[Finding]:
    """Families in which an answer is right in no set, or is missing from one. Each is reported at
    its first set."""
    families: dict[str, list[BonSet]] = {}
    for item in items:
        if item.family is not None:
            families.setdefault(item.family, []).append(item)
    for name, sets in families.items():
        shown = [set(item.texts) for item in sets]
        right = {item.chosen.text for item in sets}
        never = set.union(*shown) - right
        if never:
            answers = len(never) + len(right)
            what = f"lacks sets: {len(never)} of its {answers} answers are right in none"
        elif any(texts != right for texts in shown):
            what = "has sets that show different answers"
        else:
            continue
        message = f"'{name}' {what}; accuracy over families leaves it out"
        yield _finding("warning", "family", sets[0].id, "family", message)
