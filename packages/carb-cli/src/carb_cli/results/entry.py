"""An entry: one scorer's rows on a data set, keyed by set and content, and the numbers that follow
from them."""

import hashlib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import polars as pl
from polars import col
from pydantic import Field

from carb_cli.json_output import digest
from carb_cli.runs import dataset_of, only, run_folders, scores_of
from carb_cli.summary import Numbers, numbers, of_run
from carb_data import (
    BonSet,
    CarbError,
    Dataset,
    Frozen,
    ScoreTable,
    content_hash,
    load,
    read_file,
    write_whole,
)
from carb_scorers import RunRecord

ENTRY, ROWS = "entry.json", "rows.parquet"
_COLUMNS = {
    "item_id": pl.String,
    "content": pl.String,
    "response_id": pl.String,
    "score": pl.Float64,
}
_LARGEST = {ENTRY: 1_000_000, ROWS: 100_000_000}
"""Bytes of a file of an entry; a larger one is refused before it is read."""
_SAME = 1e-6
"""Largest difference between a number of an entry and the same number computed again."""


class ResultEntry(Frozen):
    """``entry.json``: one scorer on one data set. The rows are in ``rows.parquet`` beside it."""

    schema_: Literal["carb.results.entry/4"] = Field(default="carb.results.entry/4", alias="schema")
    run: RunRecord
    """The command, versions, machine, seed and data of the run, with this scorer alone."""
    rows_sha256: str
    numbers: Numbers

    @property
    def name(self) -> str:
        """The scorer's name."""
        return self.run.scorers[0].spec.name

    @property
    def folder(self) -> Path:
        """Where the entry belongs within a folder of results: names that look alike get different
        folders."""
        data = self.run.dataset
        first = "data"
        if data.names:
            first = Path(data.names[0]).stem
        of_data = f"{slug(first)}-{data.fingerprint[:8]}"
        return Path(of_data, f"{slug(self.name)}-{digest(self.name)[:8]}")


Hashed = dict[str, tuple[str, BonSet]]
"""A data set by the ids of its sets, each with the hash of its content."""


def candidates(named: Sequence[Dataset], builtin: Sequence[str] = ("carb-seed",)) -> list[Hashed]:
    """Data sets among which the one of an entry is looked for.

    An entry cannot make this program open a file or an address: only data that the user names, and
    the seed, are read.
    """
    datasets = [*named, *map(load, builtin)]
    return [{item.id: (content_hash(item), item) for item in sets} for sets in datasets]


def holding(rows: pl.DataFrame, known: Sequence[Hashed]) -> Dataset | None:
    """The sets of the rows, out of the first data set that has all of them with the same
    content."""
    wanted = dict(rows.select("item_id", "content").unique().iter_rows())
    for sets in known:
        held = {id_: content for id_, (content, _) in sets.items() if id_ in wanted}
        if held == wanted:
            return Dataset(sets[id_][1] for id_ in held)
    return None


def entries_of(folder: Path) -> list[tuple[ResultEntry, bytes]]:
    """The entries of a finished run, one for each scorer, with the bytes of their rows.

    Args:
        folder: the folder that ``carb run`` wrote.

    Raises:
        CarbError: the folder is no run.
    """
    record = RunRecord.read(folder)
    dataset = dataset_of(folder)
    scores = scores_of(folder)
    numbers_of = of_run(record, folder, dataset)
    hashes = {item.id: content_hash(item) for item in dataset}
    item = col.item_id.cast(pl.String)
    content = item.replace_strict(hashes, return_dtype=pl.String)
    response = col.response_id.cast(pl.String)
    unperturbed = col.perturbation.is_null()
    entries = []
    for scorer in record.scorers:
        name = scorer.spec.name
        kept = only(scores, name).frame.filter(unperturbed)
        frame = kept.select(item, content.alias("content"), response, "score")
        buffer = BytesIO()
        frame.sort("item_id", "response_id").write_parquet(
            buffer, compression="zstd", compression_level=19
        )
        packed = buffer.getvalue()
        entry = ResultEntry(
            run=record.changed(scorers=(scorer,)),
            rows_sha256=hashlib.sha256(packed).hexdigest(),
            numbers=numbers_of[name],
        )
        entries.append((entry, packed))
    return entries


def save(entry: ResultEntry, packed: bytes, results: Path) -> Path:
    """Write an entry into its folder below ``results``; returns the folder."""
    folder = results / entry.folder
    write_whole(folder / ROWS, packed)
    write_whole(folder / ENTRY, entry.model_dump_json(indent=1) + "\n")
    return folder


def found_in(results: Path) -> list[Path]:
    """The folders of the entries below a folder, in order of their names.

    Raises:
        CarbError: there is no entry.
    """
    folders = []
    if results.is_dir():
        folders = sorted(path.parent for path in results.rglob(ENTRY))
    if not folders:
        run, out = "runs/first", str(results)
        if (run_folders(results)[0] / "run.json").is_file():
            run, out = out, "results"
        again = shlex.join(["carb", "results", "add", run, "--out", out])
        raise CarbError(f"{results} holds no entry. Make one with: {again}")
    return folders


def read(folder: Path) -> tuple[ResultEntry, pl.DataFrame]:
    """Read an entry and its rows.

    Raises:
        CarbError: a file is missing, too large or not of its form, or the rows are not those of the
            entry.
    """
    for name, largest in _LARGEST.items():
        path = folder / name
        if not path.is_file():
            raise CarbError(f"{path} is missing.")
        if path.stat().st_size > largest:
            raise CarbError(
                f"{path} has {path.stat().st_size:,} bytes; at most {largest:,} are read."
            )
    entry = read_file(ResultEntry, folder / ENTRY, "entry")
    if len(entry.run.scorers) != 1:
        raise CarbError(
            f"{folder / ENTRY}: run.scorers must hold one scorer, and has {len(entry.run.scorers)}."
        )
    packed = (folder / ROWS).read_bytes()
    if hashlib.sha256(packed).hexdigest() != entry.rows_sha256:
        raise CarbError(f"{folder / ROWS}: its sha256 is not the one in {ENTRY}.")
    try:
        frame = pl.read_parquet(packed)
    except (
        OSError,
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
    ) as error:  # a broken file can panic
        raise CarbError(f"{folder / ROWS} cannot be read: {str(error).splitlines()[0]}.") from None
    if dict(frame.schema) != _COLUMNS:
        raise CarbError(
            f"{folder / ROWS} must have the columns {', '.join(_COLUMNS)}, of text and "
            "64-bit numbers."
        )
    return entry, frame


class Checked(Frozen):
    """The findings about an entry."""

    problems: tuple[str, ...] = ()
    """Empty where every number follows from the entry's rows."""
    confirmed: Numbers | None = None
    """The numbers, computed again from the rows; null where there is a problem."""


def check(folder: Path, known: Sequence[Hashed]) -> Checked:
    """Compute the numbers of an entry again from its rows.

    Args:
        folder: The folder of the entry, with ``entry.json``.
        known: data sets among which its own must be, from ``candidates``.
    """
    try:
        entry, rows = read(folder)
    except CarbError as error:
        return Checked(problems=(str(error),))
    dataset = holding(rows, known)
    if dataset is None:
        names = " and ".join(entry.run.dataset.names)
        why = (
            f"{names} is not carb-seed and not named with --data, an id is unknown, or a set's "
            "content is another"
        )
        return Checked(problems=(f"its sets are not in this version of the data: {why}",))
    problems = list(_gaps(rows, dataset))
    if folder.parts[-2:] != entry.folder.parts:
        problems.append(f"it must be in a folder {entry.folder}")
    if problems:
        return Checked(problems=tuple(problems))
    table = table_of(rows, dataset, entry.name)
    (again,) = numbers(table, dataset, entry.run.scorers).values()
    differences = tuple(_differences(entry.numbers.model_dump(), again.model_dump()))
    return Checked(problems=differences, confirmed=None if differences else again)


def table_of(rows: pl.DataFrame, dataset: Dataset, scorer: str) -> ScoreTable:
    """An entry's scores on the sets of a data set, in the form that metrics read."""
    of_responses = rows.select("item_id", "response_id", "score").iter_rows()
    scores = {(item, response): score for item, response, score in of_responses}
    return ScoreTable.from_scores(scorer, dataset, scores)


def _gaps(rows: pl.DataFrame, dataset: Dataset) -> Iterable[str]:
    """Responses without a row, rows without a response, and rows that are there twice."""
    wanted = {(item.id, response.id) for item in dataset for response in item.responses}
    there = {*rows.select("item_id", "response_id").iter_rows()}
    if len(there) < rows.height:
        yield f"{rows.height - len(there)} rows are there twice"
    missing = sorted(wanted - there)
    if missing:
        yield f"{len(missing)} responses have no row, the first is {'/'.join(missing[0])}"
    unknown = sorted(there - wanted)
    if unknown:
        yield f"{len(unknown)} rows are of no response, the first is {'/'.join(unknown[0])}"
    if not rows["score"].is_finite().fill_null(True).all():
        yield "a score is infinite or not a number"


def _differences(claimed: Any, computed: Any, at: str = "numbers") -> Iterable[str]:
    if isinstance(claimed, Mapping) and isinstance(computed, Mapping):
        for key in claimed.keys() | computed.keys():
            yield from _differences(claimed.get(key), computed.get(key), f"{at}.{key}")
        return
    same = claimed == computed
    if isinstance(claimed, float) and isinstance(computed, float | int):
        same = abs(claimed - computed) <= _SAME
        claimed = f"{claimed:.6g}"
        computed = f"{computed:.6g}"
    if not same:
        yield f"{at} says {claimed}; its rows give {computed}"


def slug(text: str) -> str:
    """A text as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9._@-]+", "-", text).strip("-.")[:60] or "x"
