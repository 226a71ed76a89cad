"""Results as Parquet files that many workers write at the same time, and that are read as one journal."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl
from pydantic import TypeAdapter, ValidationError

from carb_data import CarbError
from carb_data.journal import DiskError, sync_folder
from carb_scorers.scorer import ScoreResult

SCHEMA = {"request_id": pl.String, "result": pl.String}
_result = TypeAdapter(ScoreResult)


def write_part(folder: Path, attempt: str, results: Sequence[ScoreResult]) -> Path:
    """Write results as one file, whole or not at all.

    The name says which items of which attempt it holds, so a task that is done twice, because the machine that did
    it first was lost on the way, writes the same file again.

    Args:
        folder: the folder to write, on storage that all workers and the driver share; it is made if it does not
            exist.
        attempt: the id of this attempt; another attempt keeps the files of earlier ones.
        results: the results of one window.

    Raises:
        DiskError: it cannot be written.
    """
    ids = "\n".join([attempt, *sorted(result.request_id for result in results)])
    path = folder / f"{hashlib.sha256(ids.encode()).hexdigest()[:24]}.parquet"
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    rows = [(result.request_id, result.model_dump_json(exclude_defaults=True)) for result in results]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            pl.DataFrame(rows, schema=SCHEMA, orient="row").write_parquet(partial)
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            partial.replace(path)
            sync_folder(folder)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except (OSError, pl.exceptions.ComputeError) as error:
        raise DiskError(path, error if isinstance(error, OSError) else str(error)) from None
    return path


def read_parts(folder: Path) -> Iterator[ScoreResult]:
    """All results in a folder's parts, file by file; an item may occur several times.

    Raises:
        CarbError: a file is damaged.
    """
    for path in sorted(folder.glob("[!.]*.parquet")):
        try:
            for line in pl.read_parquet(path)["result"]:
                yield _result.validate_json(line)
        except (OSError, ValidationError, pl.exceptions.PolarsError) as error:
            reason = str(error).splitlines()[0]
            raise CarbError(
                f"{path} is not a part of a journal ({reason}). Remove it to score its items again."
            ) from None
