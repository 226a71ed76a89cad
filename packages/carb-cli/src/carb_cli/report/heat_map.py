"""One family and one scorer as a heat map: the comparisons of the place win rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from polars import col

from carb_cli.family_table import FamilyTable, examples, families_of, table_of
from carb_cli.report.content import Runs
from carb_cli.report.report_json import Report
from carb_cli.report.tables import marked_labels
from carb_data import BonSet
from carb_metrics.ties import higher


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A complete family under one scorer."""

    table: FamilyTable
    scorer: str
    beaten: tuple[tuple[float | None, ...], ...]
    """(places, answers) the other places under which the answer scores lower, ties half; null where
    a score is missing."""

    @property
    def won(self) -> float:
        """Comparisons that the right answers win; a failed one counts half."""
        half = (len(self.table.places) - 1) / 2
        diagonal = [row[index] for index, row in enumerate(self.beaten)]
        return sum(half if beaten is None else beaten for beaten in diagonal)

    @property
    def comparisons(self) -> int:
        places = len(self.table.places)
        return places * (places - 1)


def heat_map(report: Report, runs: Runs) -> HeatMap | None:
    """The first complete family under the first scorer; null where no family is complete."""
    families = families_of(runs.dataset)
    names = examples(families, 1)
    if not names or not report.scorers:
        return None
    name = names[0]
    scorer = next(iter(report.scorers))
    sets = sorted(families[name], key=lambda item: item.id)  # as the page's script draws them
    table = table_of(name, sets)
    scores = _scores(runs, scorer, sets)
    values = []
    for item in sets:
        id_of = {answer.text: answer.id for answer in reversed(item.responses)}
        row = [scores.get((item.id, id_of[text])) for text in table.answers]
        values.append(row)
    return HeatMap(table, marked_labels(report)[scorer], beaten(values))


def beaten(values: Sequence[Sequence[float | None]]) -> tuple[tuple[float | None, ...], ...]:
    """(places, answers) under how many other places each score is lower, ties half.

    Args:
        values: (places, answers) scores; null where one is missing.
    """
    matrix = np.array(values, dtype=np.float64)
    of_places = higher(matrix[:, None], matrix[None])
    counts = of_places.sum(axis=1) - 0.5  # less the tie with itself
    known = counts.astype(object)
    known[np.isnan(counts)] = None
    return tuple(map(tuple, known.tolist()))


def _scores(
    runs: Runs, scorer: str, sets: Sequence[BonSet]
) -> Mapping[tuple[str, str], float | None]:
    """The scores of one scorer by set and answer."""
    ids = [item.id for item in sets]
    rows = runs.scores.frame.filter(
        col.perturbation.is_null(),
        col.scorer == scorer,
        col.item_id.cast(pl.String).is_in(ids),
    )
    keys = col("item_id", "response_id").cast(pl.String)
    scores = {}
    for item, answer, score in rows.select(keys, "score").rows():
        scores[item, answer] = score
    return scores
