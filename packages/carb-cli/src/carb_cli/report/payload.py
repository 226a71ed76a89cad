"""What the page's script needs: cells for the filters, and the sets with every scorer's scores.

Outcomes and scores of all sets are always in it. Texts are added for as many sets as fit into a budget: first those
that every model gets wrong, then the failures of each scorer in turn, then the sets that all win. What judges wrote
comes after all texts, in the same order. The page says how many sets have their texts.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from carb_cli.labels import labels
from carb_cli.report.model import Report
from carb_data import BonSet, Dataset, ScoreTable, is_main
from carb_data import cultures as registry
from carb_metrics import Cell
from carb_metrics.outcomes import set_outcomes

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
    """The data of a page, and what was left out of it."""

    encoded: str
    """Base64 of gzipped JSON."""
    sets: int
    failures: int
    """Sets that at least one scorer does not win."""
    embedded: int
    """Sets that have their texts here."""
    cut: int
    """Texts that were cut to ``LONGEST_TEXT`` characters."""
    wins: tuple[tuple[int, ...], ...]
    """Counts for each scorer and each other one: sets that the first wins and the second does not, mirrors left out."""


def payload(
    report: Report,
    dataset: Dataset,
    scores: ScoreTable,
    rationales: Mapping[str, Mapping[str, str]],
    *,
    budget: int = TEXT_BUDGET,
) -> Payload:
    """Collect the data of a page.

    Args:
        report: The content of the page.
        dataset: The sets of the data set.
        scores: the scores of all scorers.
        rationales: The texts that judges wrote, by scorer and set id.
        budget: bytes of the page for texts.
    """
    names = list(report.scorers)
    items = list(dataset)
    outcomes = _outcomes(scores, names, items)
    order = _order(outcomes, [report.scorers[name].spec.kind != "baseline" for name in names], items)
    failures = sum(any(letters[place] != WON for letters in outcomes) for place in range(len(items)))
    room = _Room(budget)
    texts = room.taken((place, _entry(items[place])) for place in order)
    written = room.taken(
        (place, {str(n): text[:LONGEST_RATIONALE]})
        for place in order[: len(texts)]
        for n, name in enumerate(names)
        if (text := rationales.get(name, {}).get(items[place].id))
    )
    spoken: dict[int, dict[str, str]] = {}
    for place, one in written:
        spoken.setdefault(place, {}).update(one)
    short = labels(names)
    roots = [registry.root(i.culture).id if i.culture in registry else i.culture for i in items]
    cultures, domains = sorted({*roots, *(i.culture for i in items)}), sorted({str(i.domain) for i in items})
    families = {family: n for n, family in enumerate(dict.fromkeys(item.family for item in items if item.family))}
    mirrors = "".join(str(int(bool(i.family) and not is_main(i.culture, i.language))) for i in items)
    scale, digits = _scores(scores, names, items)
    data = {
        "scorers": [{"name": n, "label": short[n], "kind": report.scorers[n].spec.kind} for n in names],
        "cells": _cells(report),
        "floors": _floors(report),
        "humans": _humans(report),
        "cultures": cultures,
        "domains": domains,
        "ids": [item.id for item in items],
        "culture": [cultures.index(item.culture) for item in items],
        "root": [cultures.index(root) for root in roots],
        "domain": [domains.index(str(item.domain)) for item in items],
        "family": [families.get(item.family or "", -1) for item in items] if families else [],
        "mirrors": mirrors if "1" in mirrors else "",
        "outcomes": outcomes,
        "digits": DIGITS,
        "scales": scale,
        "sizes": [len(item.responses) for item in items],
        "scores": digits,
        "texts": {"at": [place for place, _ in texts]} | {key: [entry[key] for _, entry in texts] for key in _KEYS},
        "rationales": spoken,
        "consistency": [_consistency(report, name) for name in names],
    }
    packed = gzip.compress(
        json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"), 9, mtime=0
    )
    cut = sum(len(text) < length for _, entry in texts for text, length in _lengths(entry))
    main = [place for place, mirror in enumerate(mirrors) if mirror == "0"]
    wins = tuple(tuple(sum(a[p] == WON != b[p] for p in main) for b in outcomes) for a in outcomes)
    return Payload(base64.b64encode(packed).decode("ascii"), len(items), failures, len(texts), cut, wins)


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


_KEYS = ("topic", "language", "prompt", "answers", "source")


def _cells(report: Report) -> dict[str, list[list[float | int | None]]]:
    """Cells of every scorer for every choice of culture and domain; the key is ``culture/domain``, either empty."""
    found: dict[str, list[list[float | int | None]]] = {"/": []}
    parts = list(report.scorers.values())
    keys = {"by_culture": "{}/", "by_domain": "/{}", "by_culture_domain": "{}"}
    found["/"] = [_cell(part.overall) for part in parts]
    for grouping, form in keys.items():
        for key in dict.fromkeys(key for part in parts for key in getattr(part, grouping)):
            found[form.format(key)] = [_cell(getattr(part, grouping).get(key, Cell())) for part in parts]
    for key in dict.fromkeys(key for part in parts for key in part.by_variety):
        root, _, variety = key.partition("/")
        if variety != root:
            found[f"{variety}/"] = [_cell(part.by_variety.get(key, Cell())) for part in parts]
    return found


def _floors(report: Report) -> dict[str, list[float | str | None]]:
    """The surface floor of every choice of culture and domain, by the keys of ``_cells``: share, limits, predictor."""
    return {
        f"{row.group.get('culture', '')}/{row.group.get('domain', '')}": [
            row.floor.accuracy,
            row.floor.low,
            row.floor.high,
            row.predictor,
        ]
        for row in (() if report.floor is None else report.floor.rows)
    }


def _humans(report: Report) -> dict[str, list[float | None]]:
    """The human line and its limits of all sets, under ``/``, and of each choice that people reviewed."""
    whole = {} if report.dataset.human is None else {"/": report.dataset.human}
    return {key: [line.share, line.low, line.high] for key, line in (whole | report.dataset.human_groups).items()}


def _cell(cell: Cell) -> list[float | int | None]:
    shares = [None if v is None else round(v, 5) for v in (cell.accuracy, cell.low, cell.high)]
    return [*shares, cell.n, cell.ties, cell.errors]


def _consistency(report: Report, name: str) -> list[list[Any]]:
    part = report.scorers[name].consistency
    return (
        []
        if part is None
        else [[p.a, p.b, None if p.consistency is None else round(p.consistency, 4), p.n] for p in part.pairs]
    )


def _outcomes(scores: ScoreTable, names: Sequence[str], items: Sequence[BonSet]) -> list[str]:
    """For each scorer a letter for each set."""
    letter = (
        pl.when(pl.col("error"))
        .then(pl.lit(FAILED))
        .when(pl.col("credit") > 0)
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
    """All sets: first those that no model wins, then a failure of each scorer in turn, then those that all win.

    Within that, by a hash of their id, so that every culture and domain comes up.
    """
    shuffled = sorted(
        range(len(items)), key=lambda place: hashlib.sha256(items[place].id.encode("utf-8", "replace")).digest()
    )
    models = [o for o, model in zip(outcomes, is_model, strict=True) if model] or list(outcomes)
    taken = dict.fromkeys(place for place in shuffled if all(outcome[place] != WON for outcome in models))
    turns = [o for o, model in zip(outcomes, is_model, strict=True) if model]
    turns += [o for o, model in zip(outcomes, is_model, strict=True) if not model]
    waiting = [iter([place for place in shuffled if outcome[place] != WON]) for outcome in turns]
    while waiting:
        still = []
        for failures in waiting:
            place = next((p for p in failures if p not in taken), None)
            if place is not None:
                taken[place] = None
                still.append(failures)
        waiting = still
    return list(taken | dict.fromkeys(shuffled))


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


def _entry(item: BonSet) -> dict[str, Any]:
    """The texts of one set, ``chosen`` first."""
    answers = (item.chosen, *item.rejected)
    return {
        "topic": item.topic or "",
        "language": item.language,
        "source": f"{item.provenance.source}, {item.provenance.license}",
        "prompt": _text(item.prompt_text),
        "answers": [[*_text(a.text), a.language, a.culture or "", a.generator or ""] for a in answers],
    }


def _text(text: str) -> list[Any]:
    """The text as far as it is kept, and its whole length."""
    return [text[:LONGEST_TEXT], len(text)]


def _lengths(entry: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    yield entry["prompt"][0], entry["prompt"][1]
    for answer in entry["answers"]:
        yield answer[0], answer[1]
