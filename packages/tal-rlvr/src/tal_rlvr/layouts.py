"""Public preference data in its published layouts: one declaration a data set, one reader for
all."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from carb_data import CarbError, Dataset, Frozen, cultures, language_tag, load
from tal_rlvr.judge_prompts import GENERAL
from tal_rlvr.preferences import Pair, pairs_from_set

__all__ = ["LAYOUTS", "Form", "Layout", "read_pairs", "read_rows"]

Form = Literal["carb", "care", "preference"]
"""``carb``: whatever ``carb_data.load`` reads, well-known tables of preferences among it.
``preference``: ``prompt``, ``chosen``, ``rejected`` and a ``source_item``. ``care``: as
published."""
Row = Mapping[str, Any]
Fields = dict[str, str]
"""Ids and texts of a pair."""


class Layout(Frozen):
    """The columns of a data set by their meaning. A tuple names columns in the order in which they
    are looked for."""

    url: str
    prompt: str
    chosen: str | None = None
    """A text, or messages."""
    rejected: str | None = None
    response: tuple[str, ...] = ()
    """A response, where each row has one with a rating; rows of the same prompt are compared."""
    rating: tuple[str, ...] = ()
    culture: tuple[str, ...] = ()
    domain: tuple[str, ...] = ()
    domains: dict[str, str] = Field(default={})
    """Names of domains in the data to ours; another name stands as it is."""
    native: bool = False
    """Rated by natives, so a row that names no culture belongs to that of its language."""


LAYOUTS: dict[str, Layout] = {
    # Guo et al. 2025, arXiv 2504.05154: ratings from 1 to 10; earlier cards call two columns
    # otherwise
    "care": Layout(
        url="https://huggingface.co/datasets/geyang627/CARE",
        prompt="question",
        response=("response", "answer"),
        rating=("human_rating", "rating"),
        culture=("associated_culture", "culture"),
        domain=("cul_type", "culture_type"),
        domains={
            "Cultural commonsense": "commonsense",
            "Cultural entities": "commonsense",
            "Social norms": "values",
            "Opinion": "values",
            "Literacy": "linguistics",
        },
        native=True,
    ),
    "preference": Layout(
        url="",
        prompt="prompt",
        chosen="chosen",
        rejected="rejected",
        culture=("culture",),
        domain=("domain",),
    ),
}


def read_pairs(
    form: Form,
    path: str,
    *,
    culture: str | None = None,
    language: str | None = None,
    skip_bad: float = 0,
) -> list[Pair]:
    """Read the pairs of one source.

    Args:
        form: the form in which the file holds pairs; ``Form`` lists the names.
        path: for ``carb``, anything that ``carb_data.load`` takes; otherwise a ``.jsonl``,
            ``.json`` or ``.parquet`` file (the first two also with ``.gz``), or a folder of such
            files.
        culture: the culture of rows that name none; null means ``general``, and for CARE the
            culture of the row's language.
        language: the language of rows that name none; null means the detected one, or that of their
            script.
        skip_bad: for ``carb``, how many bad rows may be left out, or which share below 1.

    Raises:
        CarbError: the file is not there or has not that layout; the message names row and column.
    """
    if form == "carb":
        dataset = read_sets(path, culture=culture, language=language, skip_bad=skip_bad)
        origins = dataset.origins
        return [pair for item in dataset for pair in pairs_from_set(item, origins[item.id])]
    layout = LAYOUTS[form]
    try:
        pairs = []
        make = _rated if layout.rating else _compared
        for row, fields in make(form, layout, read_rows(Path(path))):
            tag = _language(row.get("language"), language, fields["prompt"])
            about = _culture(layout, row, culture, tag)
            domain = _domain(layout, row)
            pairs.append(Pair(**fields, culture=about, language=tag, domain=domain))
    except _RowError as error:
        where = ""
        if layout.url:
            where = f" (layout: {layout.url})"
        raise CarbError(f"{path} does not have the form '{form}': {error}.{where}") from None
    if not pairs:
        raise CarbError(f"{path}, read as '{form}', holds no pair with a preference.")
    return pairs


def read_sets(path: str, **given: Any) -> Dataset:
    """The sets of a source of the form ``carb``; ``given`` is as for ``read_pairs``."""
    known = {name: value for name, value in given.items() if value is not None}
    return load(path, **known)


class _RowError(ValueError):
    """A defect of a row."""


def _compared(form: str, layout: Layout, rows: list[Row]) -> Iterator[tuple[Row, Fields]]:
    """Rows that hold a better and a worse response."""
    for number, row in enumerate(rows):
        prompt = _conversation(_cell(row, (layout.prompt,), number))
        texts = {"prompt": prompt}
        columns = {"chosen": layout.chosen, "rejected": layout.rejected}
        for side, column in columns.items():
            cell = _cell(row, (str(column),), number)
            texts[side] = _conversation(cell, answer=True)
        _refuse_useless(texts, number)
        name = row.get("id") or f"{form}-{number}"
        source_item = row.get("source_item") or f"{form}:{_digest(prompt)}"
        yield row, {"id": str(name), "source_item": str(source_item), **texts}


def _refuse_useless(texts: Mapping[str, str], number: int) -> None:
    """Refuse a pair with an empty text, or whose responses differ in surrounding spaces at most."""
    for name, text in texts.items():
        if not text.strip():
            raise _RowError(f"row {number + 1}: '{name}' is empty")
    if texts["chosen"].strip() == texts["rejected"].strip():
        raise _RowError(f"row {number + 1}: 'chosen' and 'rejected' are the same")


def _rated(form: str, layout: Layout, rows: list[Row]) -> Iterator[tuple[Row, Fields]]:
    """Rows with one rated response each: the best of a prompt is paired with each that is rated
    lower."""
    groups: dict[str, list[tuple[float, str, Row]]] = defaultdict(list)
    for number, row in enumerate(rows):
        prompt = _conversation(_cell(row, (layout.prompt,), number))
        text = _conversation(_cell(row, layout.response, number), answer=True)
        rating = _number(row, layout.rating, number)
        groups[prompt].append((rating, text, row))
    for prompt, answers in groups.items():
        rating, text, best = max(answers, key=lambda answer: answer[0])
        lower = [answer for below, answer, _ in answers if below < rating]
        digest = _digest(prompt)
        for turn, worse in enumerate(lower):
            fields = {
                "id": f"{form}-{digest}-{turn}",
                "source_item": f"{form}:{digest}",
                "prompt": prompt,
                "chosen": text,
                "rejected": worse,
            }
            yield best, fields


def _cell(row: Row, names: Sequence[str], number: int) -> Any:
    for name in names:
        if row.get(name) is not None:
            return row[name]
    missing = " or ".join(f"'{name}'" for name in names)
    raise _RowError(
        f"row {number + 1} has no {missing}; its columns are {', '.join(sorted(row)) or 'none'}"
    )


def _number(row: Row, names: Sequence[str], number: int) -> float:
    value = _cell(row, names, number)
    try:
        as_float = float(value)
    except (TypeError, ValueError):
        as_float = float("nan")
    if as_float != as_float:
        raise _RowError(f"row {number + 1}: {value!r} in '{names[0]}' is not a number")
    return as_float


def _conversation(value: Any, *, answer: bool = False) -> str:
    """A text as it is; of messages the only one, all of them with their roles, or for an answer the
    last one."""
    if isinstance(value, str):
        return value
    try:
        if answer or len(value) == 1:
            return str(value[-1]["content"])
        return "\n\n".join(f"{message['role']}: {message['content']}" for message in value)
    except (KeyError, TypeError, IndexError):
        raise _RowError(
            f"{str(value)[:60]!r} is neither a text nor messages with role and content"
        ) from None


def _first(row: Row, columns: Sequence[str]) -> str | None:
    """The first of some cells that is not empty."""
    for column in columns:
        if row.get(column):
            return str(row[column])
    return None


def _domain(layout: Layout, row: Row) -> str | None:
    name = _first(row, layout.domain)
    if name is None:
        return None
    return layout.domains.get(name, name)


def _culture(layout: Layout, row: Row, given: str | None, language: str) -> str:
    """The row's culture as the registry calls it, else the one given, else that of the raters, else
    ``general``."""
    named = _first(row, layout.culture) or ""
    bracketed = re.search(r"\(([^)]+)\)", named)
    if bracketed:
        named = bracketed[1]
    inner = named.strip()
    known = {"arab": "arabic"}
    for one in cultures:
        known[one.id] = one.id
        known[one.name.casefold()] = one.id
    known_as = None
    if inner:
        known_as = known.get(inner.casefold()) or cultures.of_country(inner)
    if known_as or given:
        return str(known_as or given)
    if layout.native:
        spoken = language.partition("-")[0]
        of_raters = (one.id for one in cultures if one.language == spoken)
        return next(of_raters, GENERAL)
    return inner or GENERAL


_SCRIPTS = {
    "ja": re.compile("[ぁ-ゖァ-ヺ]"),
    "ko": re.compile("[가-힣]"),
    "zh": re.compile("[一-鿿]"),
    "ar": re.compile("[ء-ي]"),
    "th": re.compile("[ก-ฮ]"),
    "ru": re.compile("[а-яё]", re.IGNORECASE),
}


def _language(named: Any, given: str | None, text: str) -> str:
    """A BCP 47 tag for a tag or a name ("chinese"); English for code; by the script where nothing
    is named."""
    if named:
        tag = language_tag(str(named).strip())
        if re.fullmatch(r"[a-z]{2}(-[a-z0-9]+)*", tag.lower()):
            return tag
        return given or "en"
    written = (tag for tag, script in _SCRIPTS.items() if script.search(text))
    return given or next(written, "en")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def read_rows(path: Path) -> list[Row]:
    """The rows of a ``.jsonl``, ``.json`` (both also ``.gz``) or ``.parquet`` file, or of all such
    files of a folder.

    Raises:
        CarbError: there is none, or one cannot be read or holds something else than objects.
    """
    if not path.is_dir():
        return _file_rows(path)
    files = sorted(
        p for p in path.rglob("*") if re.search(r"\.(jsonl|json|parquet)(\.gz)?$", p.name)
    )
    if not files:
        raise CarbError(f"{path} holds no .jsonl, .json or .parquet file.")
    return [row for file in files for row in _file_rows(file)]


def _file_rows(path: Path) -> list[Row]:
    import polars

    try:
        if path.suffix == ".parquet":
            return list(polars.read_parquet(path).to_dicts())
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        text = content.decode("utf-8-sig")
    except polars.exceptions.PolarsError as error:
        raise CarbError(f"{path} is not a Parquet file: {str(error).splitlines()[0]}.") from None
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise CarbError(
            f"Cannot read {path}: {getattr(error, 'strerror', None) or error}."
        ) from None
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        rows = []
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                rows.append(_parsed(line, f"{path}:{number}"))
    else:
        rows = _parsed(text, str(path))
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise CarbError(f"{path} must hold objects, one a row.")
    return rows


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        # of the text that was parsed, a line of JSON Lines is always line 1
        raise CarbError(
            f"{where} is not valid JSON: {str(error).replace('line 1 column', 'column')}."
        ) from None
