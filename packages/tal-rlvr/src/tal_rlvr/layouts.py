"""Public preference data in its published layouts: one declaration a data set, one reader for all."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from carb_data import CarbError, cultures, load
from carb_data.models import Frozen
from carb_data.sources.countries import culture_id_of, find_country
from tal_rlvr.languages import language_tag
from tal_rlvr.pairs import Pair, pairs_from_set
from tal_rlvr.prompts import GENERAL
from tal_rlvr.row_files import read_rows, row_files

__all__ = ["LAYOUTS", "Form", "Layout", "read_pairs"]

Form = Literal["carb", "helpsteer3", "care", "m-rewardbench", "rewardbench2", "preference"]
"""``carb``: Best-of-N sets. ``preference``: ``prompt``, ``chosen``, ``rejected``. The others: as published."""


class Layout(Frozen):
    """Which column of a data set says what. A tuple names columns in the order in which they are looked for."""

    url: str
    prompt: str
    chosen: str | None = None
    """A text, messages, or a list of texts that are all right."""
    rejected: str | None = None
    responses: tuple[str, str] | None = None
    """Two responses, where a signed preference says which is better: below 0 the first, above 0 the second."""
    preference: str | None = None
    response: tuple[str, ...] = ()
    """A response, where each row has one with a rating; rows of the same prompt are compared."""
    rating: tuple[str, ...] = ()
    id: str | None = None
    source_item: str | None = None
    language: str | None = None
    culture: tuple[str, ...] = ()
    domain: tuple[str, ...] = ()
    domains: dict[str, str] = Field(default={})
    """Names of domains in the data to ours; another name stands as it is."""
    translated: bool = False
    """An id is the same in all languages."""
    native: bool = False
    """Rated by natives, so a row that names no culture belongs to that of its language."""


LAYOUTS: dict[str, Layout] = {
    "helpsteer3": Layout(  # Wang et al. 2025, arXiv 2505.11475: overall_preference from -3 (response 1) to 3
        url="https://huggingface.co/datasets/nvidia/HelpSteer3",
        prompt="context",
        responses=("response1", "response2"),
        preference="overall_preference",
        language="language",
        domain=("domain",),
    ),
    "care": Layout(  # Guo et al. 2025, arXiv 2504.05154: ratings from 1 to 10; earlier cards call two columns otherwise
        url="https://huggingface.co/datasets/geyang627/CARE",
        prompt="question",
        response=("response", "answer"),
        rating=("human_rating", "rating"),
        language="language",
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
    "m-rewardbench": Layout(  # Gureja et al. 2024, arXiv 2410.15522: RewardBench in 23 languages
        url="https://huggingface.co/datasets/CohereLabsCommunity/multilingual-reward-bench",
        prompt="prompt",
        chosen="chosen",
        rejected="rejected",
        id="id",
        language="language",
        domain=("category", "subset"),
        translated=True,
    ),
    "rewardbench2": Layout(  # Malik et al. 2025, arXiv 2506.01937: one or several right responses, several wrong ones
        url="https://huggingface.co/datasets/allenai/reward-bench-2",
        prompt="prompt",
        chosen="chosen",
        rejected="rejected",
        id="id",
        domain=("subset",),
    ),
    "preference": Layout(
        url="",
        prompt="prompt",
        chosen="chosen",
        rejected="rejected",
        id="id",
        source_item="source_item",
        language="language",
        culture=("culture",),
        domain=("domain",),
    ),
}


def read_pairs(form: Form, path: str, *, culture: str | None = None, language: str | None = None) -> list[Pair]:
    """Read the pairs of one source.

    Args:
        form: the form in which the file holds pairs; ``Form`` lists the names.
        path: for ``carb``, anything that ``carb_data.load`` takes; otherwise a ``.jsonl``, ``.json`` or
            ``.parquet`` file (the first two also with ``.gz``), or a folder of such files.
        culture: the culture of rows that name none; null means ``general``, and for CARE the culture of the row's
            language.
        language: the language of rows that name none; null means the one that their script tells, else ``en``.

    Raises:
        CarbError: the file is not there or has not that layout; the message names row and column.
    """
    if form == "carb":
        return [pair for item in load(path) for pair in pairs_from_set(item)]
    layout = LAYOUTS[form]
    rows = [row for file in row_files(Path(path)) for row in read_rows(file)]
    try:
        make = _rated if layout.rating else _compared
        pairs = list(make(form, layout, rows, culture, language))
    except _RowError as error:
        where = f" (layout: {layout.url})" if layout.url else ""
        raise CarbError(f"{path} does not have the form '{form}': {error}.{where}") from None
    if not pairs:
        raise CarbError(f"{path}, read as '{form}', holds no pair with a preference.")
    return pairs


class _RowError(ValueError):
    """What is wrong with a row."""


def _compared(
    form: str, layout: Layout, rows: Iterable[Mapping[str, Any]], culture: str | None, language: str | None
) -> Iterator[Pair]:
    """Rows that hold better and worse responses; ties give no pair."""
    for number, row in enumerate(rows):
        prompt = _conversation(_cell(row, (layout.prompt,), number))
        difficulty = 0.5
        if layout.responses is not None and layout.preference is not None:
            strength = _number(row, (layout.preference,), number)
            if strength == 0:
                continue
            texts = [_conversation(_cell(row, (name,), number), answer=True) for name in layout.responses]
            chosen, rejected = [texts[strength > 0]], [texts[strength < 0]]
            difficulty = 1 - (min(abs(strength), 3) - 1) / 2
        else:
            chosen, rejected = (_texts(_cell(row, (str(name),), number)) for name in (layout.chosen, layout.rejected))
        tag = language_tag(row.get(layout.language or ""), language, prompt)
        named = row.get(layout.id or "")
        own = str(named) if named is not None else str(number)
        item = row.get(layout.source_item or "")
        if item is None:
            item = f"{form}:{own if layout.translated else _digest(prompt)}"
        own = f"{tag}-{own}" if layout.translated else own
        start = own if layout.source_item and named is not None else f"{form}-{own}"
        for turn, (better, worse) in enumerate(product(chosen, rejected)):
            if not layout.url:  # published data is taken as it is
                _refuse_useless({"prompt": prompt, "chosen": better, "rejected": worse}, number)
            yield Pair(
                id=start if len(chosen) * len(rejected) == 1 else f"{start}-{turn}",
                source_item=str(item),
                prompt=prompt,
                chosen=better,
                rejected=worse,
                culture=_culture(layout, row, culture, tag),
                language=tag,
                domain=_domain(layout, row),
                difficulty=difficulty,
            )


def _refuse_useless(texts: Mapping[str, str], number: int) -> None:
    """Refuse a pair with an empty text, or whose responses differ in surrounding spaces at most."""
    for name, text in texts.items():
        if not text.strip():
            raise _RowError(f"row {number + 1}: '{name}' is empty")
    if texts["chosen"].strip() == texts["rejected"].strip():
        raise _RowError(f"row {number + 1}: 'chosen' and 'rejected' are the same")


def _rated(
    form: str, layout: Layout, rows: Iterable[Mapping[str, Any]], culture: str | None, language: str | None
) -> Iterator[Pair]:
    """Rows with one rated response each: the best of a prompt is paired with each that is rated lower."""
    groups: dict[str, list[tuple[float, str, Mapping[str, Any]]]] = defaultdict(list)
    for number, row in enumerate(rows):
        prompt = _conversation(_cell(row, (layout.prompt,), number))
        text = _conversation(_cell(row, layout.response, number), answer=True)
        groups[prompt].append((_number(row, layout.rating, number), text, row))
    for prompt, answers in groups.items():
        rating, text, best = max(answers, key=lambda answer: answer[0])
        lower = [answer for answer in answers if answer[0] < rating]
        span = max((rating - answer[0] for answer in lower), default=1.0)
        tag = language_tag(best.get(layout.language or ""), language, prompt)
        for turn, (below, worse, _) in enumerate(lower):
            yield Pair(
                id=f"{form}-{_digest(prompt)}-{turn}",
                source_item=f"{form}:{_digest(prompt)}",
                prompt=prompt,
                chosen=text,
                rejected=worse,
                culture=_culture(layout, best, culture, tag),
                language=tag,
                domain=_domain(layout, best),
                difficulty=1 - (rating - below) / span,
            )


def _cell(row: Mapping[str, Any], names: Sequence[str], number: int) -> Any:
    for name in names:
        if row.get(name) is not None:
            return row[name]
    missing = " or ".join(f"'{name}'" for name in names)
    raise _RowError(f"row {number + 1} has no {missing}; its columns are {', '.join(sorted(row)) or 'none'}")


def _number(row: Mapping[str, Any], names: Sequence[str], number: int) -> float:
    value = _cell(row, names, number)
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = float("nan")
    if found != found:
        raise _RowError(f"row {number + 1}: {value!r} in '{names[0]}' is not a number")
    return found


def _texts(value: Any) -> list[str]:
    """One text, or several that are equally right or wrong."""
    if isinstance(value, list) and value and all(isinstance(entry, str) for entry in value):
        return list(value)
    return [_conversation(value, answer=True)]


def _conversation(value: Any, *, answer: bool = False) -> str:
    """A text as it is; of messages the only one, all of them with their roles, or for an answer the last one."""
    if isinstance(value, str):
        return value
    try:
        if answer or len(value) == 1:
            return str(value[-1]["content"])
        return "\n\n".join(f"{message['role']}: {message['content']}" for message in value)
    except (KeyError, TypeError, IndexError):
        raise _RowError(f"{str(value)[:60]!r} is neither a text nor messages with role and content") from None


def _domain(layout: Layout, row: Mapping[str, Any]) -> str | None:
    name = next((str(row[column]) for column in layout.domain if row.get(column)), None)
    return None if name is None else layout.domains.get(name, name)


def _culture(layout: Layout, row: Mapping[str, Any], given: str | None, language: str) -> str:
    """The row's culture as the registry calls it, else the one given, else that of the raters, else ``general``."""
    named = next((str(row[column]) for column in layout.culture if row.get(column)), "")
    bracketed = re.search(r"\(([^)]+)\)", named)
    inner = (bracketed[1] if bracketed else named).strip()
    known = {name.casefold(): c.id for c in cultures for name in (c.id, c.name)} | {"arab": "arabic"}
    found = known.get(inner.casefold()) or culture_id_of(find_country(inner)) if inner else None
    if found or given:
        return str(found or given)
    if layout.native:
        return next((c.id for c in cultures if c.language == language.partition("-")[0]), GENERAL)
    return inner or GENERAL


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
