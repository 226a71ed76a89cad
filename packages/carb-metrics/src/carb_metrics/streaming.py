"""Accuracy of score tables that are larger than memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from carb_data import CarbError
from carb_data.table import COLUMNS, OPTIONAL
from carb_metrics.accuracy import grouped_accuracy
from carb_metrics.cells import Grouped
from carb_metrics.clusters import CLUSTER, TIES, with_clusters
from carb_metrics.outcomes import Errors, Ties, count_kinds, outcomes_of_frame
from carb_metrics.tally import GAP_DRAWS, Weights

BATCH = 2_000_000
"""Rows that are held in memory at once."""

_SET = ["scorer", "item_id"]
_NEEDED = [*_SET, "role", "perturbation", "score"]
_TIES = ("source_item", "family")


def accuracy_from_parquet(
    source: str | Path | pl.LazyFrame,
    by: str | Sequence[str] = (),
    ties: Ties = "strict",
    confidence: float = 0.95,
    *,
    errors: Errors = "wrong",
    weights: Weights | None = None,
    resamples: int = GAP_DRAWS,
    seed: int = 0,
    batch: int = BATCH,
) -> Grouped:
    """``bon_accuracy`` of a score table in Parquet, read in batches: memory does not grow with the table.

    One pass suffices where the rows of each set are next to each other, as ``ScoreTable.save`` leaves them. Otherwise
    a second pass puts the rows into temporary files, each of which fits into memory. That takes longer, and as much
    disk as the columns that are needed, and gives the same numbers.

    Where sets share a source item or a family, a row of a few numbers per scorer and set is kept in memory, because
    whole clusters are the units of every interval. Where none do, only counts are kept, and the averages over several
    scorers have no interval; ``.of(scorer)`` has them.

    Args:
        source: a Parquet file that ``ScoreTable.save`` wrote, a glob pattern of such files, or a LazyFrame of the
            same columns, of which only those needed are read.
        by, ties, confidence, errors, weights, resamples, seed: as for ``bon_accuracy``.
        batch: the number of rows in memory at once.

    Raises:
        CarbError: the file cannot be read or is not a score table, a set is malformed, or as ``bon_accuracy``.
    """
    keys = (by,) if isinstance(by, str) else tuple(by)
    if batch < 1:
        raise CarbError(f"batch must be at least 1; got {batch}.")
    try:
        table = source if isinstance(source, pl.LazyFrame) else pl.scan_parquet(source)
        columns = table.collect_schema().names()
        missing = [name for name in COLUMNS if name not in columns]
        if missing:
            raise CarbError(f"Not a score table: missing columns {missing}. It has the columns {list(COLUMNS)}.")
        known = [key for key in dict.fromkeys(("scorer", *keys)) if key in COLUMNS or key in OPTIONAL]
        wanted = [key for key in dict.fromkeys((*_NEEDED, *known, *_TIES)) if key in columns]
        counts = _count(table.select(wanted), known, ties, batch)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CarbError(f"Cannot read the score table {source}: {error}") from None
    return grouped_accuracy(counts, keys, confidence, errors=errors, weights=weights, resamples=resamples, seed=seed)


def _count(table: pl.LazyFrame, keys: list[str], ties: Ties, batch: int) -> pl.DataFrame:
    """How many sets of each group have each credit: ``keys``, ``credit``, ``tied``, ``error``, ``count``."""
    rows = int(table.select(pl.len()).collect().item())
    counts = _one_pass(table, keys, ties, batch, rows)
    if counts is None:
        counts = [_kinds(outcomes_of_frame(part, ties), keys) for part in _parts(table, batch, rows)]
    together = pl.concat(counts, how="vertical_relaxed")
    if "count" not in together.columns:
        sets = together.with_columns(count=pl.lit(1, pl.Int64))
        clustered = with_clusters(together)
        if CLUSTER in clustered.columns:
            return clustered.drop(*TIES, strict=False)
        together = sets.drop("item_id", *TIES, strict=False)
    return together.group_by(pl.all().exclude("count")).agg(pl.col("count").sum()).sort(pl.all())


def _one_pass(table: pl.LazyFrame, keys: list[str], ties: Ties, batch: int, rows: int) -> list[pl.DataFrame] | None:
    """Counts of each batch; null where a set turns out to be scattered over the table, or to be malformed."""
    counts, seen = [], []
    rest: pl.DataFrame | None = None
    for start, whole in _batches(table, batch, rows):
        part = _check(whole).filter(pl.col("perturbation").is_null())
        part = part if rest is None else pl.concat([rest, part], how="vertical_relaxed")
        rest = None
        if start + batch < rows and part.height:  # the last set may go on in the next batch
            other = pl.any_horizontal(pl.col(key) != pl.col(key).last() for key in _SET)
            before = part.select(other.arg_true().last()).item()
            begin = 0 if before is None else int(before) + 1
            part, rest = part[:begin], part[begin:]
        try:
            sets = outcomes_of_frame(part, ties, adjacent=True)
        except CarbError:
            return None  # a piece of a set; if there is no more of it, reading in parts says so
        counts.append(_kinds(sets, keys))
        seen.append(
            sets.select(pl.struct(*(pl.col(key).cast(pl.String) for key in _SET)).hash()).to_series().to_numpy()
        )
    names = np.sort(np.concatenate(seen))
    return None if (names[1:] == names[:-1]).any() else counts


def _batches(table: pl.LazyFrame, batch: int, rows: int) -> Iterator[tuple[int, pl.DataFrame]]:
    """Slices with the row at which they start; the next one is read while the caller works on the last."""
    starts = range(0, max(rows, 1), batch)
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(table.slice(0, batch).collect)
        for start in starts:
            frame = coming.result()
            if start + batch < rows:
                coming = reader.submit(table.slice(start + batch, batch).collect)
            yield start, frame


def _parts(table: pl.LazyFrame, batch: int, rows: int) -> Iterator[pl.DataFrame]:
    """The table by hash of the item, so that no set is divided; it is read once, and written once in parts."""
    parts = 1 + 2 * rows // batch
    place = (pl.col("item_id").cast(pl.String).hash() % parts).alias("_part")
    with TemporaryDirectory(prefix="carb-metrics-") as folder:
        for number, (_, frame) in enumerate(_batches(table, batch, rows)):
            for (part,), some in frame.with_columns(place).group_by("_part"):
                to = Path(folder) / str(part)
                to.mkdir(exist_ok=True)
                some.drop("_part").write_parquet(to / f"{number}.parquet", compression="lz4")
        for to in sorted(Path(folder).iterdir()):
            yield _check(pl.read_parquet(to / "*.parquet"))


def _kinds(sets: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Counts of sets that are alike; where the table knows source items or families, a row per set, those as hashes."""
    there = [key for key in keys if key in sets.columns]
    sets = sets.with_columns(pl.col(there).cast(pl.String))
    ties = [name for name in TIES if name in sets.columns]
    if not ties:
        return count_kinds(sets, there)
    hashed = [pl.when(pl.col(n).is_not_null()).then(pl.col(n).cast(pl.String).hash()).alias(n) for n in ties]
    item = pl.col("item_id").cast(pl.String).hash()
    group = [pl.col(key).cast(pl.Categorical) for key in there if key not in ties]
    return sets.select(*group, item, *hashed, "credit", (pl.col("tied") > 0).cast(pl.Int64), "error")


def _check(part: pl.DataFrame) -> pl.DataFrame:
    """The promises of ``ScoreTable`` on which accuracy rests."""
    try:
        part = part.with_columns(pl.col("score").cast(pl.Float64))
    except pl.exceptions.InvalidOperationError:
        raise CarbError("Not a score table: column 'score' must be numbers.") from None
    if not part["score"].is_finite().all():
        raise CarbError("Not a score table: a score is NaN or infinite; a failed score must be null.")
    role = part["role"].cast(pl.String)
    if sum(int((role == name).sum()) for name in ("chosen", "rejected")) < part.height:
        raise CarbError("Not a score table: roles must be 'chosen' or 'rejected'.")
    if part.select(pl.col(_SET).is_null().any()).row(0) != (False, False):
        raise CarbError("Not a score table: empty values in 'scorer' or 'item_id'.")
    return part
