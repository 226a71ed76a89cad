"""The one table that scorers write and metrics read."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import polars as pl
from polars import col

from carb_data.dataset import Dataset
from carb_data.errors import CarbError
from carb_data.journal import write_whole
from carb_data.models import BonSet
from carb_data.registry import is_mirror

_TEXTS = "scorer item_id response_id role culture domain language perturbation original"
_ADDED = "topic source_item family kind place wording_of form"
COLUMNS: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(_TEXTS.split(), pl.String),
    "score": pl.Float64,
}
"""Required columns, a row per response. ``language`` is the response's own, ``score`` is null where
scoring failed."""

OPTIONAL: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(_ADDED.split(), pl.String),
    "mirror": pl.Boolean,
}
"""Columns that ``ScoreTable.with_items`` adds from the data set; ``source_item`` is the
origin (``Dataset.origins``), one for sets that share a source item, family, near-copy or fact;
``family`` is null for a set without mirrors; ``mirror`` is true for a set of a family about a
culture that does not speak its language. It does not count for a culture's accuracy
(``is_mirror``)."""

_DIGITS = 9
_N = TypeVar("_N", pl.Expr, pl.Series)


def rounded(score: _N) -> _N:
    """Scores as they are compared within a set: to nine significant digits, since less is floating
    noise. Equal ones are a tie."""
    return score.round_sig_figs(_DIGITS)


_NULLABLE = {"perturbation", "original", "score", *OPTIONAL}
_TEXT_LIKE = (pl.String, pl.Categorical, pl.Enum)
_KINDS = COLUMNS | OPTIONAL
_NAMED = {pl.String: "text", pl.Boolean: "true or false", pl.Float64: "numbers"}


class ScoreTable:
    """The scores of responses: a checked polars frame with a row per scorer and response.

    It has the columns ``COLUMNS``, and those of ``OPTIONAL`` after ``with_items``. Text columns may
    be String, Categorical or Enum, and stay what they are; scores become Float64. Higher is better,
    on the scorer's own scale. ``frame`` gives the frame back.
    """

    def __init__(self, frame: pl.DataFrame) -> None:
        """Check a frame.

        Raises:
            CarbError: a column is missing or has another type, a value is not allowed, or a row is
                repeated or missing.
        """
        if defect := _kind_defect(frame):
            raise CarbError(f"Not a score table: {defect}.")
        frame = _typed(frame)
        if defect := _content_defect(frame):
            raise CarbError(f"Not a score table: {defect}.")
        _refuse_repeated(frame)
        _refuse_lost(frame)
        self.frame: Final = frame
        """The checked frame: columns of ``COLUMNS`` in order, then those of ``OPTIONAL`` that are
        there."""

    @classmethod
    def load(cls, path: str | Path) -> "ScoreTable":
        """Read a Parquet file that ``save`` wrote.

        Raises:
            CarbError: it cannot be read, or is no score table.
        """
        try:
            return cls(pl.read_parquet(path))
        except (OSError, pl.exceptions.PolarsError) as error:
            raise CarbError(f"Cannot read the score table {path}: {error}") from None
        except CarbError as error:
            raise CarbError(f"{path}: {error}") from None

    def save(self, path: str | Path) -> None:
        """Write the table as Parquet, whole or not at all.

        Raises:
            DiskError: it cannot be written.
        """
        write_whole(Path(path), self.frame.write_parquet)

    @classmethod
    def concat(cls, tables: "list[ScoreTable]") -> "ScoreTable":
        """One table with the rows of all.

        Raises:
            CarbError: not all have the same optional columns.
        """
        if not tables:
            return cls(pl.DataFrame(schema=COLUMNS))
        if len(tables) == 1:
            return tables[0]
        columns = tables[0].frame.columns
        for index, table in enumerate(tables):
            if table.frame.columns != columns:
                differ = sorted({*columns} ^ {*table.frame.columns})
                raise CarbError(
                    f"Tables 0 and {index} differ in the columns {differ}; give all of them "
                    "with_items, or none."
                )
        return cls(pl.concat([table.frame for table in tables], how="vertical_relaxed"))

    @classmethod
    def from_scores(
        cls, scorer: str, dataset: Dataset, scores: Mapping[tuple[str, str], float | None]
    ) -> "ScoreTable":
        """One scorer's scores by the ids of set and response; null where there is none."""
        of_sets = (
            (item, {one.id: scores.get((item.id, one.id)) for one in item.responses})
            for item in dataset
        )
        return cls.of_sets(scorer, of_sets)

    @classmethod
    def of_sets(
        cls, scorer: str, scored: Iterable[tuple[BonSet, Mapping[str, float | None]]]
    ) -> "ScoreTable":
        """One scorer's scores of sets, each by the id of the response; null where there is none. A
        response that is not named has no row."""
        rows = (
            (
                scorer,
                item.id,
                response.id,
                str(response.role),
                item.culture,
                str(item.domain),
                response.language,
                response.perturbation and str(response.perturbation),
                response.original,
                scores[response.id],
            )
            for item, scores in scored
            for response in item.answers
            if response.id in scores
        )
        return cls(_by_column(rows, COLUMNS))

    def with_items(self, dataset: Dataset) -> "ScoreTable":
        """This table with the columns of ``OPTIONAL``, null where the data set lacks the item.

        Raises:
            CarbError: A scorer has not all responses of a set that the table holds.
        """
        pairs = [
            (item.id, response.id)
            for item in Dataset.checked(dataset)
            for response in item.responses
        ]
        expected = _by_column(pairs, {"item_id": pl.String, "response_id": pl.String})
        rows = [
            (
                item.id,
                item.topic,
                dataset.origins[item.id],
                item.family,
                None if item.kind is None else item.kind.value,
                item.place,
                item.wording_of,
                item.form,
                is_mirror(item),
            )
            for item in dataset
        ]
        items = _by_column(rows, {"item_id": pl.String, **OPTIONAL})
        frame = self.frame.drop(*OPTIONAL, strict=False)
        ids = col("item_id").cast(pl.String)
        frame = frame.with_columns(ids)
        _refuse_lost(frame, expected)
        joined = frame.join(items, on="item_id", how="left", maintain_order="left")
        table = object.__new__(ScoreTable)
        table.frame = joined  # type: ignore[misc]  # the rows are checked already
        return table

    def __len__(self) -> int:
        return self.frame.height

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScoreTable) and self.frame.equals(other.frame)

    def __repr__(self) -> str:
        return (
            f"ScoreTable({self.frame.height} rows, scorers "
            f"{sorted(self.frame['scorer'].unique().to_list())})"
        )

    def _repr_html_(self) -> str:
        """The rows as a notebook shows them."""
        return self.frame._repr_html_()


def _by_column(
    rows: Iterable[tuple[object, ...]], schema: Mapping[str, type[pl.DataType]]
) -> pl.DataFrame:
    """Rows as a frame, in half the time that polars takes to turn them itself."""
    columns = [*zip(*rows, strict=True)]
    return pl.DataFrame(columns or None, schema=dict(schema), orient="col")


def _kind_defect(frame: object) -> str | None:
    """The reason why a frame is no table of scores: its class, its columns, or their kinds."""
    if not isinstance(frame, pl.DataFrame):
        kind = f"{type(frame).__module__.partition('.')[0]} {type(frame).__name__}"
        return f"give a polars DataFrame, not a {kind}; polars.from_pandas makes one"
    missing = [name for name in COLUMNS if name not in frame.columns]
    unknown = [name for name in frame.columns if name not in _KINDS]
    if missing or unknown:
        return (
            f"missing columns {missing}, unknown columns {unknown}. It has the columns "
            f"{list(COLUMNS)} and may have {list(OPTIONAL)}"
        )
    for name, held in frame.schema.items():
        wanted = _KINDS[name]
        if held != pl.Null and not _holds(held, wanted):
            return f"column '{name}' must be {_NAMED[wanted]}, but is {held}"
    return None


def _holds(kind: pl.DataType, wanted: type[pl.DataType]) -> bool:
    if wanted is pl.Float64:
        return kind.is_numeric()
    if wanted is pl.String:
        return isinstance(kind, _TEXT_LIKE)
    return isinstance(kind, wanted)


def _typed(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns in order; scores as numbers, empty columns of their kind."""
    names = [name for name in _KINDS if name in frame.columns]
    empty = [name for name in names if frame.schema[name] == pl.Null]
    ordered = frame.select(names)
    for name in ("score", *empty):
        cast = col(name).cast(_KINDS[name])
        ordered = ordered.with_columns(cast)
    return ordered


def _content_defect(frame: pl.DataFrame) -> str | None:
    required = [name for name in frame.columns if name not in _NULLABLE]
    if nulls := [name for name in required if frame[name].null_count()]:
        return f"empty values in {nulls}; only {sorted(_NULLABLE)} may be null"
    broken = frame.filter(~col("score").is_finite())
    names = broken.select("scorer", "item_id", "response_id")
    for scorer, item, response in names.iter_rows():
        return (
            f"{broken.height} scores are NaN or infinite; a failed score must be null. First: "
            f"scorer '{scorer}', response '{response}' of item '{item}'"
        )
    roles = {*frame["role"].unique()} - {"chosen", "rejected"}
    if roles:
        return f"roles must be 'chosen' or 'rejected', found {sorted(roles)}"
    return None


def _refuse_repeated(frame: pl.DataFrame) -> None:
    keys = ["scorer", "item_id", "response_id"]
    hashes = frame.select(keys).hash_rows()
    if hashes.n_unique() == frame.height:
        return
    as_text = col(keys).cast(pl.String)
    rows = frame.select(as_text).with_row_index("row")
    numbers = rows.group_by(keys, maintain_order=True).agg("row")
    times = col("row").list.len()
    twice = numbers.filter(times > 1)
    if twice.height:
        first = twice.row(0, named=True)
        two = " and ".join(map(str, first["row"][:2]))
        raise CarbError(
            f"Not a score table: scorer '{first['scorer']}' has response '{first['response_id']}' "
            f"of item '{first['item_id']}' twice, in rows {two} (counted from 0)."
        )


def _refuse_lost(frame: pl.DataFrame, expected: pl.DataFrame | None = None) -> None:
    """Refuse a table in which a scorer lacks a response of an item.

    Args:
        frame: the rows of the table.
        expected: the items and their responses; by default those of all scorers together.
    """
    plain = frame
    if frame["perturbation"].count():
        plain = frame.filter(col("perturbation").is_null())
    if expected is None:
        pairs = plain.select("item_id", "response_id")
        expected = pairs.unique()
    sizes = expected.group_by("item_id").len("size")
    counts = plain.group_by("scorer", "item_id").len("n")
    sized = counts.join(sizes, on="item_id")
    is_short = col("n") < col("size")
    few = sized.filter(is_short)
    if few.is_empty():
        return
    few = few.select("item_id", "scorer")
    item, scorer = few.sort("item_id", "scorer").row(0)
    of_item = col("item_id") == item
    wanted = expected.filter(of_item)
    rows = plain.filter(of_item, col("scorer") == scorer)
    lost = {*wanted["response_id"]}.difference(rows["response_id"])
    names = ", ".join(f"'{name}'" for name in sorted(lost))
    raise CarbError(
        f"Not a score table: scorer '{scorer}' has no row for response {names} of item '{item}'."
    )
