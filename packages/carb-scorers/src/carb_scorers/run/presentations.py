"""In which orders judges saw the candidates of a run, and what they said each time."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from carb_data import Dataset
from carb_scorers.blind import blind
from carb_scorers.run.record import RunRecord
from carb_scorers.run.score_journal import read_journals

__all__ = ["read_presentations"]

SCHEMA = {
    "scorer": pl.String,
    "item_id": pl.String,
    "order_id": pl.String,
    "response_id": pl.String,
    "position": pl.Int64,
    "score": pl.Float64,
}


def read_presentations(folder: Path) -> pl.DataFrame:
    """The presentations of a finished run, as ``carb_metrics.judge_bias`` takes them.

    They are read from the journal, and the labels joined back. Sets as they are count, not those in which a perturbed
    text stands in its original's place; so do presentations of several candidates, not a pointwise judge's of one.

    Args:
        folder: the folder of the run.

    Returns:
        A row per response shown: ``scorer``, ``item_id``, ``order_id`` (number of the presentation within its item
        and scorer), ``response_id``, ``position`` (from 0, as shown), ``score`` (what this presentation said: see the
        judge's modes). Without judges, or where they failed, no rows.

    Raises:
        CarbError: the folder holds no finished run, or its journal is damaged.
    """
    record = RunRecord.read(folder)
    dataset = Dataset.load(folder / "dataset.parquet")
    known = {scorer.spec.name for scorer in record.scorers}
    rows = []
    for head, results in read_journals(folder / "journal"):
        if head.spec.name not in known or not any(result.presentations for result in results.values()):
            continue
        for item in dataset:
            blinded = next(blind(item, seed=head.seed, comparative=head.spec.comparative))
            result = results.get(blinded.request.request_id)
            shown = [] if result is None else [p for p in result.presentations if len(p.order) > 1]
            rows += [
                (head.spec.name, item.id, str(number), blinded.recorded[key], position, presentation.scores[key])
                for number, presentation in enumerate(shown)
                for position, key in enumerate(presentation.order)
            ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")
