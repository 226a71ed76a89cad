"""Surface features of responses, and the folds of a cross-validation."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
import polars as pl

from carb_data import Dataset, Registry
from carb_data import cultures as default_cultures
from carb_data.labels import label_pattern
from carb_metrics.clusters import Ints


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


def assign_folds(cluster: Ints, folds: int, seed: int) -> Ints | None:
    """The fold of each row: clusters in random order, dealt in turn; null with fewer clusters than folds."""
    clusters = int(cluster.max(initial=-1)) + 1
    if clusters < folds:
        return None
    order = np.random.default_rng(seed).permutation(clusters)
    return (order % folds)[cluster]
