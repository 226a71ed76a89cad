"""An audit: every attack on every level of a data set."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from carb_data.audit.features import SURFACE
from carb_data.audit.learned import LEARNED, groups, learned, vectors
from carb_data.audit.report import KNOWN_TOPICS, Attack, AuditReport, WorstSet
from carb_data.dataset import Dataset
from carb_data.models import BonSet, Role
from carb_data.registry import cultures, is_main

__all__ = ["audit", "cohen_d", "wilson"]

Rows = Sequence[Sequence[float]]
WORST = 5


def audit(
    dataset: Dataset,
    *,
    more: Mapping[str, Callable[[Sequence[BonSet]], Rows]] | None = None,
    learn: bool = True,
    seed: int = 0,
) -> AuditReport:
    """Attack a data set from the answers alone.

    Args:
        dataset: the data set to attack. Families are attacked as wholes and, where they have mirrors, by their main
            sets alone.
        more: further attacks by name: a number for each answer of each set. Language models that rate the answers
            without the question come in here.
        learn: whether to train classifiers on words and characters as well; this needs scikit-learn (extra
            ``checks``).
        seed: the seed that divides the sets into the classifiers' folds.

    Raises:
        MissingExtraError: ``learn`` and scikit-learn is not installed.
    """
    items = list(dataset)
    kept = [n for n, item in enumerate(items) if item.family is None or is_main(item.culture, item.language)]
    mains = [items[n] for n in kept]
    attacks: dict[str, Callable[[Sequence[BonSet]], Rows]] = {
        name: lambda some, rule=rule: [rule(item) for item in some]  # type: ignore[misc]  # bound per turn
        for name, rule in SURFACE.items()
    }
    trained = _learned_names(mains) if learn else ()
    kept_matrix = cache(lambda name: vectors(mains, name))  # classifiers see the main sets alone
    for name in trained:
        matrix = partial(kept_matrix, name.removesuffix(KNOWN_TOPICS))
        attacks[name] = partial(learned, name=name, seed=seed, matrix=matrix)
    attacks |= dict(more or {})
    has_mirrors = len(mains) != len(items)
    whole = _level("all", items, lambda _: None)
    levels = [_level("main", mains, lambda _: None)] if has_mirrors else []
    levels += [_level("domain", mains, _domain), _level("culture", mains, _culture)]
    found: dict[str, list[Attack]] = {"all": [], **{level.name: [] for level in levels}}
    worst: list[WorstSet] = []
    for name, attack in attacks.items():
        if has_mirrors and name in trained:  # over whole families it is at chance, whatever it has learned
            values, rows = attack(mains), []
        else:
            over_all = attack(items)
            rows = whole.rows(name, over_all, len(attacks))
            values = [over_all[n] for n in kept]
        found["all"] += rows
        for level in levels:
            own = level.rows(name, values, len(attacks))
            found[level.name] += own
            rows += own if level.name == "main" else []
        if any(row.works for row in rows):
            worst += _worst(name, mains, values)
    return AuditReport(
        sets=len(items),
        mirrors=len(items) - len(mains),
        fingerprint=dataset.fingerprint,
        attacks=tuple(row for rows in found.values() for row in rows),
        worst=tuple(worst),
    )


def _learned_names(items: Sequence[BonSet]) -> tuple[str, ...]:
    """Each learned attack, and once more on known topics where different source items share one."""
    recurring = len(set(groups(items))) != len(set(groups(items, topics=True)))
    return (*LEARNED, *(name + KNOWN_TOPICS for name in LEARNED)) if recurring else LEARNED


def _domain(item: BonSet) -> str:
    return item.domain.value


def _culture(item: BonSet) -> str:
    return cultures.root(item.culture).id if item.culture in cultures else item.culture


@dataclass(frozen=True, slots=True)
class _Level:
    """Sets, the groups of them for which there is an accuracy, and which sets of a group count together."""

    name: str
    items: Sequence[BonSet]
    places: Mapping[str | None, list[int]]
    together: Mapping[str | None, list[str]]

    def rows(self, attack: str, values: Rows, attacks: int) -> list[Attack]:
        tests = attacks * max(1, len(self.places))
        return [
            _attack(
                {"attack": attack, "level": self.name, "group": group, "n": len(own)},
                [self.items[n] for n in own],
                [values[n] for n in own],
                self.together[group],
                tests,
            )
            for group, own in self.places.items()
        ]


def _level(name: str, items: Sequence[BonSet], key: Callable[[BonSet], str | None]) -> _Level:
    places: dict[str | None, list[int]] = {} if name in ("domain", "culture") else {None: []}
    for place, item in enumerate(items):
        places.setdefault(key(item), []).append(place)
    places = dict(sorted(places.items(), key=str))
    return _Level(name, items, places, {group: groups([items[n] for n in own]) for group, own in places.items()})


def _attack(
    fields: Mapping[str, object], items: Sequence[BonSet], values: Rows, together: Sequence[str], tests: int
) -> Attack:
    if not items:
        return Attack.model_validate({**fields, **dict.fromkeys(("accuracy", "low", "high", "chance", "effect"))})
    wins = [_win(item, row) for item, row in zip(items, values, strict=True)]
    sides: dict[Role, list[float]] = {Role.CHOSEN: [], Role.REJECTED: []}
    for item, row in zip(items, values, strict=True):
        for response, value in zip(item.responses, row, strict=True):
            sides[response.role].append(value)
    accuracy = statistics.fmean(wins)
    z = statistics.NormalDist().inv_cdf(1 - 0.025 / tests)
    low, high = wilson(accuracy, _effective(wins, together), z)
    return Attack.model_validate(
        {
            **fields,
            "accuracy": accuracy,
            "low": low,
            "high": high,
            "chance": statistics.fmean(1 / len(item.responses) for item in items),
            "effect": cohen_d(sides[Role.CHOSEN], sides[Role.REJECTED]),
        }
    )


def _win(item: BonSet, row: Sequence[float]) -> float:
    best = [r.role is Role.CHOSEN for r, value in zip(item.responses, row, strict=True) if value == max(row)]
    return sum(best) / len(best)


def _effective(wins: Sequence[float], names: Sequence[str]) -> float:
    """How many independent sets have the variance of these, of which those with one name belong together.

    From the cluster-robust variance of the mean; not more than there are sets, nor fewer than there are names.
    """
    n, mean = len(wins), statistics.fmean(wins)
    apart = len(set(names))
    if apart == n:
        return float(n)
    sums: Counter[str] = Counter()
    for win, name in zip(wins, names, strict=True):
        sums[name] += win - mean  # type: ignore[assignment]  # a Counter of floats
    variance = sum(total**2 for total in sums.values()) / n**2
    return float(n) if variance == 0 else min(float(n), max(float(apart), mean * (1 - mean) / variance))


def _worst(name: str, items: Sequence[BonSet], values: Rows) -> list[WorstSet]:
    spread = statistics.pstdev(value for row in values for value in row) or 1.0
    margins = []
    for item, row in zip(items, values, strict=True):
        right = next(value for r, value in zip(item.responses, row, strict=True) if r.role is Role.CHOSEN)
        wrong = max(value for r, value in zip(item.responses, row, strict=True) if r.role is not Role.CHOSEN)
        if right > wrong:
            margins.append(WorstSet(attack=name, item_id=item.id, margin=(right - wrong) / spread))
    return sorted(margins, key=lambda one: -one.margin)[:WORST]


def wilson(share: float, n: float, z: float = statistics.NormalDist().inv_cdf(0.975)) -> tuple[float, float]:
    """Score interval of a share of ``n`` independent trials (Wilson 1927); shares of ties count as they are.

    Args:
        share: the observed share, between 0 and 1.
        n: number of trials; an effective number need not be whole.
        z: quantile of the normal distribution; by default that of 95%.
    """
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def cohen_d(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Difference of means over the pooled standard deviation (Cohen 1988, section 2.2); None where that is 0."""
    degrees = len(first) + len(second) - 2
    if degrees < 1:
        return None
    mean_first, mean_second = statistics.fmean(first), statistics.fmean(second)
    squares = sum((x - mean_first) ** 2 for x in first) + sum((x - mean_second) ** 2 for x in second)
    return (mean_first - mean_second) / math.sqrt(squares / degrees) if squares > 0 else None
