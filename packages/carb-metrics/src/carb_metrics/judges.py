"""How a judge behaves apart from being right: position, order, repetition, length."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from carb_data import CarbError, Dataset, ScoreTable
from carb_metrics.cells import Result, ScorerRow, Scorers
from carb_metrics.clusters import Ints, number
from carb_metrics.interval import Interval
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.jackknife import jackknife_interval
from carb_metrics.means import means, share_interval
from carb_metrics.outcome import as_text, counted_sets, polars_frame
from carb_metrics.paired import adjust
from carb_metrics.ties import rounded

PRESENTATIONS = ("scorer", "item_id", "order_id", "response_id", "position", "score")
"""Columns of ``presentations``."""
KEYS = ("scorer", "item_id", "order_id")
"""Columns that tell presentations apart."""


class BiasRow(ScorerRow):
    """How one judge behaves apart from being right. Null where the input does not tell."""

    position_p: float | None = None
    """p of the test that every position is picked alike often."""
    swap_consistency: Interval = Interval()
    """Share of pairs of presentations of one set in different orders that have the same pick."""
    swap_pairs: int | None = None
    self_agreement: Interval = Interval()
    """The same share for pairs in the same order, that is, for a question asked twice."""
    self_pairs: int | None = None
    length: Interval = Interval()
    """Partial correlation of score and length within sets, given the role."""


class PositionRow(Result):
    """How often one position is picked."""

    scorer: str
    position: int
    """0 is first."""
    picks: int
    share: float
    low: float
    """Lower limit of Wilson's interval."""
    high: float
    expected: float
    """The share if position did not matter."""


class JudgeBias(Scorers[BiasRow]):
    """Biases of judges. Everything that the input does not tell is null."""

    positions: tuple[PositionRow, ...]
    """A row per scorer and position."""


def judge_bias(
    scores: ScoreTable,
    presentations: pl.DataFrame | None = None,
    dataset: Dataset | None = None,
    confidence: float = 0.95,
    *,
    mirrors: bool = False,
) -> JudgeBias:
    """Position bias, consistency under order swaps, self-agreement, and length bias.

    What depends on order comes from ``presentations``: each time that a judge was shown a set is
    one.

    * *position*: the pick of a presentation is the response with the highest score in it. If
      candidates come in random order, an unbiased judge picks every position alike often, however
      good it is.
    * *swap consistency*: share of pairs of presentations of one set in different orders with the
      same pick. Only presentations of the same responses are compared: a pairwise judge's pairs
      each with themselves turned around.
    * *self-agreement*: the same for pairs in the same order, that is, for repeated samples. What
      swapping costs is the difference of the two. A tie at the top is a pick of its own.
    * *length*: within sets, the correlation of score and length after what being ``chosen``
      explains is taken out of both (partial correlation; Fisher 1924, Metron 3:329-332). Above 0, a
      longer text scores higher than an equally right, shorter one.

    Shares carry Wilson's interval, clustered by source item or else item; the length's is the
    jackknife's on the scale of artanh r, with the same clusters.

    Args:
        scores: table of one or several scorers, for roles, and for the scores behind the length
            bias.
        presentations: a row per response shown: ``scorer``, ``item_id``, ``order_id`` (any text
            that tells the presentations of one set apart), ``response_id``, ``position`` (whole
            number, in the order shown), ``score`` (null where judging failed).
        dataset: the sets that were scored, for the lengths of their texts; without it ``length`` is
            null.
        confidence: The level of all intervals, a share such as 0.95.
        mirrors: whether sets other than the main ones count too; presentations of sets that do not
            are left out.

    Raises:
        CarbError: a frame is not as described, or names a set or response that the table lacks.
    """
    check_confidence(confidence)
    known = as_text(scores).filter(pl.col("perturbation").is_null())
    scores, counted = counted_sets(scores, mirrors=mirrors)
    frame = known.join(as_text(scores).select("item_id").unique(), on="item_id", how="semi")
    names = frame["scorer"].unique().sort().to_list()
    picks = None if presentations is None else _picks(presentations, known)
    picks = (
        None
        if picks is None
        else picks.join(frame.select("item_id").unique(), on="item_id", how="semi")
    )
    centred = None if dataset is None else _centred(frame, dataset)
    rows: list[BiasRow] = []
    positions: list[PositionRow] = []
    for name in names:
        row: dict[str, object] = {"scorer": name}
        if picks is not None:
            mine = picks.filter(pl.col("scorer") == name)
            found, p = _positions(mine.filter(~pl.col("error")), confidence)
            positions += [
                PositionRow.model_validate({"scorer": name, **position}) for position in found
            ]
            row |= {"position_p": p, **_consistency(mine, confidence)}
        if centred is not None:
            own = centred.filter(pl.col("scorer") == name)
            s, v, c, cluster = (
                own[column].to_numpy() for column in ("score", "length", "own", "cluster")
            )
            row["length"] = _partial(s, v, c, cluster, confidence)
        rows.append(BiasRow.model_validate(row))
    return JudgeBias(scorers=tuple(rows), positions=tuple(positions), counted=counted)


def _checked(presentations: pl.DataFrame) -> pl.DataFrame:
    """The columns of ``PRESENTATIONS`` in their types.

    Raises:
        CarbError: the frame is not as described.
    """
    polars_frame(presentations, "presentations")
    missing = [name for name in PRESENTATIONS if name not in presentations.columns]
    if missing:
        raise CarbError(
            f"presentations lacks the columns {missing}; it needs {list(PRESENTATIONS)}."
        )
    if not presentations.schema["position"].is_integer():
        raise CarbError("presentations: 'position' must be whole numbers.")
    shown = presentations.select(
        pl.col(*KEYS, "response_id").cast(pl.String),
        pl.col("position").cast(pl.Int64),
        pl.col("score").cast(pl.Float64),
    )
    for name in ("response_id", "position"):
        if shown.select(*KEYS, name).is_duplicated().any():
            raise CarbError(
                "presentations: a response or a position occurs twice in one presentation "
                "(order_id)."
            )
    return shown


def _picks(presentations: pl.DataFrame, frame: pl.DataFrame) -> pl.DataFrame:
    """A row per presentation: its keys, ``cluster``, ``order`` (responses as shown), ``shown`` (the
    same, sorted), ``pick`` (response), ``place`` of the pick, ``size``, ``error``."""
    known = frame.select("scorer", "item_id", "response_id", "cluster")
    keys = ["scorer", "item_id", "response_id"]
    joined = _checked(presentations).join(known, on=keys, how="left").sort(*KEYS, "position")
    lost = joined.filter(pl.col("cluster").is_null())
    if lost.height:
        row = lost.row(0, named=True)
        raise CarbError(
            f"presentations: the table has no response '{row['response_id']}' of item "
            f"'{row['item_id']}' scored by '{row['scorer']}'."
        )
    level = rounded(pl.col("score"))
    top = level == level.max()
    alone = top.sum() == 1
    return (
        joined.group_by(KEYS, maintain_order=True)
        .agg(
            pl.col("cluster").first(),
            pl.col("response_id").str.join("\0").alias("order"),
            pl.col("response_id").sort().str.join("\0").alias("shown"),
            pl.when(alone)
            .then(pl.col("response_id").filter(top).first())
            .otherwise(pl.lit(""))
            .alias("pick"),
            pl.when(alone).then(top.arg_max()).cast(pl.Int64).alias("place"),
            pl.len().cast(pl.Int64).alias("size"),
            (pl.col("score").is_null() | pl.col("score").is_nan()).any().alias("error"),
        )
        .with_columns(place=pl.when(~pl.col("error")).then("place"))
    )


def _positions(
    picks: pl.DataFrame, confidence: float
) -> tuple[list[dict[str, object]], float | None]:
    """Picks per position (0 is first), and the smallest p of a position, corrected for their
    number."""
    decided = picks.filter(pl.col("place").is_not_null())
    if not decided.height:
        return [], None
    size, place = decided["size"].to_numpy(), decided["place"].to_numpy()
    cluster, _ = number(decided, ("cluster",))
    positions = np.arange(int(size.max()))
    picked = (place[:, None] == positions).astype(np.float64)
    expected = (positions < size[:, None]) / size[:, None]
    rows: list[dict[str, object]] = []
    for position in positions:
        share, low, high = share_interval(picked[:, position], cluster, confidence)
        limits = {
            "share": share,
            "low": low,
            "high": high,
            "expected": float(expected[:, position].mean()),
        }
        rows.append({"position": int(position), "picks": int(picked[:, position].sum()), **limits})
    p = adjust(means((picked - expected).T, cluster, confidence, (-1.0, 1.0)).p)
    return rows, float(p.min()) if len(positions) > 1 else None


def _consistency(picks: pl.DataFrame, confidence: float) -> dict[str, object]:
    judged = picks.filter(~pl.col("error"))
    result: dict[str, object] = {}
    pairs = judged.join(judged, on=["item_id", "shown"], suffix="_b").filter(
        pl.col("order_id") < pl.col("order_id_b")
    )
    swapped = pl.col("order") != pl.col("order_b")
    for name, count, which in (
        ("swap_consistency", "swap_pairs", swapped),
        ("self_agreement", "self_pairs", ~swapped),
    ):
        part = pairs.filter(which)
        cluster, _ = number(part, ("cluster",))
        same = (part["pick"] == part["pick_b"]).cast(pl.Float64).to_numpy()
        share, low, high = share_interval(same, cluster, confidence)
        result |= {name: Interval(estimate=share, low=low, high=high), count: part.height}
    return result


def _centred(frame: pl.DataFrame, dataset: Dataset) -> pl.DataFrame:
    """``scorer``, ``cluster`` as a number, and without the mean of the set: ``score``, ``length``,
    ``own`` (chosen).

    Raises:
        CarbError: the data set lacks a response.
    """
    scored_sets = set(frame["item_id"].unique())
    rows = [
        (item.id, one.id, float(len(one.text)))
        for item in dataset
        if item.id in scored_sets
        for one in item.responses
    ]
    lengths = pl.DataFrame(rows, schema=["item_id", "response_id", "length"], orient="row")
    scored = frame.filter(pl.col("score").is_not_null())
    joined = scored.join(lengths, on=["item_id", "response_id"], how="left").sort(
        "scorer", "item_id", "response_id"
    )
    lost = joined.filter(pl.col("length").is_null())
    if lost.height:
        row = lost.row(0, named=True)
        raise CarbError(
            f"The data set has no response '{row['response_id']}' of item '{row['item_id']}'."
        )
    own = (pl.col("role") == "chosen").cast(pl.Float64).alias("own")
    means = (
        pl.col(c) - pl.col(c).mean().over("scorer", "item_id") for c in ("score", "length", "own")
    )
    return joined.with_columns(own).select(
        "scorer", pl.col("cluster").rank("dense").over("scorer") - 1, *means
    )


def _partial(s: Floats, v: Floats, c: Floats, cluster: Ints, confidence: float) -> Interval:
    """Partial correlation of s and v given c, all centred; low, high and p by the jackknife on
    artanh r."""
    sums = [np.bincount(cluster, product) for product in (s * s, v * v, c * c, s * v, s * c, v * c)]
    units = np.column_stack(sums).astype(np.float64)

    def z(sums: Floats) -> Floats:
        ss, vv, cc, sv, sc, vc = np.moveaxis(sums, -1, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            given = np.where(cc > 0, 1 / cc, 0)
            own, other = ss - sc**2 * given, vv - vc**2 * given
            defined = (own > 1e-12 * ss) & (other > 1e-12 * vv)
            r = np.where(defined, (sv - sc * vc * given) / np.sqrt(own * other), np.nan)
            result: Floats = np.arctanh(np.clip(r, -1, 1))
        return result

    whole = float(z(units.sum(0)))
    if math.isnan(whole):
        return Interval()
    _, low, high = jackknife_interval(units, z, confidence)
    if low is None or high is None:
        return Interval(estimate=math.tanh(whole))
    from scipy.special import stdtr, stdtrit

    freedom = len(units) - 1
    error = (high - low) / 2 / float(stdtrit(freedom, 0.5 + confidence / 2))
    p = 2 * float(stdtr(freedom, -abs(whole) / error)) if error > 0 else None
    return Interval(estimate=math.tanh(whole), low=math.tanh(low), high=math.tanh(high), p=p)
