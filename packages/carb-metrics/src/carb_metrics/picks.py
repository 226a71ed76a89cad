"""Do scorers pick the same answers, and do they make the same mistakes?"""

from __future__ import annotations

import numpy as np
import polars as pl

from carb_data import ScoreTable
from carb_metrics.cells import Result
from carb_metrics.clusters import number, share_interval
from carb_metrics.intervals import check_confidence
from carb_metrics.pairs import as_text

__all__ = ["PickRow", "pick_agreement"]


class PickRow(Result):
    """How often two scorers pick the same answer. Shares are null where no set tells."""

    a: str
    b: str
    n: int
    """Sets in which both have one answer at the top; a tie or an error is no pick."""
    same: float | None
    """Share of these sets in which both pick the same answer."""
    low: float | None
    high: float | None
    wrong: int
    """Sets in which both pick a wrong answer."""
    same_wrong: float | None
    """Share of the sets in ``wrong`` in which both pick the same wrong answer."""
    same_wrong_low: float | None
    same_wrong_high: float | None
    same_wrong_chance: float | None
    """What that share would be if each picked one of the wrong answers at random: the mean of 1/(N−1)."""


def pick_agreement(scores: ScoreTable, confidence: float = 0.95) -> tuple[PickRow, ...]:
    """How often every two scorers pick the same answer, and the same wrong one where both are wrong.

    Two good scorers agree because both are right; that they make the same mistake more often than chance shows that
    they read the same wrong cue, or that the key is wrong. Intervals are Wilson's, clustered by source item or family.

    Args:
        scores: table of any scorers; perturbed rows are left out.
        confidence: the confidence level of all intervals, between 0 and 1.

    Returns:
        a row for every two scorers, in alphabetical order; none for fewer than two scorers.
    """
    check_confidence(confidence)
    frame = as_text(scores).filter(pl.col("perturbation").is_null())
    if frame["scorer"].n_unique() < 2:
        return ()
    top = pl.col("score") == pl.col("score").max()
    decided = pl.col("score").is_not_null().all() & (top.sum() == 1)
    picks = frame.group_by("scorer", "item_id").agg(
        pl.when(decided).then(pl.col("response_id").filter(top).first()).alias("pick"),
        (top & (pl.col("role") == "chosen")).any().alias("right"),
        pl.len().alias("size"),
        pl.col("cluster").first(),
    )
    item, _ = number(picks, ("item_id",))
    scorer, names = number(picks, ("scorer",))
    pick, _ = number(picks, ("pick",))
    shape = (names.height, int(item.max(initial=-1)) + 1)
    picked, right = np.full(shape, -1), np.zeros(shape, dtype=bool)
    picked[scorer, item] = np.where(picks["pick"].is_not_null().to_numpy(), pick, -1)
    right[scorer, item] = picks["right"].to_numpy()
    size, cluster = np.full(shape[1], 2), np.zeros(shape[1], dtype=np.int64)
    size[item] = picks["size"].to_numpy()
    cluster[item] = number(picks, ("cluster",))[0]
    found = []
    for a in range(shape[0]):
        for b in range(a + 1, shape[0]):
            both = (picked[a] >= 0) & (picked[b] >= 0)
            wrong = both & ~right[a] & ~right[b]
            same = (picked[a] == picked[b]).astype(np.float64)
            share, low, high = share_interval(same[both], cluster[both], confidence)
            alike, alike_low, alike_high = share_interval(same[wrong], cluster[wrong], confidence)
            found.append(
                PickRow(
                    a=names["scorer"][a],
                    b=names["scorer"][b],
                    n=int(both.sum()),
                    same=share,
                    low=low,
                    high=high,
                    wrong=int(wrong.sum()),
                    same_wrong=alike,
                    same_wrong_low=alike_low,
                    same_wrong_high=alike_high,
                    same_wrong_chance=float((1 / (size[wrong] - 1)).mean()) if wrong.any() else None,
                )
            )
    return tuple(found)
