"""One family and one scorer as a heat map: the comparisons of the place win rate."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from carb_cli.family_table import FamilyTable, examples, families_of, table_of
from carb_cli.report.content import Runs
from carb_cli.report.payload import chosen_first, scores_of
from carb_cli.report.report_json import Report
from carb_cli.report.tables import marked_labels
from carb_metrics.ties import higher


@dataclass(frozen=True)
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
    """The first complete family under the best model; null where no family is complete."""
    families = families_of(runs.dataset)
    names = examples(families, 1)
    if not names or not report.scorers:
        return None
    name = names[0]
    scorer = report.models[0]
    sets = sorted(families[name], key=lambda item: item.id)  # as the page's script draws them
    table = table_of(name, sets)
    scores = scores_of(runs, [scorer], sets)
    values = []
    for item in sets:
        texts = [answer.text for answer in chosen_first(item)]
        of_text = dict(zip(texts, *scores[item.id], strict=True))
        values.append([of_text[text] for text in table.answers])
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
