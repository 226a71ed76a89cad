"""What the page's script needs: cells for the filters, and the sets with every scorer's scores.

Outcomes and scores of all sets are always in it. Texts are added for as many sets as fit into a budget: first those
that every model gets wrong, then other failures, then the sets that all win. What judges wrote
comes after all texts, in the same order. The page says how many sets have their texts.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from carb_cli.labels import labels
from carb_cli.report.content import Runs
from carb_cli.report.model import Report
from carb_cli.report.shown import JudgeTexts, sent
from carb_data import BonSet, Response, ScoreTable, is_main
from carb_data import cultures as registry
from carb_metrics.outcome import set_outcomes
from carb_metrics.rows import Cell
from carb_scorers.blind import blind

TEXT_BUDGET = 2_200_000
"""Bytes of the page that texts and rationales may take."""
LONGEST_TEXT = 4_000
LONGEST_RATIONALE = 1_500
"""Characters that are kept of each."""

WON, LOST, TIED, FAILED = "w", "l", "t", "e"
DIGITS = "".join(chr(code) for code in range(33, 127) if chr(code) not in '"\\')
"""Of scores: two of them place a score on one of 92² steps between the scorer's lowest and highest."""
ABSENT = "  "


@dataclass(frozen=True, slots=True)
class Payload:
    """The data of a page, and how much of the sets is in it."""

    encoded: str
    """Base64 of gzipped JSON."""
    sets: int
    failures: int
    """Sets that at least one scorer does not win."""
    embedded: int
    """Sets that have their texts here."""


def payload(
    report: Report, runs: Runs, written: Mapping[str, JudgeTexts] | None = None, *, budget: int = TEXT_BUDGET
) -> Payload:
    """Collect the data of a page.

    Args:
        report: the content of the page.
        runs: the runs that the report was made from.
        written: what judges wrote, by scorer.
        budget: bytes of the page for texts.
    """
    names, items, told = list(report.scorers), list(runs.dataset), written or {}
    outcomes = _outcomes(runs.scores, names, items)
    order = _order(outcomes, [name in report.models for name in names], items)
    room = _Room(budget)
    seeds = {scorer.spec.name: record.seed for record in runs.records for scorer in record.scorers}
    kept = list(dict.fromkeys(seeds.values()))
    texts = room.taken((place, _entry(items[place], kept)) for place in order)
    spoken: dict[int, dict[str, str]] = {}
    for place, one in room.taken(
        (place, {str(n): text[:LONGEST_RATIONALE]})
        for place in order[: len(texts)]
        for n, name in enumerate(names)
        if name in told and (text := told[name].texts.get(items[place].id))
    ):
        spoken.setdefault(place, {}).update(one)
    scale, digits = _scores(runs.scores, names, items)
    data = {
        "scorers": _named(report, told, [kept.index(seeds[name]) for name in names], items),
        "cells": _cells(report),
        **_places(items),
        "outcomes": outcomes,
        "digits": DIGITS,
        "scales": scale,
        "scores": digits,
        "texts": {"at": [place for place, _ in texts], "keys": TEXTS, "rows": [list(one.values()) for _, one in texts]},
        "rationales": spoken,
    }
    packed = gzip.compress(
        json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"), 9, mtime=0
    )
    failures = sum(any(letters[place] != WON for letters in outcomes) for place in range(len(items)))
    return Payload(base64.b64encode(packed).decode("ascii"), len(items), failures, len(texts))


def _named(
    report: Report, told: Mapping[str, JudgeTexts], seeds: Sequence[int], items: Sequence[BonSet]
) -> list[dict[str, Any]]:
    """Of each scorer its names, its kind, which order of candidates it was given, and what it was asked."""
    short = labels(report.scorers)
    return [
        {
            "name": name,
            "label": short[name],
            "kind": part.kind,
            "order": seed,
            "asked": told[name].asked if name in told else (),
            "sent": sent(part.spec, items),
        }
        for (name, part), seed in zip(report.scorers.items(), seeds, strict=True)
    ]


def _places(items: Sequence[BonSet]) -> dict[str, Any]:
    """Of every set what filters and families need; cultures and domains are numbers in lists."""
    roots = [registry.root(item.culture).id if item.culture in registry else item.culture for item in items]
    cultures = sorted({*roots, *(item.culture for item in items)})
    domains = sorted({str(item.domain) for item in items})
    families = {family: n for n, family in enumerate(dict.fromkeys(item.family for item in items if item.family))}
    mirrors = "".join(str(int(bool(i.family) and not is_main(i.culture, i.language))) for i in items)
    return {
        "cultures": cultures,
        "domains": domains,
        "ids": [item.id for item in items],
        "culture": [cultures.index(item.culture) for item in items],
        "root": [cultures.index(root) for root in roots],
        "domain": [domains.index(str(item.domain)) for item in items],
        "family": [families.get(item.family or "", -1) for item in items] if families else [],
        "mirrors": mirrors if "1" in mirrors else "",
        "sizes": [len(item.responses) for item in items],
    }


class _Room:
    """Takes entries as long as their compressed size fits into a budget of bytes, in base64."""

    def __init__(self, budget: int) -> None:
        self._budget, self._size, self._packer = budget, 0, zlib.compressobj(9)

    def taken(self, entries: Iterable[tuple[int, dict[str, Any]]]) -> list[tuple[int, dict[str, Any]]]:
        """The first of the entries, as many as fit."""
        kept: list[tuple[int, dict[str, Any]]] = []
        for number, (place, entry) in enumerate(entries):
            self._size += len(self._packer.compress(json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace")))
            if number % 16 == 0:  # the packer holds back what it has not finished
                self._size += len(self._packer.flush(zlib.Z_SYNC_FLUSH))
            if self._size * 4 / 3 > self._budget:
                break
            kept.append((place, entry))
        return kept


TEXTS = ("topic", "language", "prompt", "answers", "source", "gloss", "orders")
"""What is in a row of texts; the texts of a set stand together, since they are alike and so pack well."""


def _cells(report: Report) -> dict[str, list[list[float | int | None]]]:
    """Cells of every scorer for every choice of culture and domain that has main sets; the key is ``culture/domain``,
    either empty."""
    parts = list(report.scorers.values())
    found = {"/": [_cell(part.overall) for part in parts]}
    forms = {"by_culture": "{}/", "by_domain": "/{}", "by_culture_domain": "{}", "by_variety": "{}/"}
    for grouping, form in forms.items():
        for key in dict.fromkeys(key for part in parts for key in getattr(part, grouping)):
            name = key.rpartition("/")[2] if grouping == "by_variety" else key
            cells = [getattr(part, grouping).get(key, Cell()) for part in parts]
            if any(cell.n for cell in cells):
                found.setdefault(form.format(name), [_cell(cell) for cell in cells])
    return found


def _cell(cell: Cell) -> list[float | int | None]:
    shares = [None if v is None else round(v, 5) for v in (cell.accuracy, cell.low, cell.high)]
    return [*shares, cell.n, cell.ties, cell.errors]


def _outcomes(scores: ScoreTable, names: Sequence[str], items: Sequence[BonSet]) -> list[str]:
    """For each scorer a letter for each set."""
    letter = (
        pl.when(pl.col("error"))
        .then(pl.lit(FAILED))
        .when(pl.col("credit") == 1)
        .then(pl.lit(WON))
        .when(pl.col("tied") > 0)
        .then(pl.lit(TIED))
        .otherwise(pl.lit(LOST))
    )
    frame = set_outcomes(scores).select("scorer", "item_id", letter.alias("letter"))
    by_scorer: dict[str, dict[str, str]] = {name: {} for name in names}
    for scorer, item_id, found in frame.iter_rows():
        by_scorer[scorer][item_id] = found
    return ["".join(by_scorer[name].get(item.id, FAILED) for item in items) for name in names]


def _order(outcomes: Sequence[str], is_model: Sequence[bool], items: Sequence[BonSet]) -> list[int]:
    """All sets: first those that no model wins, then those that some scorer does not win, then those that all win.

    Within that, by a hash of their id, so that every culture and domain comes up.
    """
    models = [o for o, model in zip(outcomes, is_model, strict=True) if model]

    def place_of(place: int) -> tuple[bool, bool, bytes]:
        won = [letters[place] == WON for letters in models]
        hashed = hashlib.sha256(items[place].id.encode("utf-8", "replace")).digest()
        return any(won), all(letters[place] == WON for letters in outcomes), hashed

    return sorted(range(len(items)), key=place_of)


def _scores(
    scores: ScoreTable, names: Sequence[str], items: Sequence[BonSet]
) -> tuple[list[tuple[float, float]], list[str]]:
    """The lowest and the highest score of each scorer, and two digits for each answer of each set, ``chosen`` first.

    Two digits place a score between its scorer's lowest and highest; two spaces stand where there is none.
    """
    frame = scores.frame.filter(pl.col("perturbation").is_null())
    columns = pl.col("scorer", "item_id", "response_id").cast(pl.String)
    places = [(item.id, answer.id) for item in items for answer in (item.chosen, *item.rejected)]
    pairs = [first + second for first in DIGITS for second in DIGITS]
    scales, found = [], []
    for name in names:
        rows = frame.filter(pl.col("scorer") == name).select(columns, "score").rows()
        known = {(item, response): score for _, item, response, score in rows if score is not None}
        low, high = min(known.values(), default=0.0), max(known.values(), default=0.0)
        steps = (len(pairs) - 1) / (high - low) if high > low else 0.0
        scales.append((low, high))
        found.append(
            "".join(
                ABSENT if (score := known.get(place)) is None else pairs[round((score - low) * steps)]
                for place in places
            )
        )
    return scales, found


def _entry(item: BonSet, seeds: Sequence[int]) -> dict[str, Any]:
    """The texts of one set, ``chosen`` first, and for each seed the order in which scorers got its answers."""
    answers = (item.chosen, *item.rejected)
    ids = [answer.id for answer in answers]
    turns = [("", item.prompt)] if isinstance(item.prompt, str) else [(turn.role, turn.content) for turn in item.prompt]
    source = item.provenance
    return {
        "topic": " · ".join(str(part) for part in (item.topic, item.kind) if part),
        "language": item.language,
        "prompt": [[*_text(text), role] for role, text in turns],
        "answers": [[*_text(a.text), a.language, a.culture or "", a.generator or "", _cited(a)] for a in answers],
        "source": f"{source.source}, {source.license}",
        "gloss": (source.notes or "")[:LONGEST_TEXT],
        "orders": [[ids.index(key) for key in _given(item, seed)] for seed in seeds],
    }


def _given(item: BonSet, seed: int) -> Iterable[str]:
    """Ids of the answers in the order in which they went into a request."""
    return next(blind(item, seed=seed, comparative=True)).recorded.values()


def _cited(answer: Response) -> str:
    """The fact that an answer follows and the page that states it."""
    cited = answer.source
    if cited is None:
        return ""
    read = None if cited.accessed is None else f"read {cited.accessed}"
    return " · ".join(part for part in (cited.fact, cited.title, cited.url, read, cited.note) if part)


def _text(text: str) -> list[Any]:
    """The text as far as it is kept, and its whole length."""
    return [text[:LONGEST_TEXT], len(text)]
