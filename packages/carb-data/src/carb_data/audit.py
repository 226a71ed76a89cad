"""The audit's attacks: how far one gets from the answers alone. One that works shows a defect of
the data."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Literal

from carb_data.dataset import Dataset
from carb_data.declaration import order_key
from carb_data.errors import require
from carb_data.joined import Joined
from carb_data.models import BonSet, Frozen, Role
from carb_data.registry import cultures, is_mirror
from carb_data.surface import form_features, surface_features

__all__ = ["AuditReport"]

Rows = Sequence[Sequence[float]]
"""For each set a number for each answer: an attack takes the largest."""
Values = dict[str, Sequence[float]]
"""These numbers by the set's id."""
Level = Literal["all", "main", "domain", "culture"]
_GROUPED: tuple[Level, ...] = ("domain", "culture")
_SPLIT: Mapping[str, Mapping[str, Any]] = {
    "bag of words": {"analyzer": "word", "token_pattern": r"[぀-ヿ㐀-鿿฀-๿]{1,2}|\w+"},
    "character n-grams": {"analyzer": "char", "ngram_range": (1, 4)},
}
LEARNED = tuple(_SPLIT)
FOLDS = 10
LARGEST_TOPIC = 20
"""More source items than this in one language are no topic ("teachers' day") but a kind of question
("idioms")."""
MOST_TEXTS = 40_000
"""Answers that a classifier is trained on, at most. Further sets are tested only."""


class Attack(Frozen):
    """The result of one attack, which knows neither question nor culture."""

    attack: str
    """Its name: ``most`` or ``least`` of a surface feature, or a classifier; it takes the answer
    with the most."""
    level: Level
    """``all`` sets; the ``main`` ones, where there are mirrors; those of a ``domain`` or a
    ``culture`` (main ones)."""
    group: str | None
    """The domain or culture; null for the other levels."""
    accuracy: float | None
    """Share of sets in which the attack takes ``chosen``; k answers that tie count 1/k. Null where
    there is no set."""
    low: float | None
    high: float | None
    """95% interval of ``accuracy``, corrected for the number of attacks and of groups of its level
    (Bonferroni). Clopper and Pearson's (1934, Biometrika 26:404), on the effective number of sets:
    those of one origin count together."""
    chance: float | None
    """Accuracy of a blind pick: the mean of 1/N over the sets of N answers."""
    n: int
    """Number of sets."""

    @property
    def works(self) -> bool:
        """Whether the interval lies above chance."""
        return (self.low or 0.0) > (self.chance or 0.0)

    @property
    def shortfall(self) -> float:
        """How far it stays below chance; negative where it works."""
        return (self.chance or 0.0) - (self.accuracy or 0.0)

    @property
    def severe(self) -> bool:
        """Whether its interval lies ten points or more above chance."""
        return (self.low or 0.0) >= (self.chance or 0.0) + 0.1


class AuditReport(Frozen):
    """The results of attacks on a data set's answers alone."""

    attacks: tuple[Attack, ...]
    """Every attack at every level."""
    detectable: float | None = None
    """The smallest share of (main) sets that an attack must solve to be detected. Null where not
    even an attack that solves all would be."""
    hard: tuple[str, ...]
    """Ids of the sets that no working attack solves by itself. Complete mirrored families are among
    them: an attack that solves one set of a family fails in the others."""

    @property
    def working(self) -> tuple[Attack, ...]:
        """The attacks that work, the strongest first."""
        working = (attack for attack in self.attacks if attack.works)
        return tuple(sorted(working, key=attrgetter("shortfall")))

    @property
    def passed(self) -> bool:
        """Whether no attack works at any level."""
        return not self.working


def audit(
    dataset: Dataset,
    *,
    learn: bool = True,
) -> AuditReport:
    """Attack a data set from the answers alone.

    Args:
        dataset: the data set to attack. Families are attacked as wholes and, where they have
            mirrors, by their main sets alone.
        learn: whether to train classifiers on words and characters as well.

    Raises:
        MissingExtraError: scikit-learn is not installed (extra ``checks``).
    """
    items = list(dataset)
    mains = [item for item in items if not is_mirror(item)]
    origin = dataset.origins
    answers_alone = _surface_attacks(items)
    # Over whole families a classifier of the answers is at chance whatever it learns, so that it
    # sees main sets alone.
    attacks = {**answers_alone}
    if learn:
        for name in LEARNED:
            attacks[name] = _by_id(mains, learned(mains, name, origin))
    count = len(attacks)
    whole = attacks
    levels = _GROUPED
    if len(mains) < len(items):
        whole = answers_alone
        levels = ("main", *_GROUPED)
    results = _at_levels(whole, ("all",), items, origin, count)
    results += _at_levels(attacks, levels, mains, origin, count)
    wide = [row for row in results if row.level in ("all", "main")]
    working = dict.fromkeys(row.attack for row in wide if row.works)
    independent = {origin[item.id] for item in mains}
    working_values = [attacks[name] for name in working]
    return AuditReport(
        attacks=tuple(results),
        detectable=_detectable(mains, len(independent), count),
        hard=_hard(items, mains, working_values),
    )


def _by_id(items: Iterable[BonSet], rows: Rows) -> Values:
    ids = [item.id for item in items]
    return dict(zip(ids, rows, strict=True))


def _at_levels(
    attacks: Mapping[str, Values],
    levels: Sequence[Level],
    items: Sequence[BonSet],
    origin: Mapping[str, str],
    count: int,
) -> list[Attack]:
    """The accuracy of each attack at some levels."""
    results: list[Attack] = []
    for level in levels:
        for name, values in attacks.items():
            results += _rows(name, level, items, values, origin, count)
    return results


def _surface_attacks(items: Sequence[BonSet]) -> dict[str, Values]:
    """Two attacks for each surface feature."""
    known = tuple(culture.id for culture in cultures)
    most: defaultdict[str, Values] = defaultdict(dict)
    least: defaultdict[str, Values] = defaultdict(dict)
    for item in items:
        features = surface_features(item) | form_features(item.texts, known)
        for name, row in features.items():
            opposite = [-value for value in row]
            most[f"most {name}"][item.id] = row
            least[f"least {name}"][item.id] = opposite
    return most | least


def _group(item: BonSet, level: Level) -> str | None:
    if level == "culture":
        return cultures.root_id(item.culture)
    if level == "domain":
        return item.domain.value
    return None


def _rows(
    name: str,
    level: Level,
    items: Sequence[BonSet],
    values: Values,
    origin: Mapping[str, str],
    count: int,
) -> list[Attack]:
    """One attack of ``count`` in each group of a level; sets of one origin count together."""
    groups: defaultdict[str | None, list[BonSet]] = defaultdict(list)
    if level not in _GROUPED:
        groups[None] = []
    for item in items:
        group = _group(item, level)
        groups[group].append(item)
    tests = count * len(groups)
    rows = []
    for group in sorted(groups, key=str):
        members = groups[group]
        accuracy = low = high = chance = None
        if members:
            wins = [share_won(item, values[item.id]) for item in members]
            blind = [1 / len(item.responses) for item in members]
            names = [origin[item.id] for item in members]
            chance = statistics.fmean(blind)
            accuracy = statistics.fmean(wins)
            effective = _effective(wins, names)
            low, high = clopper_pearson(accuracy, effective, 0.05 / tests)
        attack = Attack(
            attack=name,
            level=level,
            group=group,
            accuracy=accuracy,
            low=low,
            high=high,
            chance=chance,
            n=len(members),
        )
        rows.append(attack)
    return rows


def share_won(item: BonSet, row: Sequence[float]) -> float:
    """1 where the right answer has the largest number, 1/k where k answers have it, else 0."""
    # carb_metrics.ties decides elsewhere; these numbers are exact, and no rounding is needed.
    most = max(row)
    pairs = zip(item.responses, row, strict=True)
    best = [response.role is Role.CHOSEN for response, value in pairs if value == most]
    return sum(best) / len(best)


def clopper_pearson(share: float, n: float, error: float) -> tuple[float, float]:
    """Clopper and Pearson's interval; an effective number of trials need not be whole."""
    beta = require("scipy.stats", "carb-data[checks]").beta
    wins = share * n
    losses = n - wins
    tail = error / 2
    low = 0.0
    high = 1.0
    if wins > 0:
        low = float(beta.ppf(tail, wins, losses + 1))
    if wins < n:
        high = float(beta.ppf(1 - tail, wins + 1, losses))
    return low, high


def _detectable(items: Sequence[BonSet], n: int, attacks: int) -> float | None:
    """The smallest share of ``n`` independent sets whose interval lies above chance."""
    if not items:
        return None
    chance = statistics.fmean(1 / len(item.responses) for item in items)
    least = int(chance * n)
    for wins in range(least, n + 1):
        share = wins / n
        low, _ = clopper_pearson(share, n, 0.05 / attacks)
        if low > chance:
            return share
    return None


def _effective(wins: Sequence[float], names: Sequence[str]) -> float:
    """The effective number of sets: as many independent sets would have the same variance of the
    mean.

    Sets with the same name are one cluster. The number lies between the number of clusters and that
    of sets.
    """
    n = len(wins)
    mean = statistics.fmean(wins)
    apart = len(set(names))
    if apart == n:
        return float(n)
    sums = dict.fromkeys(names, 0.0)
    for win, name in zip(wins, names, strict=True):
        sums[name] += win
        sums[name] -= mean
    squares = [total**2 for total in sums.values()]
    variance = sum(squares) / n**2
    if variance == 0:
        return float(n)
    effective = mean * (1 - mean) / variance
    return float(min(n, max(apart, effective)))


def _hard(
    items: Sequence[BonSet], mains: Sequence[BonSet], working: Sequence[Values]
) -> tuple[str, ...]:
    """Sets that none of the attacks solves alone, and those of complete families."""
    solved = {
        item.id for values in working for item in mains if share_won(item, values[item.id]) == 1
    }
    right = Counter((item.family, item.chosen.text) for item in items)
    hard = []
    for item in items:
        times = {right[item.family, response.text] for response in item.responses}
        is_whole = item.family is not None and times == {1}
        if is_whole or item.id not in solved:
            hard.append(item.id)
    return tuple(hard)


# attacks that are learned: classifiers of the answers' words or characters, trained on other sets


def learned(
    items: Sequence[BonSet],
    name: str,
    origin: Mapping[str, str],
) -> list[list[float]]:
    """For each set a number for each answer, from a logistic regression that was trained on other
    sets.

    Folds divide origins and the topics of a language, never sets. A translation, a mirror, a set of
    the same facts or topic does not teach an answer. The attack learns how right answers are
    worded.

    Args:
        items: the sets; each needs two answers or more.
        name: one of ``LEARNED``: words (pairs of characters where a script has no spaces), or 1- to
            4-grams.
        origin: the origin of each set by its id.

    Raises:
        MissingExtraError: scikit-learn is not installed (extra ``checks``).
    """
    linear = require("sklearn.linear_model", "carb-data[checks]")
    text = require("sklearn.feature_extraction.text", "carb-data[checks]")
    tied = _with_topics(items, origin)
    right = []
    fold_of = []
    for item, fold in zip(items, _folds(tied), strict=True):
        for response in item.responses:
            right.append(response.role is Role.CHOSEN)
            fold_of.append(fold)
    values = [0.0] * len(right)
    folds = sorted(set(fold_of))
    if len(folds) < 2:
        return _by_set(items, values)
    texts = [
        f"{response.language.partition('-')[0]} {response.text}"
        for item in items
        for response in item.responses
    ]
    fewest = 1
    if len(texts) > 2000:
        fewest = 2
    vectors = text.TfidfVectorizer(
        **_SPLIT[name],
        sublinear_tf=True,
        max_features=200_000,
        min_df=fewest,
    )
    rows = vectors.fit_transform(texts)
    rows.sort_indices()  # once here, in place of once in each fit
    for fold in folds:
        test = [n for n, its_fold in enumerate(fold_of) if its_fold == fold]
        others = [n for n, its_fold in enumerate(fold_of) if its_fold != fold]
        train = others[:MOST_TEXTS]
        # With fewer answers than features the dual problem is the smaller one; both have one
        # optimum.
        model = linear.LogisticRegression(
            class_weight="balanced",
            solver="liblinear",
            dual=True,
            tol=1e-6,
            max_iter=1000,
            random_state=0,
        )
        labels = [right[n] for n in train]
        model.fit(rows[train], labels)
        scores = model.decision_function(rows[test])
        for n, value in zip(test, scores.tolist(), strict=True):
            # finer differences are the solver's, and would part answers that are level
            values[n] = round(value, 6)
    return _by_set(items, values)


def _with_topics(items: Sequence[BonSet], origin: Mapping[str, str]) -> list[str]:
    """The origin of each set, joined with the others of its language and topic.

    A topic of more than ``LARGEST_TOPIC`` origins, or more than half of its language's, joins
    nothing: the rest must be something to train on.
    """
    spoken: defaultdict[str, set[str]] = defaultdict(set)
    topics: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for item in items:
        name = origin[item.id]
        spoken[item.language].add(name)
        if item.topic is not None:
            topics[item.language, item.topic].add(name)
    joined = Joined()
    for topic, names in topics.items():
        language, _ = topic
        half = len(spoken[language]) / 2
        if len(names) <= min(LARGEST_TOPIC, half):
            for name in names:
                joined.tie(name, topic)
    return [joined.name(origin[item.id]) for item in items]


def _folds(names: Sequence[str]) -> list[int]:
    fold = {}
    shuffled = sorted(set(names), key=lambda name: order_key(0, name))
    for number, name in enumerate(shuffled):
        fold[name] = number % FOLDS
    return [fold[name] for name in names]


def _by_set(items: Sequence[BonSet], values: Sequence[float]) -> list[list[float]]:
    rows = []
    start = 0
    for item in items:
        end = start + len(item.responses)
        rows.append(list(values[start:end]))
        start = end
    return rows
