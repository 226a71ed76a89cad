"""Pairs of preferences from files: whatever ``carb_data`` reads, tables of pairs, and CARE's rated
answers."""

import hashlib
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import mode
from typing import Any, Literal

from carb_data import CarbError, DataError, cultures, language_tag, load, require
from carb_data.language import detect_all
from carb_data.loading import table_files
from carb_data.tables import read_table
from tal_rlvr.judge_prompts import GENERAL
from tal_rlvr.preferences import Pair, pairs_from_set

Form = Literal["carb", "care", "preference"]
"""``carb``: whatever ``carb_data.load`` reads, well-known tables of preferences among it.
``preference``: ``prompt``, ``chosen``, ``rejected`` and a ``source_item``. ``care``: CARE as
published (Guo et al. 2025, arXiv 2504.05154), a response with a rating from 1 to 10 in each row."""
Row = Mapping[str, Any]
Fields = dict[str, str]
"""Ids and texts of a pair."""

_CARE = " (layout: https://huggingface.co/datasets/geyang627/CARE)"


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
        path: for ``carb``, anything that ``carb_data.load`` takes; otherwise a table, or a folder
            of tables.
        culture: the culture of rows that name none; null means ``general``, and for CARE the
            culture of the row's language, since natives rated it.
        language: the language of rows that name none; null means the detected one, and that of most
            rows for a question that does not tell.
        skip_bad: for ``carb``, how many bad rows may be left out, or which share below 1.

    Raises:
        CarbError: the file is not there or has not that form; the message names row and column. Or
            the language must be detected, and the detector is not installed.
    """
    if form == "carb":
        given: dict[str, Any] = {"culture": culture, "language": language}
        known = {name: value for name, value in given.items() if value}
        dataset = load(path, skip_bad=skip_bad, **known)
        return [pair for item in dataset for pair in pairs_from_set(item, dataset.origins[item.id])]
    rated = form == "care"
    rows = read_rows(Path(path))
    pairs = []
    try:
        read = list(_rated(rows) if rated else _compared(rows))
        unnamed = [
            fields["prompt"] for row, fields in read if not (language or row.get("language"))
        ]
        if unnamed:
            require("lingua", "tal-rlvr[train]")
        detected = dict(zip(unnamed, detect_all(unnamed), strict=True))
        usual = language or mode([*filter(None, detected.values()), "en"])
        for row, fields in read:
            tag = _language(row.get("language") or detected.get(fields["prompt"]) or usual, usual)
            about = _culture(row, culture, tag, rated)
            pairs.append(Pair(**fields, culture=about, language=tag))
    except _RowError as error:
        where = _CARE if rated else ""
        raise CarbError(f"{path} does not have the form '{form}': {error}.{where}") from None
    if not pairs:
        raise CarbError(f"{path}, read as '{form}', holds no pair with a preference.")
    return pairs


class _RowError(ValueError):
    """A defect of a row."""


def _compared(rows: list[Row]) -> Iterator[tuple[Row, Fields]]:
    """Rows that hold a better and a worse response."""
    for number, row in enumerate(rows, 1):
        texts = {"prompt": _conversation(_cell(row, number, "prompt"))}
        for side in ("chosen", "rejected"):
            texts[side] = _conversation(_cell(row, number, side), answer=True)
        for name, text in texts.items():
            if not text.strip():
                raise _RowError(f"row {number}: '{name}' is empty")
        if texts["chosen"].strip() == texts["rejected"].strip():
            raise _RowError(f"row {number}: 'chosen' and 'rejected' are the same")
        digest = _digest(texts["prompt"])
        name = row.get("id") or f"preference-{digest}-{number - 1}"
        source_item = row.get("source_item") or f"preference:{digest}"
        yield row, {"id": str(name), "source_item": str(source_item), **texts}


def _rated(rows: list[Row]) -> Iterator[tuple[Row, Fields]]:
    """Rows with one rated response each: the best of a prompt is paired with each that is rated
    lower. Earlier cards of CARE call two columns otherwise."""
    groups: dict[str, list[tuple[float, str, Row]]] = defaultdict(list)
    for number, row in enumerate(rows, 1):
        prompt = _conversation(_cell(row, number, "question"))
        text = _conversation(_cell(row, number, "response", "answer"), answer=True)
        rating = _number(_cell(row, number, "human_rating", "rating"), number)
        groups[prompt].append((rating, text, row))
    for prompt, answers in groups.items():
        rating, text, best = max(answers, key=lambda answer: answer[0])
        lower = [answer for below, answer, _ in answers if below < rating]
        digest = _digest(prompt)
        for turn, worse in enumerate(lower):
            fields = {
                "id": f"care-{digest}-{turn}",
                "source_item": f"care:{digest}",
                "prompt": prompt,
                "chosen": text,
                "rejected": worse,
            }
            yield best, fields


def _cell(row: Row, number: int, *names: str) -> Any:
    for name in names:
        if row.get(name) is not None:
            return row[name]
    missing = " or ".join(f"'{name}'" for name in names)
    columns = ", ".join(sorted(row)) or "none"
    raise _RowError(f"row {number} has no {missing}; its columns are {columns}")


def _number(value: Any, number: int) -> float:
    try:
        rating = float(value)
    except (TypeError, ValueError):
        rating = math.nan
    if math.isnan(rating):
        raise _RowError(f"row {number}: {value!r} in 'human_rating' is not a number")
    return rating


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


def _culture(row: Row, given: str | None, language: str, rated: bool) -> str:
    """The row's culture as the registry calls it, else the one given, else that of CARE's raters,
    else ``general``."""
    named = str(row.get("associated_culture") or row.get("culture") or "")
    bracketed = re.search(r"\(([^)]+)\)", named)
    if bracketed:
        named = bracketed[1]
    named = named.strip()
    if named.casefold() == "arab":
        named = "Arabic"
    known = (one.id for one in cultures if cultures.is_called(one.id, named))
    culture = next(known, None) or cultures.of_country(named) or given
    if culture is None and rated:
        spoken = (one.id for one in cultures if one.language == language.partition("-")[0])
        culture = next(spoken, GENERAL)
    return culture or named or GENERAL


def _language(named: Any, given: str) -> str:
    """A BCP 47 tag for a tag or a name ("chinese"), the given one for what is neither."""
    tag = language_tag(str(named))
    if re.fullmatch(r"(?i)[a-z]{2}(-[a-z0-9]+)*", tag):
        return tag
    return given


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def read_rows(path: Path) -> list[Row]:
    """The rows of a table, or of all tables of a folder; empty cells are left out.

    Raises:
        CarbError: there is none, or one cannot be read or holds something else than rows.
    """
    rows: list[Row] = []
    for file in table_files(path):
        table = read_table(file, lambda _: True)
        if table.problems:
            raise DataError(table.problems)
        rows += [record for _, record in table.rows]
    return rows
