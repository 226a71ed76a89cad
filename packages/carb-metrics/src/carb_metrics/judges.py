"""How a judge behaves apart from being right: position, order, repetition, length."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from carb_data import CarbError, Dataset, ScoreTable
from carb_metrics.cells import Result, ScorerRow, Scorers
from carb_metrics.clusters import number
from carb_metrics.interval import Interval
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.jackknife import jackknife_interval
from carb_metrics.means import means, share_interval
from carb_metrics.outcome import counted_sets, polars_frame
from carb_metrics.paired import adjust
from carb_metrics.scored import Scored
from carb_metrics.ties import rounded

PRESENTATIONS = ("scorer", "item_id", "order_id", "response_id", "position", "score")
"""Columns of ``presentations``."""
KEYS = ("scorer", "item_id", "order_id")
"""Columns that tell presentations apart."""
CENTRED = ("score", "length", "chosen")
"""Columns of which the length bias is made."""


class BiasRow(ScorerRow):
    """How one judge behaves apart from being right. Null where the input does not tell."""

    position_p: float | None = None
    """p of the test that every position is picked alike often."""
    swap_consistency: Interval = Interval()
    """Share of pairs of presentations of one set in different orders that have the same pick; ``n``
    counts these pairs."""
    self_agreement: Interval = Interval()
    """The same share for pairs in the same order, that is, for a question asked twice."""
    length: Interval = Interval()
    """Partial correlation of score and length within sets, given the role."""


class PositionRow(Result):
    """How often one position is picked."""

    scorer: str
    position: int
    """0 is first."""
    picks: int
    share: Interval
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
    scored = Scored.of(scores)
    known = scored.rows.filter(pl.col("perturbation").is_null())
    table, counted = counted_sets(scored, mirrors=mirrors)
    frame = table.rows.filter(pl.col("perturbation").is_null())
    picks = None
    if presentations is not None:
        counted_items = frame.select("item_id").unique()
        picks = _picks(presentations, known).join(counted_items, on="item_id", how="semi")
    centred = None if dataset is None else _centred(frame, dataset)
    rows: list[BiasRow] = []
    positions: list[PositionRow] = []
    for name in frame["scorer"].unique().sort():
        row: dict[str, object] = {"scorer": name}
        if picks is not None:
            shown = picks.filter(pl.col("scorer") == name)
            found, row["position_p"] = _positions(shown, confidence)
            positions += found
            row |= _consistency(shown, confidence)
        if centred is not None:
            row["length"] = _partial(centred.filter(pl.col("scorer") == name), confidence)
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
    same, sorted), ``pick`` (response), ``position`` of the pick, ``size``, ``error``."""
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
            pl.when(alone).then(top.arg_max()).cast(pl.Int64).alias("position"),
            pl.len().cast(pl.Int64).alias("size"),
            (pl.col("score").is_null() | pl.col("score").is_nan()).any().alias("error"),
        )
        .with_columns(position=pl.when(~pl.col("error")).then("position"))
    )


def _positions(picks: pl.DataFrame, confidence: float) -> tuple[list[PositionRow], float | None]:
    """Picks per position (0 is first), and the smallest p of a position, corrected for their
    number."""
    decided = picks.filter(~pl.col("error") & pl.col("position").is_not_null())
    if not decided.height:
        return [], None
    size = decided["size"].to_numpy()
    cluster, _ = number(decided, ("cluster",))
    positions = np.arange(int(size.max()))
    picked = (decided["position"].to_numpy()[:, None] == positions).astype(np.float64)
    expected = (positions < size[:, None]) / size[:, None]
    rows = []
    for position in positions:
        row = PositionRow(
            scorer=decided["scorer"][0],
            position=int(position),
            picks=int(picked[:, position].sum()),
            share=share_interval(picked[:, position], cluster, confidence),
            expected=float(expected[:, position].mean()),
        )
        rows.append(row)
    p = adjust(means((picked - expected).T, cluster, confidence, (-1.0, 1.0)).p)
    return rows, float(p.min()) if len(positions) > 1 else None


def _consistency(picks: pl.DataFrame, confidence: float) -> dict[str, Interval]:
    judged = picks.filter(~pl.col("error"))
    pairs = judged.join(judged, on=["item_id", "shown"], suffix="_b")
    pairs = pairs.filter(pl.col("order_id") < pl.col("order_id_b"))
    swapped = pl.col("order") != pl.col("order_b")
    return {
        "swap_consistency": _same_pick(pairs.filter(swapped), confidence),
        "self_agreement": _same_pick(pairs.filter(~swapped), confidence),
    }


def _same_pick(pairs: pl.DataFrame, confidence: float) -> Interval:
    cluster, _ = number(pairs, ("cluster",))
    same = (pairs["pick"] == pairs["pick_b"]).cast(pl.Float64).to_numpy()
    share = share_interval(same, cluster, confidence)
    return share.model_copy(update={"n": pairs.height})


def _centred(frame: pl.DataFrame, dataset: Dataset) -> pl.DataFrame:
    """``scorer``, ``cluster`` as a number, and without the mean of the set: ``score``, ``length``,
    ``chosen``.

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
    chosen = (pl.col("role") == "chosen").cast(pl.Float64)
    values = (pl.col("score"), pl.col("length"), chosen.alias("chosen"))
    return joined.select(
        "scorer",
        pl.col("cluster").rank("dense").over("scorer") - 1,
        *(value - value.mean().over("scorer", "item_id") for value in values),
    )


def _partial(rows: pl.DataFrame, confidence: float) -> Interval:
    """Partial correlation of score and length given the role, all centred; low, high and p by the
    jackknife on artanh r."""
    score, length, role = (rows[name].to_numpy() for name in CENTRED)
    products = (
        score * score,
        length * length,
        role * role,
        score * length,
        score * role,
        length * role,
    )
    sums = [np.bincount(rows["cluster"].to_numpy(), product) for product in products]
    units = np.column_stack(sums).astype(np.float64)
    z = jackknife_interval(units, _partial_z, confidence)
    whole = float(_partial_z(units.sum(0))) if z.estimate is None else z.estimate
    if math.isnan(whole):
        return Interval()
    if z.low is None or z.high is None:
        return Interval(estimate=math.tanh(whole))
    from scipy.special import stdtr, stdtrit

    freedom = len(units) - 1
    error = (z.high - z.low) / 2 / float(stdtrit(freedom, 0.5 + confidence / 2))
    p = 2 * float(stdtr(freedom, -abs(whole) / error)) if error > 0 else None
    return Interval(
        estimate=math.tanh(whole),
        low=math.tanh(z.low),
        high=math.tanh(z.high),
        p=p,
    )


def _partial_z(sums: Floats) -> Floats:
    """(..., 6) sums of the products of score, length and role to (...) artanh of the partial r."""
    ss, ll, rr, sl, sr, lr = np.moveaxis(sums, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        given = np.where(rr > 0, 1 / rr, 0)
        score = ss - sr**2 * given
        length = ll - lr**2 * given
        defined = (score > 1e-12 * ss) & (length > 1e-12 * ll)
        r = np.where(defined, (sl - sr * lr * given) / np.sqrt(score * length), np.nan)
        z: Floats = np.arctanh(np.clip(r, -1, 1))
    return z
