"""Sets, and their scores by rules, for the tests of carb-metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from carb_data import BonSet, Dataset, Response, ScoreTable
from carb_data.table import COLUMNS


def a_set(name: str, culture: str, responses: Sequence[Response], **changes: object) -> BonSet:
    """A valid set; ``changes`` replace its fields."""
    provenance = {"source": "test", "license": "CC0-1.0", "method": "authored"}
    fields = {"id": name, "culture": culture, "domain": "values", "language": "en", "prompt": "?"}
    return BonSet.model_validate(
        {**fields, "responses": tuple(responses), "provenance": provenance, **changes}
    )


def scores_of(
    dataset: Dataset, rules: Mapping[str, Callable[[BonSet, Response], float | None]]
) -> ScoreTable:
    """The table of scorers by name; a rule gives the score of a response of a set."""
    rows = [
        (
            name,
            s.id,
            r.id,
            r.role.value,
            s.culture,
            str(s.domain),
            r.language,
            None,
            None,
            rule(s, r),
        )
        for name, rule in rules.items()
        for s in dataset
        for r in s.responses
    ]
    return ScoreTable(pl.DataFrame(rows, schema=COLUMNS, orient="row", strict=False))
