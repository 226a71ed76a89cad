"""Scores with their data set, and everything that metrics read from both, each computed once."""

from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl
from polars import col

from carb_data import CarbError, Dataset, ScoreTable, rounded
from carb_metrics.clusters import CLUSTER, Ints, cluster_of
from carb_metrics.frames import beside, text, unperturbed
from carb_metrics.intervals import Floats
from carb_metrics.matrices import Matrices, matrices
from carb_metrics.readings import Reading, readings
from carb_metrics.ties import tops

__all__ = ["Scored", "outcomes"]

SET_KEYS = "scorer culture domain language topic source_item mirrors kind item_id"
"""Columns that a set has, and by which it can be grouped. ``language`` is that of ``chosen``.
``mirrors`` is the ``family`` of the table, renamed because a culture's language has a family
too."""

RESPONSES = "_responses"
"""Column of outcomes that holds which responses a set has: equal for the same ones, in any
order."""


class Scored(ScoreTable):
    """A score table that keeps what is read from it: give it to several metrics, and nothing is
    computed twice."""

    def __init__(
        self,
        scores: ScoreTable,
        dataset: Dataset | None = None,
        clusters: pl.DataFrame | None = None,
    ) -> None:
        """Keep a table and its data set.

        Args:
            scores: the table.
            dataset: the sets that were scored; without it the table's own columns tie sets.
            clusters: the clusters of a larger table of which this is a part.

        Raises:
            CarbError: a scorer has not all responses of a set that the table holds.
        """
        table = scores
        if dataset is not None:
            table = scores.with_items(dataset)
        self.frame = table.frame  # type: ignore[misc]  # a table is checked already
        self.dataset = dataset
        self._given = clusters

    @classmethod
    def of(
        cls,
        scores: ScoreTable,
        dataset: Dataset | None = None,
    ) -> "Scored":
        """The table itself, if it is a ``Scored`` with this data set; else one that does, with the
        same columns.

        Raises:
            CarbError: something else is given, such as a frame.
        """
        if not isinstance(scores, ScoreTable):
            raise CarbError(
                f"Scores come as a carb_data.ScoreTable, not {type(scores).__name__}; use "
                "ScoreTable(frame)."
            )
        if isinstance(scores, Scored) and (dataset is None or dataset is scores.dataset):
            return scores
        scored = cls(scores)
        if dataset is not None:
            scored.dataset = Dataset.checked(dataset)
        return scored

    def with_items(self, dataset: Dataset) -> ScoreTable:
        """This table, where the data set is its own."""
        if dataset is self.dataset:
            return self
        return super().with_items(dataset)

    def where(self, *conditions: pl.Expr) -> "Scored":
        """The rows for which the conditions hold, in the same clusters."""
        if not conditions:
            return self
        kept = self.frame.select(pl.all_horizontal(conditions)).to_series()
        if kept.all():
            return self
        part = Scored(ScoreTable(self.frame.filter(kept)), clusters=self.clusters)
        part.dataset = self.dataset
        return part

    def beside(self, scores: ScoreTable) -> "Scored":
        """Another table over the same data set, whose families are read once for both."""
        other = Scored(scores)
        other.dataset = self.dataset
        other.families = self.families
        return other

    @cached_property
    def main(self) -> "Scored":
        """The rows of main sets: no mirrors, and no controls; empty where no set is one.

        A mirror asks about a place where another language is spoken, only to keep answers from
        winning by their looks; controls have no culture.
        """
        return self.where(*main_conditions(self.frame))

    @cached_property
    def clusters(self) -> pl.DataFrame:
        """``item_id``, ``cluster`` (its name) and its number, by name."""
        if self._given is not None:
            return self._given
        return clusters_of(self.frame)

    @cached_property
    def rows(self) -> pl.DataFrame:
        """The frame with String columns and ``cluster``."""
        names = self.clusters.drop(CLUSTER)
        return beside(as_strings(self.frame), names, "item_id")

    @cached_property
    def sets(self) -> pl.DataFrame:
        """A row per scorer and set.

        A set is won when ``chosen`` scores above every ``rejected``. Perturbed rows are left out. A
        set in which any score is null could not be judged: it is an error, without credit.

        Returns:
            The columns of ``SET_KEYS`` that the table has, then ``RESPONSES``, ``credit``,
            ``tied``, ``error``, ``lead``, ``spread``, and the number of the set's cluster.
            ``credit`` is 1 / the number of responses at the top, the expected credit when ties are
            broken at random. ``tied`` is how many ``rejected`` share the highest score with
            ``chosen``; 0 is no tie. ``lead`` is the highest score minus the second highest, and
            ``spread`` the mean squared distance of the scores from their mean.

        Raises:
            CarbError: a set does not have exactly one ``chosen`` and at least one ``rejected``.
        """
        sets = outcomes(self.frame).with_columns(text("item_id"))
        return beside(sets, self.clusters.drop("cluster"), "item_id")

    @cached_property
    def families(self) -> Matrices:
        """The families of the data set.

        Raises:
            CarbError: there is no data set.
        """
        if self.dataset is None:
            raise CarbError("Families are read from the data set: Scored(scores, dataset).")
        return matrices(self.dataset)

    @cached_property
    def readings(self) -> dict[str, Reading]:
        """What each scorer does with the families, by name."""
        return readings(self.frame, self.families)


def main_conditions(frame: pl.DataFrame) -> list[pl.Expr]:
    """What rows of main sets are: no mirrors, and no controls."""
    conditions = []
    if "mirror" in frame.columns:
        conditions.append(~col.mirror.fill_null(value=False))
    if "kind" in frame.columns:
        conditions.append(text("kind").fill_null("") != "control")
    return conditions


def as_strings(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with every column but ``score`` as text."""
    return frame.with_columns(pl.exclude("score").cast(pl.String))


def clusters_of(frame: pl.DataFrame) -> pl.DataFrame:
    """``item_id``, ``cluster`` and its number, of all sets that a source item or a family
    connects; a cluster has the least name of these."""
    ties = [name for name in ("source_item", "family") if name in frame.columns]
    columns = frame.select(text("item_id", *ties)).unique(maintain_order=True)
    sets = columns.rename({"family": "mirrors"}, strict=False)
    number = pl.Series(CLUSTER, cluster_of(sets), dtype=pl.Int64)
    alone = pl.lit("\0") + col.item_id
    name = pl.coalesce(*ties, alone)
    named = columns.with_columns(number, cluster=name)
    sets = named.select("item_id", col.cluster.min().over(CLUSTER), CLUSTER)
    return sets.unique("item_id", maintain_order=True)


def outcomes(frame: pl.DataFrame) -> pl.DataFrame:
    """``Scored.sets`` of a frame, without clusters."""
    rows = unperturbed(frame).rename({"family": "mirrors"}, strict=False)
    starts, heads = _first_rows(rows)
    sets = heads.select("scorer", "item_id")
    if sets.is_duplicated().any():  # the rows of a set lie apart
        rows = rows.sort("scorer", "item_id")
        starts, heads = _first_rows(rows)
    is_chosen = rows["role"].cast(pl.String) == "chosen"
    chosen = is_chosen.to_numpy()
    _check_roles(rows, starts, chosen)
    code = rows["response_id"].cast(pl.String).hash().to_numpy()
    responses = code[:0]
    if len(starts):
        responses = np.add.reduceat(code, starts)
    level = rounded(rows["score"]).to_numpy()  # null becomes NaN
    right, top = tops(level, chosen, starts)
    lead, spread = _clarity(level, starts)
    credit = right / np.maximum(top, 1)
    tied = np.where(right > 0, top - 1, 0)
    if "language" in rows.columns:
        heads = heads.with_columns(language=rows["language"].filter(is_chosen))
    return heads.with_columns(
        pl.Series(RESPONSES, responses, dtype=pl.UInt64),
        pl.Series("credit", credit, dtype=pl.Float64),
        pl.Series("tied", tied, dtype=pl.Int64),
        pl.Series("error", top == 0, dtype=pl.Boolean),
        pl.Series("lead", lead, dtype=pl.Float64),
        pl.Series("spread", spread, dtype=pl.Float64),
    )


def _clarity(
    level: Floats,
    starts: Ints,
) -> tuple[Floats, Floats]:
    """(sets,) the highest score minus the second highest, and the mean squared distance of scores
    from their mean; NaN where one is missing."""
    if not len(starts):
        return level[:0], level[:0]
    sizes = np.diff(starts, append=len(level))
    highest = np.maximum.reduceat(level, starts)
    is_highest = level == np.repeat(highest, sizes)
    lower = np.where(is_highest, -np.inf, level)
    second = np.maximum.reduceat(lower, starts)
    alone = np.add.reduceat(is_highest.astype(np.int64), starts) <= 1
    with np.errstate(over="ignore", invalid="ignore"):
        lead = np.where(alone, highest - second, 0.0)
        mean = np.add.reduceat(level, starts) / sizes
        away = level - np.repeat(mean, sizes)
        spread = np.add.reduceat(away**2, starts) / sizes
    return lead, spread


def _first_rows(rows: pl.DataFrame) -> tuple[Ints, pl.DataFrame]:
    """The number of the first row of each set, and what it has of ``SET_KEYS``."""
    keys = col("scorer", "item_id")
    is_new = keys.ne_missing(keys.shift())
    first = rows.select(pl.any_horizontal(is_new)).to_series()
    known = [key for key in SET_KEYS.split() if key in rows.columns]
    heads = rows.select(known).filter(first)
    starts = first.arg_true().to_numpy().astype(np.int64)
    return starts, heads


def _check_roles(
    rows: pl.DataFrame,
    starts: Ints,
    chosen: npt.NDArray[np.bool_],
) -> None:
    """Raise ``CarbError`` where a set lacks a role or holds ``chosen`` twice."""
    if not len(starts):
        return
    right = np.add.reduceat(chosen.astype(np.int64), starts)
    size = np.diff(starts, append=len(rows))
    one_right = right == 1
    several = size > 1
    bad = np.flatnonzero(~(one_right & several))
    if not len(bad):
        return
    first = bad[0]
    row = rows.row(int(starts[first]), named=True)
    raise CarbError(
        f"{len(bad)} of {len(starts)} sets cannot be judged: a set needs exactly one 'chosen' and "
        f"at least one 'rejected' row. First: scorer '{row['scorer']}', item '{row['item_id']}' "
        f"has {right[first]} chosen and {size[first] - right[first]} rejected. Was a part of the "
        "table filtered away, or joined twice?"
    )
