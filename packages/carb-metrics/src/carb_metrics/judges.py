"""How a judge behaves apart from being right: position, order, repetition, length."""

import math
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import polars as pl
from polars import col
from pydantic import Field

from carb_data import CarbError, Dataset, ScoreTable, rounded
from carb_metrics.cells import Counted, Result, ScorerRow, Scorers
from carb_metrics.clusters import number
from carb_metrics.frames import beside, refuse_lost, text, unperturbed
from carb_metrics.interval import Interval
from carb_metrics.intervals import (
    Floats,
    check_confidence,
    nan_where_undefined,
    t_quantile,
    t_tails,
)
from carb_metrics.jackknife import jackknife_interval
from carb_metrics.means import means, share_interval
from carb_metrics.outcome import counted_sets, polars_frame
from carb_metrics.paired import adjust
from carb_metrics.scored import Scored

PRESENTATIONS = "scorer item_id order_id response_id position score"
"""Columns of ``presentations``."""
KEYS = ("scorer", "item_id", "order_id")
"""Columns that tell presentations apart."""
READ = "scorer item_id response_id role cluster score"
"""Columns of scores that are read, beside the one that gives groups."""
CENTRED = ("score", "length", "chosen")
"""Columns of which the length bias is made."""


class BiasRow(ScorerRow):
    """How one judge behaves apart from being right. Null if the input does not support it."""

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
    """Biases of judges. A number that the input does not support is null."""

    positions: tuple[PositionRow, ...]
    """A row per scorer and position."""
    groups: "dict[str, JudgeBias]" = Field(default={}, exclude=True)
    """The same of the sets of each value of ``by``; no part of the JSON."""


def judge_bias(
    scores: ScoreTable,
    presentations: pl.DataFrame | None = None,
    dataset: Dataset | None = None,
    confidence: float = 0.95,
    *,
    by: str | None = None,
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
      explains is taken out of both (partial correlation; Fisher 1924, Metron 3:329-332). Lengths
      are in characters. Above 0, a longer text scores higher than an equally right, shorter one.

    Shares lie between 0 and 1, and carry Wilson's interval (1927, JASA 22:209-212), clustered by
    source item or else item. The length's interval is the jackknife's on the scale of artanh r,
    with the same clusters (Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapter
    11).

    Args:
        scores: table of one or several scorers, for roles, and for the scores behind the length
            bias.
        presentations: a row per response shown: ``scorer``, ``item_id``, ``order_id`` (any text
            that tells the presentations of one set apart), ``response_id``, ``position`` (whole
            number, in the order shown), ``score`` (null where judging failed).
        dataset: the sets that were scored, for the lengths of their texts; without it ``length`` is
            null.
        confidence: The level of all intervals, a share such as 0.95.
        by: a column of sets, such as ``culture``, of whose values each gets ``.groups``; null for
            none.
        mirrors: whether sets other than the main ones count too; presentations of sets that do not
            are left out.

    Returns:
        ``.scorers``: a row per scorer. ``.positions``: a row per scorer and position, counted from
        0. A number that the input does not support is null.

    Raises:
        CarbError: a frame is not as described, or names a set or response that the table lacks. Or
            ``confidence`` is not between 0 and 1.
    """
    check_confidence(confidence)
    scored = Scored.of(scores)
    table, counted = counted_sets(scored, mirrors=mirrors)
    frame = unperturbed(table.rows)
    grouping = [] if by is None else [by]
    frame = frame.select(*READ.split(), *grouping)
    names = frame.select("scorer", *grouping).unique(maintain_order=True)
    picks = None
    if presentations is not None:
        every = _picks(presentations, unperturbed(scored.rows))
        sets = frame.select("item_id", *grouping).unique("item_id")
        picks = every.join(sets, on="item_id", maintain_order="left")
    centred = None
    if dataset is not None:
        centred = _centred(frame, dataset)
    groups: dict[str, JudgeBias] = {}
    if by is not None:
        shown = _parts(picks, by)
        apart = _parts(centred, by)
        for value, part in _parts(names, by).items():
            its_picks = shown.get(value)
            lengths = apart.get(value)
            group = _of_sets(part["scorer"], its_picks, lengths, confidence, counted)
            groups[str(value)] = group
    whole = _of_sets(names["scorer"], picks, centred, confidence, counted)
    return whole.changed(groups=groups)


def _parts(
    rows: pl.DataFrame | None,
    column: str,
) -> dict[Any, pl.DataFrame]:
    """The rows of each value of a column, in the order of the rows; null has none."""
    if rows is None:
        return {}
    parts = rows.partition_by(column, maintain_order=True, as_dict=True)
    return {value: part for (value,), part in parts.items()}


def _of_sets(
    scorers: pl.Series,
    picks: pl.DataFrame | None,
    centred: pl.DataFrame | None,
    confidence: float,
    counted: Counted,
) -> JudgeBias:
    rows: list[BiasRow] = []
    positions: list[PositionRow] = []
    shown = _parts(picks, "scorer")
    apart = _parts(centred, "scorer")
    for name in scorers.unique().sort():
        row: dict[str, object] = {"scorer": name}
        if picks is not None:
            its_picks = shown.get(name, picks.clear())
            shares, row["position_p"] = _positions(its_picks, confidence)
            positions += shares
            row |= _consistency(its_picks, confidence)
        if centred is not None:
            row["length"] = _partial(apart.get(name, centred.clear()), confidence)
        rows.append(BiasRow.model_validate(row))
    return JudgeBias(
        scorers=tuple(rows),
        positions=tuple(positions),
        counted=counted,
    )


def _checked(presentations: pl.DataFrame) -> pl.DataFrame:
    """The columns of ``PRESENTATIONS`` in their types.

    Raises:
        CarbError: the frame is not as described.
    """
    polars_frame(presentations, "presentations", PRESENTATIONS.split())
    if not presentations.schema["position"].is_integer():
        raise CarbError("presentations: 'position' must be whole numbers.")
    shown = presentations.select(
        text(*KEYS, "response_id"),
        col.position.cast(pl.Int64),
        col.score.cast(pl.Float64),
    )
    for name in ("response_id", "position"):
        unique = shown.select(*KEYS, name)
        if unique.is_duplicated().any():
            raise CarbError(
                "presentations: a response or a position occurs twice in one presentation "
                "(order_id)."
            )
    return shown


def _picks(
    presentations: pl.DataFrame,
    frame: pl.DataFrame,
) -> pl.DataFrame:
    """A row per presentation: its keys, ``cluster``, ``order`` (responses as shown), ``shown`` (the
    same, sorted), ``pick`` (response), ``position`` of the pick, ``size``, ``error``."""
    known = frame.select("scorer", "item_id", "response_id", "cluster")
    keys = ["scorer", "item_id", "response_id"]
    joined = _checked(presentations).join(known, on=keys, how="left")
    joined = joined.sort(*KEYS, "position")
    refuse_lost(
        joined,
        "cluster",
        "presentations: the table has no response '{response_id}' of item '{item_id}' scored by "
        "'{scorer}'.",
    )
    level = rounded(col.score)
    top = level == level.max()
    alone = pl.when(top.sum() == 1)
    response = col.response_id
    pick = alone.then(response.filter(top).first())
    position = alone.then(top.arg_max())
    failed = col.score.fill_nan(None).is_null()
    rows = joined.group_by(KEYS, maintain_order=True)
    picks = rows.agg(
        col.cluster.first(),
        order=response.str.join("\0"),
        shown=response.sort().str.join("\0"),
        pick=pick.otherwise(pl.lit("")),
        position=position.cast(pl.Int64),
        size=pl.len().cast(pl.Int64),
        error=failed.any(),
    )
    position = pl.when(~col.error).then("position")
    return picks.with_columns(position=position)


def _positions(
    picks: pl.DataFrame,
    confidence: float,
) -> tuple[list[PositionRow], float | None]:
    """Picks per position (0 is first), and the smallest p of a position, corrected for their
    number."""
    decided = picks.drop_nulls("position")
    if not decided.height:
        return [], None
    size = decided["size"].to_numpy()
    cluster, _ = number(decided, ("cluster",))
    positions = np.arange(int(size.max()))
    is_pick = decided["position"].to_numpy()[:, None] == positions
    picked = is_pick.astype(float)
    sizes = size[:, None]
    shown = positions < sizes
    expected = shown / sizes
    rows = []
    for position in positions:
        here = picked[:, position]
        row = PositionRow(
            scorer=decided["scorer"][0],
            position=int(position),
            picks=int(here.sum()),
            share=share_interval(here, cluster, confidence),
            expected=float(expected[:, position].mean()),
        )
        rows.append(row)
    if len(positions) == 1:
        return rows, None
    tests = means((picked - expected).T, cluster, confidence, (-1.0, 1.0))
    return rows, float(adjust(tests.p).min())


def _consistency(
    picks: pl.DataFrame,
    confidence: float,
) -> dict[str, Interval]:
    judged = picks.filter(~col.error)
    keys = ["item_id", "shown"]
    both = judged.join(judged, on=keys, suffix="_b")
    pairs = both.filter(col.order_id < col.order_id_b)
    is_swapped = col.order != col.order_b
    swapped = pairs.filter(is_swapped)
    repeated = pairs.filter(~is_swapped)
    return {
        "swap_consistency": _same_pick(swapped, confidence),
        "self_agreement": _same_pick(repeated, confidence),
    }


def _same_pick(
    pairs: pl.DataFrame,
    confidence: float,
) -> Interval:
    cluster, _ = number(pairs, ("cluster",))
    same = pairs["pick"] == pairs["pick_b"]
    credit = same.cast(pl.Float64)
    share = share_interval(credit.to_numpy(), cluster, confidence)
    return share.changed(n=pairs.height)


def _centred(
    frame: pl.DataFrame,
    dataset: Dataset,
) -> pl.DataFrame:
    """The rows with a score, ``cluster`` as a number, and without the mean of the set: ``score``,
    ``length``, ``chosen``.

    Raises:
        CarbError: the data set lacks a response.
    """
    rows = [(item.id, one.id, float(len(one.text))) for item in dataset for one in item.responses]
    keys = ["item_id", "response_id"]
    lengths = pl.DataFrame(rows, schema=[*keys, "length"], orient="row")
    joined = beside(frame.drop_nulls("score"), lengths, keys).sort("scorer", *keys)
    message = "The data set has no response '{response_id}' of item '{item_id}'."
    refuse_lost(joined, "length", message)
    joined = joined.with_columns(chosen=(col.role == "chosen").cast(pl.Float64))
    values = col(CENTRED)
    cluster = col.cluster.rank("dense")
    return joined.with_columns(
        cluster - 1,
        values - values.mean().over("scorer", "item_id"),
    )


def _partial(rows: pl.DataFrame, confidence: float) -> Interval:
    """Partial correlation of score and length given the role, all centred; low, high and p by the
    jackknife on artanh r."""
    columns = rows.select(CENTRED).to_numpy().T
    _, cluster = np.unique(rows["cluster"].to_numpy(), return_inverse=True)
    pairs = combinations_with_replacement(columns, 2)
    sums = [np.bincount(cluster, one * other) for one, other in pairs]
    units = np.column_stack(sums).astype(float)
    z = jackknife_interval(units, _partial_z, confidence)
    whole = float(_partial_z(units.sum(0)))
    if math.isnan(whole):
        return Interval()
    if z.low is None or z.high is None:
        return Interval(estimate=math.tanh(whole))
    freedom = len(units) - 1
    half = (z.high - z.low) / 2
    error = half / float(t_quantile(freedom, confidence))
    p = None
    if error > 0:
        p = float(t_tails(whole / error, freedom))
    return Interval(
        estimate=math.tanh(whole),
        low=math.tanh(z.low),
        high=math.tanh(z.high),
        p=p,
    )


def _partial_z(sums: Floats) -> Floats:
    """(..., 6) sums of the products of score, length and role to (...) artanh of the partial r."""
    ss, sl, sr, ll, lr, rr = np.moveaxis(sums, -1, 0)
    with nan_where_undefined():
        given = np.where(rr > 0, 1 / rr, 0)
        score = ss - sr**2 * given
        length = ll - lr**2 * given
        score_varies = score > 1e-12 * ss
        length_varies = length > 1e-12 * ll
        defined = score_varies & length_varies
        both = sl - sr * lr * given
        r = both / np.sqrt(score * length)
        partial = np.clip(np.where(defined, r, np.nan), -1, 1)
        z: Floats = np.arctanh(partial)
    return z
