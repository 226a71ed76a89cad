"""Reading and writing sets: JSON Lines and Parquet with the same content, defects reported all at
once.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from json.encoder import encode_basestring
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source
from pydantic import ValidationError

from carb_data.errors import CarbError, Problem
from carb_data.journal import write_whole
from carb_data.models import BonSet, Frozen, Kind, Provenance, Response
from carb_data.registry import Registry
from carb_data.tables import contents
from carb_data.validation import line_problems
from carb_data.values import unpacked

_Kind = pl.DataType | type[pl.DataType]


def _columns(names: str, **kinds: _Kind) -> dict[str, _Kind]:
    """Columns by name: texts where no other kind is given."""
    return {name: kinds.get(name, pl.String) for name in names.split()}


_SOURCE = pl.Struct(_columns("url title accessed note fact"))
_VOTES = pl.Struct({"asked": pl.Int64, "right": pl.Int64})
_RESPONSE = _columns(
    "id text role language culture generator perturbation original source votes verified",
    source=_SOURCE,
    votes=_VOTES,
    verified=pl.Boolean,
)
_RESPONSES = pl.List(pl.Struct(_RESPONSE))
SCHEMA = _columns(
    "schema id culture domain topic language prompt messages responses perturbed provenance "
    "family kind place region wording_of form",
    messages=pl.List(pl.Struct(_columns("role content"))),
    responses=_RESPONSES,
    perturbed=_RESPONSES,
    provenance=pl.Struct(_columns("source source_id license url method notes tier")),
)
"""The columns of sets in a Parquet file. A conversation stands in ``messages``, and ``prompt`` is
then null."""
VERSION = "carb-set/3"
"""The value of ``schema`` in rows written now. Rows without it are of version 1. Later versions
only added fields and kinds, so that all are read as they stand."""
_NESTED = frozenset({"messages", "responses", "perturbed", "provenance"})
_PARQUET_SLICE = 1024  # sets that are read or written at once, which bounds the memory of both
SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet")
"""Endings of files that hold sets, in either case of letters."""


def suffix_of(path: Path) -> str | None:
    """The ending of a file's name among ``SUFFIXES``, or None."""
    return next(filter(path.name.lower().endswith, SUFFIXES), None)


def _valid(
    content: object,
    path: Path,
    line: int,
    problems: list[Problem],
) -> BonSet | None:
    if isinstance(content, dict):
        version = content.get("schema")
        if version is not None and not re.fullmatch(r"carb-set/[123]", str(version)):
            reason = (
                f"this carb-data reads {VERSION} and older, not {version!r}; install a newer "
                "carb-data"
            )
            problems.append(Problem(str(path), line, "schema", reason))
            return None
        # Tables write null for absent fields, structures as JSON texts, and a conversation as
        # ``messages``.
        content = {name: value for name, value in content.items() if value is not None}
        content.pop("schema", None)
        for name in _NESTED.intersection(content):
            whole = unpacked(content[name])
            if isinstance(whole, list):
                whole = [*map(unpacked, whole)]
            content[name] = whole
        if "messages" in content and "prompt" not in content:
            content["prompt"] = content.pop("messages")
    try:
        item = BonSet.model_validate(content).compacted()
    except ValidationError as error:
        problems.extend(line_problems(path, line, error))
        return None
    right = item.chosen.text.strip()
    for response in item.rejected:
        if response.text.strip() == right:
            reason = f"the right answer is also a wrong one, '{response.id}'"
            problems.append(Problem(str(path), line, "responses", reason))
            return None
    return item


def to_json(item: BonSet) -> str:
    """One set as one line of JSON, without the newline; empty fields are left out."""
    content = item.model_dump_json(exclude_none=True)
    return f'{{"schema":"{VERSION}",{content[1:]}'


def _table(lines: Iterable[str]) -> pl.DataFrame:
    """Sets, each as a line of JSON, as rows of ``SCHEMA``."""
    # within a text, a backslash stands before each quotation mark
    named = [line.replace('"prompt":[', '"messages":[', 1) for line in lines]
    return pl.Series(named).str.json_decode(pl.Struct(SCHEMA)).struct.unnest()


_ID = attrgetter("id")
_TEXT = attrgetter("text")
_CITATION = attrgetter("source")
_frames: dict[tuple[Any, ...], str] = {}
"""The canonical content of sets that differ in their texts and ids alone, with ``%s`` for these."""
_FRAMES = 1_000
_MARK = "\0a text"
_MARKED = json.dumps(_MARK)


def _but(kind: type[Frozen], *names: str) -> itemgetter[Any]:
    """The values of a model's fields but for some."""
    kept = [name for name in kind.model_fields if name not in names]
    return itemgetter(*kept)


_SHARED = _but(BonSet, "id", "prompt", "provenance", "responses")
_SHARED_SOURCE = _but(Provenance, "source_id")
_SHARED_ANSWER = _but(Response, "text")


def canonical(item: BonSet) -> bytes:
    """The content of a set as bytes that do not depend on key order or on the order of its
    responses.

    Kind, place and form of a set only say under which heading it is reported, so they are left out.
    Whether a set is a control decides what counts, so it is kept.
    """
    answers = sorted(item.responses, key=_ID)
    source = item.provenance
    if not isinstance(item.prompt, str) or not source.source_id:
        return _canonical(item)
    if item.perturbed or any(map(_CITATION, answers)):
        return _canonical(item)
    shared = map(_SHARED_ANSWER, map(vars, answers))
    frame = (_SHARED(vars(item)), _SHARED_SOURCE(vars(source)), *shared)
    around = _frames.get(frame)
    if around is None and len(_frames) >= _FRAMES:
        return _canonical(item)
    if around is None:
        marked_answers = [answer.changed(text=_MARK) for answer in answers]
        marked = item.changed(
            id=_MARK,
            prompt=_MARK,
            provenance=source.changed(source_id=_MARK),
            responses=tuple(marked_answers),
        )
        content = _canonical(marked).decode().replace("%", "%%")
        around = _frames[frame] = content.replace(_MARKED, "%s")
    texts = map(_TEXT, answers)
    within = map(encode_basestring, (item.id, item.prompt, source.source_id, *texts))
    whole = around % tuple(within)
    return whole.encode()


def _canonical(item: BonSet) -> bytes:
    content: dict[str, Any] = item.model_dump(mode="json", exclude_none=True)
    for name in ("place", "form"):
        content.pop(name, None)
    if item.kind is not Kind.CONTROL:
        content.pop("kind", None)
    for group in ("responses", "perturbed"):
        content[group] = sorted(content[group], key=lambda response: str(response["id"]))
    text = json.dumps(
        content,
        sort_keys=True,
        ensure_ascii=False,
        separators=(",", ":"),
    )
    return text.encode()


def write(path: Path, sets: Iterable[BonSet]) -> None:
    """Write sets to ``path`` (by suffix), whole or not at all. JSON Lines are streamed.

    Raises:
        CarbError: The name has another ending, or the file cannot be written.
    """
    suffix = suffix_of(path)
    if suffix is None:
        raise CarbError(f"{path}: unknown file type; carb writes {', '.join(SUFFIXES)}.")

    def lines(partial: Path) -> None:
        # without a time in the head of a packed file, so that the same sets give the same bytes
        with (
            gzip.GzipFile(partial, "wb", mtime=0)
            if suffix == ".jsonl.gz"
            else partial.open("wb") as file
        ):
            file.writelines(f"{to_json(item)}\n".encode() for item in sets)

    def rows(partial: Path) -> None:
        waiting = map(to_json, sets)

        def tables(*_: object) -> Iterator[pl.DataFrame]:
            while content := [*islice(waiting, _PARQUET_SLICE)]:
                yield _table(content)

        frame = register_io_source(tables, schema=SCHEMA)
        frame.sink_parquet(partial, row_group_size=_PARQUET_SLICE)

    write_whole(path, rows if suffix == ".parquet" else lines)


def load_files(
    paths: Iterable[Path], registry: Registry | None, problems: list[Problem]
) -> dict[Path, list[BonSet]]:
    """The sets of each file; every defect is appended to ``problems``. Line numbers count from 1;
    for Parquet they are row numbers.

    Raises:
        CarbError: a file cannot be read at all.
    """
    firsts: dict[str, str] = {}
    by_file: dict[Path, list[BonSet]] = {}
    for path in paths:
        sets = by_file[path] = []
        for line, content in contents(path, problems):
            item = _valid(content, path, line, problems)
            if item is None:
                continue
            here = f"{path}:{line}"
            first = firsts.setdefault(item.id, here)
            if registry is not None and item.culture not in registry:
                reason = str(registry.unknown(item.culture))
                problems.append(Problem(str(path), line, "culture", reason))
            elif first != here:
                reason = f"'{item.id}' is the id of an earlier set, {first}"
                problems.append(Problem(str(path), line, "id", reason))
            else:
                sets.append(item)
    return by_file
