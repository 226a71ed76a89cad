"""All checks of a data set in one report."""

from __future__ import annotations

from collections import Counter

from carb_data.audit import audit
from carb_data.checks.families import find_incomplete_families
from carb_data.checks.report import CheckReport, SetCount
from carb_data.checks.texts import find_bad_perturbations, find_duplicates, find_wrong_languages, languages_of
from carb_data.dataset import Dataset
from carb_data.labels import names_culture
from carb_data.models import Domain, Role

NEAR = 0.85


def check(dataset: Dataset, *, near: float = NEAR) -> CheckReport:
    """Check a data set whose form is valid (``load`` has seen to that).

    Finds copies and near-copies, texts in another language than declared, perturbations that are not what they say,
    families that lack the set of an answer, attacks them from the answers alone (``audit``), and counts how the sets
    are spread.

    Args:
        dataset: the data set to check.
        near: share of character n-grams, in (0, 1], that makes two prompts near-duplicates.

    Raises:
        MissingExtraError: the language detector or numpy is not installed (extra ``checks``).
    """
    items = list(dataset)
    order = {item.id: place for place, item in enumerate(items)}
    spoken = languages_of(items)
    findings = [
        *find_duplicates(items, near),
        *find_wrong_languages(items, spoken),
        *find_bad_perturbations(items),
        *find_incomplete_families(items),
    ]
    cells = Counter((item.culture, item.domain) for item in items)
    places = Counter(next(place for place, r in enumerate(item.responses) if r.role is Role.CHOSEN) for item in items)
    return CheckReport(
        sets=len(dataset),
        fingerprint=dataset.fingerprint,
        findings=tuple(sorted(findings, key=lambda finding: order[finding.item_id])),
        audit=audit(
            dataset,
            more={
                "language": lambda some: [[float(spoken[r.text, i.language]) for r in i.responses] for i in some],
                "label": lambda some: [[float(names_culture(r.text, i.culture)) for r in i.responses] for i in some],
            },
        ),
        balance=tuple(
            SetCount(culture=culture, domain=domain, sets=cells[culture, domain])
            for culture in sorted({item.culture for item in items})
            for domain in Domain
        ),
        positions=tuple(places[place] for place in range(max((len(i.responses) for i in items), default=0))),
        licenses=dict(Counter(item.provenance.license for item in items).most_common()),
        sources=dict(Counter(item.provenance.source for item in items).most_common()),
    )
