"""Mirrored families: the same answers under several places, each time another one right."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from carb_data import CarbError, Dataset, ScoreTable
from carb_metrics.cells import Estimate, Result
from carb_metrics.clusters import cluster_of
from carb_metrics.intervals import check_confidence
from carb_metrics.paired import agreeing, mean_interval, paired

__all__ = ["FamilyReport", "FamilyRow", "family_accuracy"]


class FamilyRow(Result):
    """What one scorer does with families of mirrored sets. Ties at the top are shared."""

    scorer: str
    group: str | None = None
    """Value of ``by`` that these families share; null for all of them."""
    families: int
    """Complete families: their sets show the same answers, and each answer is right in a scored set."""
    incomplete: int
    """Other families, which are left out: a scorer that does not read the place earns something else than 1/N there."""
    sets: int
    """Sets of these families, mirrors included."""
    errors: int
    """The number of these sets that could not be judged; they earn nothing."""
    chance: float | None
    """What any scorer that does not read the place earns: the mean of 1/N over families, exactly; null without any."""
    accuracy: Estimate
    """Mean over families of the accuracy within a family. ``p``: of the hypothesis that it is ``chance``, which the
    interval leaves out exactly where p is below 1 − confidence."""
    still: Estimate
    """Share of families in which the same answer is on top under every place. Families with an error are left out."""
    main_sets: int
    """Sets of these families that are not mirrors."""
    main: float | None
    """Accuracy of the sets that are not mirrors."""
    liked: float | None
    """What the scorer earns for the right answers of the main sets under the *other* places: what it likes in them."""
    knows: Estimate
    """``main − liked``: what it knows of the place. ``p``: of the hypothesis that it is 0."""


class FamilyReport(Result):
    """Accuracy over families, a row per scorer and group."""

    by: str | None
    rows: tuple[FamilyRow, ...]

    def of(self, scorer: str, group: str | None = None) -> FamilyRow:
        """The row of one scorer and group.

        Raises:
            CarbError: there is none.
        """
        for row in self.rows:
            if (row.scorer, row.group) == (scorer, group):
                return row
        raise CarbError(f"There is no scorer '{scorer}' with the group {group} here.")


def family_accuracy(
    scores: ScoreTable, dataset: Dataset, by: str | None = None, confidence: float = 0.95
) -> FamilyReport | None:
    """Accuracy over mirrored families, in which what an answer looks like cannot help.

    The sets of a family have the same question and answers and differ in the place; each place makes another answer
    right. Within a family every right answer weighs the same, so a scorer that does not read the place, whatever it
    likes in an answer, earns exactly 1/N with N answers. That holds where every set shows the same answers and each
    of them is right in a scored set (one that failed counts); other families are left out and counted. Families are
    the units of all intervals and tests; families that share a source item are one (``clusters.cluster_of``).

    Args:
        scores: table of any scorers; perturbed rows are left out.
        dataset: the sets that were scored, for families and texts. Answers of a family are the same where their texts
            are.
        by: ``domain``, ``language`` or ``topic``: rows for each of their values follow the row of all families.
        confidence: The level of the intervals, a share such as 0.95.

    Returns:
        null where no family of the data set has two scored sets with different right answers.

    Raises:
        CarbError: ``by`` is another column, or the sets of one family differ in it.
    """
    check_confidence(confidence)
    if by not in (None, "domain", "language", "topic"):
        raise CarbError(f"by must be 'domain', 'language', 'topic' or left out; got '{by}'.")
    known = _answers(dataset)
    if not known.height:
        return None
    frame = scores.with_items(dataset).frame.filter(pl.col("perturbation").is_null() & pl.col("family").is_not_null())
    frame = frame.select(
        pl.col("scorer", "item_id", "response_id", "role", "family", "domain", "language").cast(pl.String),
        "topic",
        "mirror",
        "source_item",
        "score",
    ).join(known, on=["item_id", "response_id"], how="inner", maintain_order="left")
    if not frame.height:
        return None
    top = pl.col("score") == pl.col("score").max().over("scorer", "item_id")
    failed = pl.col("score").is_null().any().over("scorer", "item_id")
    frame = frame.with_columns(failed=failed, top=top)  # apart: polars 1.26 nests no windows
    share = pl.when("failed").then(0.0).otherwise(pl.col("top") / pl.col("top").sum().over("scorer", "item_id"))
    frame = frame.with_columns(share=share.fill_null(0.0)).drop("top")
    if by is not None and frame.group_by("family").agg(pl.col(by).n_unique())[by].max() != 1:
        raise CarbError(f"by='{by}': the sets of a family differ in it.")
    rows = []
    for name, mine in sorted(frame.group_by("scorer"), key=lambda pair: str(pair[0][0])):
        parts: list[tuple[str | None, pl.DataFrame]] = [(None, mine)]
        if by is not None:
            parts += [(str(key[0]), part) for key, part in sorted(mine.group_by(by), key=lambda pair: str(pair[0][0]))]
        rows += [_row(str(name[0]), group, part, confidence) for group, part in parts]
    found = tuple(row for row in rows if row is not None)
    return FamilyReport(by=by, rows=found) if found else None


def _answers(dataset: Dataset) -> pl.DataFrame:
    """``item_id``, ``response_id`` and ``answer``: a number that answers of the same text share within a family."""
    rows: list[tuple[str, str, int]] = []
    numbers: dict[tuple[str, str], int] = {}
    for item in dataset:
        if item.family is not None:
            for response in item.responses:
                number = numbers.setdefault((item.family, response.text), len(numbers))
                rows.append((item.id, response.id, number))
    return pl.DataFrame(rows, schema={"item_id": pl.String, "response_id": pl.String, "answer": pl.Int64}, orient="row")


def _row(scorer: str, group: str | None, frame: pl.DataFrame, confidence: float) -> FamilyRow | None:
    right = frame.filter(pl.col("role") == "chosen").select(
        "item_id", "family", "answer", "share", "failed", pl.col("mirror").fill_null(value=False), "source_item"
    )
    if right.group_by("family").agg(pl.col("answer").n_unique()).filter(pl.col("answer") > 1).is_empty():
        return None
    answers = right.group_by("family", "answer").agg(pl.col("share").mean(), pl.col("item_id").len().alias("sets"))
    family = answers.group_by("family", maintain_order=True).agg(
        pl.col("share").mean().alias("accuracy"), pl.len().alias("answers"), pl.col("sets").sum()
    )
    shown = frame.group_by("family").agg(pl.col("answer").n_unique().alias("shown"), pl.len().alias("responses"))
    every = family.join(shown, on="family").sort("family")
    family = every.filter(
        (pl.col("shown") == pl.col("answers")) & (pl.col("responses") == pl.col("shown") * pl.col("sets"))
    )
    right = right.join(family.select("family"), on="family", how="semi").sort("item_id")
    cluster = _clusters(right, family["family"].to_list())
    accuracy, chance = family["accuracy"].to_numpy(), 1 / family["answers"].to_numpy()
    found = mean_interval(accuracy, cluster, confidence)
    test = paired(accuracy - chance, cluster, confidence)
    if found.estimate is not None and found.low is not None and found.high is not None and test.p is not None:
        settled, null = test.p < 1 - confidence, float(chance.mean())
        low, high = agreeing(found.estimate, found.low, found.high, settled=settled, null=null)
        found = found.model_copy(update={"low": low, "high": high, "p": test.p})
    picks = (
        frame.join(family.select("family"), on="family", how="semi")
        .group_by("family", "item_id")
        .agg(
            pl.col("failed").any(),
            pl.col("answer").filter(pl.col("share") > 0).sort().cast(pl.String).str.join(" ").alias("pick"),
        )
        .group_by("family")
        .agg(pl.col("failed").any(), (pl.col("pick").n_unique() == 1).alias("still"))
        .sort("family")
    )
    whole = ~picks["failed"].to_numpy()
    still = mean_interval(picks["still"].cast(pl.Float64).to_numpy()[whole], cluster[whole], confidence)
    main = _knowledge(frame, right.filter(~pl.col("mirror")), confidence)
    return FamilyRow(
        scorer=scorer,
        group=group,
        families=family.height,
        incomplete=every.height - family.height,
        sets=int(family["sets"].sum()),
        errors=int(right["failed"].sum()),
        chance=float(chance.mean()) if family.height else None,
        accuracy=found,
        still=still,
        **main,
    )


def _clusters(right: pl.DataFrame, families: list[str]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """(families,) families that a source item connects are one cluster."""
    sets = right.select("item_id", "source_item", pl.col("family").alias("mirrors"))
    of_set = dict(zip(right["family"].to_list(), cluster_of(sets).tolist(), strict=True))
    return np.unique([of_set[name] for name in families], return_inverse=True)[1].astype(np.int64)


def _knowledge(frame: pl.DataFrame, main: pl.DataFrame, confidence: float) -> dict[str, Any]:
    """What the main sets earn, and what their right answers earn under the other places."""
    others = main.select("item_id", "family", "answer", own="share").join(
        frame.select("family", "answer", "share", other="item_id"), on=["family", "answer"]
    )
    others = others.filter(pl.col("other") != pl.col("item_id"))
    liked = others.group_by("item_id", "family").agg(pl.col("own").first(), pl.col("share").mean()).sort("item_id")
    own, elsewhere = liked["own"].to_numpy(), liked["share"].to_numpy()
    cluster = np.unique(np.array(liked["family"].to_list(), dtype=str), return_inverse=True)[1].astype(np.int64)
    found = paired(own - elsewhere, cluster, confidence)
    return {
        "main_sets": main.height,
        "main": float(own.mean()) if len(own) else None,
        "liked": float(elsewhere.mean()) if len(own) else None,
        "knows": Estimate(estimate=found.estimate, low=found.low, high=found.high, p=found.p),
    }
