"""How far do surface features alone explain a score?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import polars as pl

from carb_data import CarbError, Dataset, Registry, ScoreTable
from carb_data import cultures as default_cultures
from carb_data.labels import label_pattern
from carb_metrics.cells import Result
from carb_metrics.clusters import Ints, number
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.pairs import as_text
from carb_metrics.resampling import jackknife_interval, sum_by
from carb_metrics.rows import ExplainedRow, FeatureRow, of_scorer, row_of


class Explainability(Result):
    """How much of a scorer's within-item variance surface features explain."""

    scorers: tuple[ExplainedRow, ...]
    features: tuple[FeatureRow, ...]
    """A row per scorer and feature."""

    def of(self, scorer: str) -> ExplainedRow:
        """The row of one scorer.

        Raises:
            CarbError: there is no such scorer.
        """
        return of_scorer(self.scorers, scorer)


def surface_features(dataset: Dataset, cultures: Registry = default_cultures) -> pl.DataFrame:
    """Length, language match and label mention of every response, the perturbed ones too.

    Args:
        dataset: The sets of the data set.
        cultures: registry, for the names of cultures.

    Returns:
        ``item_id``, ``response_id``, ``length`` (characters), ``language_match`` (1 where the response's primary
        language is the set's, else 0), ``label_mention`` (1 where the text names the set's culture, its country or
        its people in any of the ten languages (``carb_data.labels``), or holds the registered name of the culture or of
        the one into which it rolls up, else 0).

    Raises:
        CarbError: a culture is not in the registry.
    """
    rows = []
    labels = {culture: _labels(culture, cultures) for culture in {item.culture for item in dataset}}
    for item in dataset:
        named = labels[item.culture]
        language = item.language.partition("-")[0].lower()
        rows += [
            (
                item.id,
                response.id,
                float(len(response.text)),
                float(response.language.partition("-")[0].lower() == language),
                float(any(label.search(response.text) is not None for label in named)),
            )
            for response in (*item.responses, *item.perturbed)
        ]
    numbers = dict.fromkeys(("length", "language_match", "label_mention"), pl.Float64)
    return pl.DataFrame(rows, schema={"item_id": pl.String, "response_id": pl.String, **numbers}, orient="row")


@lru_cache(maxsize=512)  # a report asks twice
def _labels(culture: str, cultures: Registry) -> tuple[re.Pattern[str], ...]:
    names = {cultures[culture].name, cultures.root(culture).name}
    own = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in sorted(names)), re.IGNORECASE)
    return (label_pattern(culture), own) if culture in default_cultures else (own,)


def join_features(frame: pl.DataFrame, features: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Join features to the rows of a table.

    Args:
        frame: A score table's frame as ``as_text`` gives it.
        features: a row per response: ``response_id``, ``item_id`` unless response ids are unique in the table, and
            numeric columns.
        names: columns that must be there.

    Raises:
        CarbError: a column is missing or not numeric, a response has no row or several, or a value is missing.
    """
    missing = [name for name in ("response_id", *names) if name not in features.columns]
    if missing:
        raise CarbError(f"The features have no column {missing}; they have {features.columns}.")
    text = [name for name in names if not (features.schema[name].is_numeric() or features.schema[name] == pl.Boolean)]
    if text:
        raise CarbError(f"Features must be numbers; {text} are not.")
    keys = ["item_id", "response_id"] if "item_id" in features.columns else ["response_id"]
    if len(keys) == 1 and frame.select("item_id", "response_id").unique()["response_id"].is_duplicated().any():
        raise CarbError("Response ids repeat between sets, so the features need the column 'item_id' as well.")
    table = features.select(pl.col(keys).cast(pl.String), *(pl.col(name).cast(pl.Float64) for name in names))
    if table.select(keys).is_duplicated().any():
        raise CarbError(f"The features hold a response twice; each {keys} must be unique.")
    joined = frame.join(table, on=keys, how="left", maintain_order="left")
    for name in names:
        bad = joined.filter(pl.col(name).is_null() | ~pl.col(name).is_finite())
        if bad.height:
            row = bad.row(0, named=True)
            raise CarbError(f"{name} is missing for item '{row['item_id']}', response '{row['response_id']}'.")
    return joined


def shortcut_explainability(
    scores: ScoreTable,
    features: pl.DataFrame,
    folds: int = 5,
    confidence: float = 0.95,
    *,
    seed: int = 0,
) -> Explainability:
    """Cross-validated R² of a linear model of surface features for a scorer's within-item scores.

    Scores and features are taken relative to their set's mean, so only what distinguishes the responses of one set
    is explained. The model is least squares, fitted on all folds but one and judged on that one; whole source items
    (else items) go into a fold. R² = 1 − Σ(y − ŷ)² / Σ y² (Stone 1974, JRSS B 36:111-147): 0 is what knowing nothing
    gives, 1 would be a scorer that is its surface. The interval is the jackknife's over source items, folds given.

    Args:
        scores: table of one or several scorers. Perturbed rows, and sets with an error, are left out.
        features: a row per response: ``item_id``, ``response_id`` and numeric columns, each a feature, as
            ``surface_features`` gives; ``item_id`` may be left out where response ids are unique in the table.
        folds: parts of the cross-validation, at least 2.
        confidence: The level of the interval, a share such as 0.95.
        seed: The seed by which source items are put into folds.

    Returns:
        R² per scorer, null with fewer source items than folds or without any variance; and a look at each feature.

    Raises:
        CarbError: ``features`` is not as described, or ``folds`` is below 2.
    """
    check_confidence(confidence)
    if folds < 2:
        raise CarbError(f"folds must be at least 2; got {folds}.")
    names = [name for name in features.columns if name not in ("item_id", "response_id")]
    if not names:
        raise CarbError("The features hold no feature: no column besides item_id and response_id.")
    frame = join_features(as_text(scores).filter(pl.col("perturbation").is_null()), features, names)
    failed = pl.col("score").is_null().any().over("scorer", "item_id")
    frame = frame.filter(~failed).sort("scorer", "item_id", "response_id")
    centred = frame.select(
        "scorer",
        "item_id",
        "cluster",
        *(pl.col(c) - pl.col(c).mean().over("scorer", "item_id") for c in ("score", *names)),
    )
    overall: list[ExplainedRow] = []
    by_feature: list[FeatureRow] = []
    for name in scores.frame["scorer"].cast(pl.String).unique().sort():
        mine = centred.filter(pl.col("scorer") == name)
        y, x = mine["score"].to_numpy(), mine.select(names).to_numpy()
        cluster, _ = number(mine, ("cluster",))
        fold = assign_folds(cluster, folds, seed)
        enough = fold is not None and _matters(y)
        limits = _r2(x, y, cluster, fold, confidence) if fold is not None and enough else (None, None, None)
        overall.append(row_of(ExplainedRow, (name, *limits, mine.height, mine["item_id"].n_unique())))
        slopes = np.linalg.lstsq(x, y, rcond=None)[0] if enough else None
        for i, feature in enumerate(names):
            if fold is None or slopes is None or limits[0] is None:
                by_feature.append(row_of(FeatureRow, (name, feature, None, None, None)))
                continue
            alone, _, _ = _r2(x[:, [i]], y, cluster, fold, confidence)
            without, _, _ = _r2(np.delete(x, i, 1), y, cluster, fold, confidence)
            found = (float(slopes[i]), alone, limits[0] - (without or 0.0))
            by_feature.append(row_of(FeatureRow, (name, feature, *found)))
    return Explainability(scorers=tuple(overall), features=tuple(by_feature))


def assign_folds(cluster: Ints, folds: int, seed: int) -> Ints | None:
    """The fold of each row: clusters in random order, dealt in turn; null with fewer clusters than folds."""
    clusters = int(cluster.max(initial=-1)) + 1
    if clusters < folds:
        return None
    order = np.random.default_rng(seed).permutation(clusters)
    return (order % folds)[cluster]


def _matters(values: Floats) -> bool:
    return len(values) > 0 and float(np.abs(values).max()) > 1e-12


def _r2(
    x: Floats, y: Floats, cluster: Ints, fold: Ints, confidence: float
) -> tuple[float | None, float | None, float | None]:
    if not x.shape[1]:
        return 0.0, None, None
    predicted = np.empty(len(y))
    for part in range(int(fold.max()) + 1):
        train = fold != part
        predicted[~train] = x[~train] @ np.linalg.lstsq(x[train], y[train], rcond=None)[0]
    units = np.column_stack([sum_by(cluster, (y - predicted) ** 2), sum_by(cluster, y**2)])
    return jackknife_interval(units, lambda sums: 1 - sums[..., 0] / sums[..., 1], confidence)
