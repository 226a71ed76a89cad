"""Attacks that are learned: classifiers of the answers' words or characters, trained on other sets."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from carb_data.extras import require
from carb_data.joined import Joined
from carb_data.models import BonSet, Role

__all__ = ["LEARNED", "learned"]

_SPLIT: Mapping[str, Mapping[str, Any]] = {
    "bag of words": {"analyzer": "word", "token_pattern": r"[぀-ヿ㐀-鿿฀-๿]{1,2}|\w+"},
    "character n-grams": {"analyzer": "char", "ngram_range": (1, 4)},
}
LEARNED = tuple(_SPLIT)
FOLDS = 10
LARGEST_TOPIC = 20
"""More source items than this in one language are no topic ("teachers' day") but a kind of question ("idioms")."""
MOST_TEXTS = 40_000
"""Answers that a classifier is trained on, at most. Further sets are tested only."""


def learned(items: Sequence[BonSet], name: str, *, seed: int = 0) -> list[list[float]]:
    """For each set a number for each answer, from a logistic regression that was trained on other sets.

    Folds divide source items, families and the topics of a language, never sets: a translation, a mirror or another
    set of the topic does not teach an answer, so that what is learned is how right answers are worded.

    Args:
        items: the sets; each needs two answers or more.
        name: one of ``LEARNED``: words (pairs of characters where a script has no spaces), or 1- to 4-grams.
        seed: the seed of the division into folds.

    Raises:
        MissingExtraError: scikit-learn is not installed (extra ``checks``).
    """
    linear = require("sklearn.linear_model", package="carb-data", extra="checks")
    text = require("sklearn.feature_extraction.text", package="carb-data", extra="checks")
    folds = _folds(groups(items, topics=True), seed)
    right = [r.role is Role.CHOSEN for item in items for r in item.responses]
    fold_of = [fold for item, fold in zip(items, folds, strict=True) for _ in item.responses]
    values = [0.0] * len(right)
    if len(set(folds)) < 2:
        return _by_set(items, values)
    texts = [f"{r.language.partition('-')[0]} {r.text}" for item in items for r in item.responses]
    least = 2 if len(texts) > 2000 else 1
    vectors = text.TfidfVectorizer(**_SPLIT[name], sublinear_tf=True, max_features=200_000, min_df=least)
    rows = vectors.fit_transform(texts)
    rows.sort_indices()  # once here, in place of once in each fit
    for fold in sorted(set(folds)):
        train = [n for n, place in enumerate(fold_of) if place != fold][:MOST_TEXTS]
        test = [n for n, place in enumerate(fold_of) if place == fold]
        # With fewer answers than features the dual problem is the smaller one; both have one optimum.
        model = linear.LogisticRegression(
            class_weight="balanced", solver="liblinear", dual=True, tol=1e-6, max_iter=1000, random_state=0
        )
        model.fit(rows[train], [right[n] for n in train])
        for n, value in zip(test, model.decision_function(rows[test]).tolist(), strict=True):
            values[n] = round(value, 6)  # finer differences are the solver's, and would part answers that are level
    return _by_set(items, values)


def groups(items: Sequence[BonSet], *, topics: bool = False) -> list[str]:
    """What belongs together, for each set: its source item, with all others of its family.

    Args:
        items: The sets that are divided into groups.
        topics: whether to join sets of one language and topic as well, if it has at most ``LARGEST_TOPIC`` source
            items; a topic that joins two, ``hell-and-divorce``, goes with both. A language of which more than half
            would be one group stays as it is: topics that are all chained would leave nothing to train on.
    """
    families, topics_of = defaultdict[str, set[str]](set), defaultdict[str, dict[str, set[str]]](dict)
    for item in items:
        if item.family is not None:
            families[item.family].add(item.source_item)
        if topics and item.topic is not None:
            for part in item.topic.split("-and-"):
                topics_of[item.language].setdefault(part, set()).add(item.source_item)
    joined = _joined(families.values())
    for language, parts in topics_of.items():
        alike = [sources for sources in parts.values() if len(sources) <= LARGEST_TOPIC]
        everything = {item.source_item for item in items if item.language == language}
        trial = _joined(alike)
        largest = max(Counter(map(trial.name, everything)).values())
        if largest * 2 <= len(everything):
            _joined(alike, joined)
    return [joined.name(item.source_item) for item in items]


def _joined(sets: Iterable[set[str]], joined: Joined | None = None) -> Joined:
    joined = Joined() if joined is None else joined
    for names in sets:
        first, *others = sorted(names)
        for other in others:
            joined.join(first, other)
    return joined


def _folds(names: Sequence[str], seed: int) -> list[int]:
    shuffled = sorted(
        set(names), key=lambda name: hashlib.sha256(f"{seed}\0{name}".encode("utf-8", "replace")).digest()
    )
    place = {name: number % FOLDS for number, name in enumerate(shuffled)}
    return [place[name] for name in names]


def _by_set(items: Sequence[BonSet], values: Sequence[float]) -> list[list[float]]:
    rows, start = [], 0
    for item in items:
        rows.append(list(values[start : start + len(item.responses)]))
        start += len(item.responses)
    return rows
