"""Import: RewardBench 2 rows, pairwise preference rows, and folders of the ``datasets`` library.

``rewardbench2`` reads ``id, prompt, chosen (list), rejected (list), models, subset`` from JSON, JSON Lines or Parquet.
``pairs`` reads ``prompt, chosen, rejected`` rows, texts or conversations as TRL has them, from the same. ``datasets``
reads what ``Dataset.save_to_disk`` wrote, with rows of either form or sets of this package.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import polars as pl
from pydantic import Field, ValidationError

from carb_data.errors import CarbError
from carb_data.extras import require
from carb_data.files import without_table_form
from carb_data.models import BonSet, Domain, Provenance, Response, Role
from carb_data.options import closest
from carb_data.sources.base import Options, Source
from carb_data.sources.export import RESPONSE_LISTS
from carb_data.sources.models import Skip
from carb_data.validation import first_defect

SUFFIXES = (".jsonl", ".json", ".parquet")
_SLICE = 2048


class ExchangeOptions(Options):
    """Options of ``pairs``, ``rewardbench2`` and ``datasets``: what the rows do not say themselves."""

    culture: str | None = Field(None, description="Culture of rows without a field 'culture'")
    domain: str | None = Field(None, description="Domain of rows without a field 'domain'")
    language: str = Field("en", description="Language of rows without a field 'language'")
    license: str = Field("LicenseRef-none-stated", description="Licence of the rows")
    url: str | None = Field(None, description="Where the rows come from")
    origin: str | None = Field(None, description="Name of the data set, for the provenance; otherwise the source's")
    method: Literal["human-vote", "authored", "generated"] = Field("generated", description="How they were made")
    split: str | None = Field(None, description="Split to read from a folder with several; otherwise all")


Record = Mapping[str, Any]


def build_files(path: Path, options: ExchangeOptions, seed: int, form: str) -> Iterator[BonSet | Skip]:
    """Yield a set or a skip for every row of a file, or of every file of a folder."""
    files = [path] if path.is_file() else sorted(f for f in path.rglob("*") if f.suffix in SUFFIXES)
    if not files or files[0].suffix not in SUFFIXES:
        raise CarbError(f"{path} holds no {', '.join(SUFFIXES)} file.")
    root = path if path.is_dir() else path.parent
    for file in files:
        for number, record in _records(file):
            place = f"{file.relative_to(root).as_posix()}#{number}"
            if isinstance(record, str):
                yield Skip(source_id=place, reason=record)
            else:
                yield to_set(record, place, form, options, seed)


def build_datasets(path: Path, options: ExchangeOptions, seed: int) -> Iterator[BonSet | Skip]:
    """Yield a set or a skip for every row of a folder that ``Dataset.save_to_disk`` wrote.

    Args:
        path: the folder, of a ``Dataset`` or a ``DatasetDict``.
        options: what the rows do not say, and which split.
        seed: the seed of the order of the responses.

    Raises:
        MissingExtraError: the ``datasets`` library is not installed.
        CarbError: the folder was not written by it, or has no such split.
    """
    library = require("datasets", package="carb-data", extra="datasets")
    try:
        loaded = library.load_from_disk(str(path))
    except (OSError, ValueError) as error:
        raise CarbError(f"{path} is not a folder that Dataset.save_to_disk wrote: {error}") from None
    parts = dict(loaded) if isinstance(loaded, library.DatasetDict) else {"": loaded}
    if options.split is not None and options.split not in parts:
        raise CarbError(f"{path} has no split '{options.split}'; it has {', '.join(sorted(parts)) or 'none'}.")
    for name, part in parts.items():
        if options.split not in (None, name):
            continue
        for number, record in enumerate(part):
            yield to_set(record, f"{name}#{number}", "datasets", options, seed)


def to_set(record: Record, place: str, form: str, options: ExchangeOptions, seed: int) -> BonSet | Skip:
    """One set from one row, whichever of the forms it has.

    Args:
        record: a row with ``responses`` (a set of this package) or with ``chosen`` and ``rejected``.
        place: where the row stands; names the item when the row has no ``id``.
        form: name of the source.
        options: The culture, the domain and whatever else the row does not say.
        seed: the seed of the order of the responses.
    """
    if "responses" in record:
        try:
            return BonSet.model_validate(without_table_form(record))
        except ValidationError as error:
            return Skip(source_id=place, reason=f"not a set: {first_defect(error)}")
    if record.get("source_source") and record.get("response_ids"):
        return _as_exported(record, place)
    source_id = str(record["id"]) if record.get("id") is not None else place
    culture, domain = record.get("culture") or options.culture, record.get("domain") or options.domain
    if culture is None or domain is None:
        raise CarbError(
            f"{place}: the row does not say its culture and domain; give the options culture and domain "
            "(for plain preference data, say culture=english domain=commonsense, and report it apart)."
        )
    if domain not in list(Domain):
        known = ", ".join(Domain)
        raise CarbError(
            f"{place}: there is no domain '{domain}'.{closest(str(domain), list(Domain))} Domains: {known}."
        )
    try:
        prompt, chosen, rejected = _texts(record)
    except ValueError as error:
        return Skip(source_id=source_id, reason=str(error))
    models = [str(model) for model in record.get("models") or ()]
    generators = models if len(models) == 1 + len(rejected) else [None] * (1 + len(rejected))
    order = list(range(1 + len(rejected)))
    random.Random(f"{form}:{seed}:{source_id}").shuffle(order)
    texts = [chosen, *rejected]
    language = str(record.get("language") or options.language)
    try:
        return BonSet(
            id=f"{form}/{source_id}",
            culture=culture,
            domain=Domain(domain),
            topic=record.get("topic") or record.get("subset"),
            language=language,
            prompt=prompt,
            responses=tuple(
                Response(
                    id=str(position),
                    text=texts[index],
                    role=Role.REJECTED if index else Role.CHOSEN,
                    language=language,
                    generator=generators[index],
                )
                for position, index in enumerate(order)
            ),
            provenance=Provenance(
                source=options.origin or form,
                source_id=str(record.get("source_item") or source_id),
                license=options.license,
                url=options.url,
                method=options.method,
            ),
        )
    except ValidationError as error:
        return Skip(source_id=source_id, reason=f"not a set: {first_defect(error)}", culture=culture)


def _as_exported(record: Record, place: str) -> BonSet | Skip:
    """A set from a row that ``export`` wrote: with its ids, its origin and its licence."""
    texts = [*record["chosen"], *record["rejected"]]
    models = [model or None for model in record.get("models") or [None] * len(texts)]
    said = {"language": record.get("language")}
    lists = [record.get(key) or [said.get(name)] * len(texts) for key, name in RESPONSE_LISTS.items()]
    fields = {name: record[name] for name in ("id", "prompt", "culture", "domain", "language") if name in record}
    fields |= {name: record[name] for name in ("topic", "family", "kind") if record.get(name) is not None}
    try:
        return BonSet.model_validate(
            fields
            | {
                "responses": [
                    {
                        "id": id_,
                        "text": text,
                        "role": "rejected" if n else "chosen",
                        "generator": model,
                        **dict(zip(RESPONSE_LISTS.values(), others, strict=True)),
                    }
                    for n, (id_, text, model, *others) in enumerate(
                        zip(record["response_ids"], texts, models, *lists, strict=True)
                    )
                ],
                "provenance": {
                    name: record[f"source_{name}"] for name in Provenance.model_fields if f"source_{name}" in record
                },
            }
        )
    except (ValidationError, ValueError) as error:
        reason = first_defect(error) if isinstance(error, ValidationError) else str(error)
        return Skip(source_id=place, reason=f"not a set: {reason}")


def _texts(record: Record) -> tuple[str, str, list[str]]:
    chosen, rejected = record.get("chosen"), record.get("rejected")
    if isinstance(chosen, list) and chosen and isinstance(chosen[0], str):
        if len(chosen) != 1:
            raise ValueError("several right answers")
        chosen = chosen[0]
    several = (
        rejected if isinstance(rejected, list) and rejected and not isinstance(rejected[0], Mapping) else [rejected]
    )
    prompt, start = _turns(record.get("prompt")), ""
    if not prompt and isinstance(chosen, list):  # both conversations hold the prompt, as in older preference data
        prompt, start = _turns(chosen[:-1]), _turns(chosen[:-1])
    right = _answer(chosen, start)
    wrong = [_answer(other, start) for other in several]
    if not prompt or not right or not wrong or not all(wrong):
        raise ValueError("prompt, chosen or rejected is missing or empty")
    if right in wrong or len(set(wrong)) != len(wrong):
        raise ValueError("two of the responses are the same")
    return prompt, right, wrong


def _turns(value: Any) -> str:
    """A text as it is; a conversation as its only turn, or with a heading for every turn."""
    if isinstance(value, str):
        return value.strip() and value
    if not isinstance(value, list):
        return ""
    turns = [(str(turn.get("role", "")), str(turn.get("content") or "")) for turn in value if isinstance(turn, Mapping)]
    if len(turns) == 1:
        return turns[0][1]
    return "\n\n".join(f"{role.capitalize()}: {content}" for role, content in turns)


def _answer(value: Any, start: str) -> str:
    if isinstance(value, list):
        if start and _turns(value[:-1]) != start:
            raise ValueError("chosen and rejected do not answer the same prompt")
        value = value[-1].get("content") if value and isinstance(value[-1], Mapping) else None
    return value if isinstance(value, str) and value.strip() else ""


def _records(file: Path) -> Iterator[tuple[int, Record | str]]:
    try:
        if file.suffix == ".parquet":
            frame = pl.scan_parquet(file)
            height = frame.select(pl.len()).collect().item()
            for start in range(0, height, _SLICE):
                yield from enumerate(frame.slice(start, _SLICE).collect().iter_rows(named=True), start)
        elif file.suffix == ".jsonl":
            with file.open(encoding="utf-8-sig") as lines:
                yield from _parsed(lines)
        else:
            content = json.loads(file.read_text(encoding="utf-8-sig"))
            rows = content if isinstance(content, list) else [content]
            yield from ((n, row if isinstance(row, dict) else "not a row with fields") for n, row in enumerate(rows))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, pl.exceptions.PolarsError) as error:
        raise CarbError(f"Cannot read {file}: {error}") from None


def _parsed(lines: Iterable[str]) -> Iterator[tuple[int, Record | str]]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                row = None
            yield number, row if isinstance(row, dict) else "the line is not a JSON object"


def _pairs(path: Path, options: ExchangeOptions, seed: int) -> Iterator[BonSet | Skip]:
    return build_files(path, options, seed, "pairs")


def _rewardbench2(path: Path, options: ExchangeOptions, seed: int) -> Iterator[BonSet | Skip]:
    return build_files(path, options, seed, "rewardbench2")


_AS_GIVEN = "as given"
PAIRS = Source("pairs", "Preference rows you bring: prompt, chosen, rejected", _AS_GIVEN, _pairs, ExchangeOptions)
REWARDBENCH2 = Source(
    "rewardbench2", "RewardBench 2 rows you bring: best of four", _AS_GIVEN, _rewardbench2, ExchangeOptions
)
DATASETS = Source("datasets", "A folder that Dataset.save_to_disk wrote", _AS_GIVEN, build_datasets, ExchangeOptions)
