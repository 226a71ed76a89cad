"""What the page's script needs: cells for the filters, and the sets for the failure browser.

Outcomes of all sets are always in it. Texts are added for as many failures as fit into a budget, those first that
every model gets wrong, then those of each scorer in turn; the page says how many there are.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from carb_cli.labels import labels
from carb_cli.report.model import Report
from carb_data import BonSet, Dataset, ScoreTable
from carb_metrics import Cell
from carb_metrics.outcomes import set_outcomes

TEXT_BUDGET = 2_200_000
"""Bytes of the page that texts, their scores and rationales may take."""
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
    failures: int
    """Sets that at least one scorer does not win."""
    embedded: int
    """Of them, how many have their texts here."""
    cut: int
    """Texts that were cut to ``LONGEST_TEXT`` characters."""


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
        report: its content.
        dataset: the sets.
        scores: the scores of all scorers.
        rationales: what judges wrote, by scorer and set id.
        budget: bytes of the page for texts.
    """
    names = list(report.scorers)
    items = list(dataset)
    outcomes = _outcomes(scores, names, items)
    order = _order(outcomes, [report.scorers[name].spec.kind != "baseline" for name in names], items)
    known = _Scores(scores, names)
    chosen: list[dict[str, Any]] = []
    size = 0
    packer = zlib.compressobj(9)
    for number, place in enumerate(order):
        entry = _entry(place, items[place], names, known, outcomes, rationales)
        size += len(packer.compress(json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace")))
        if number % 16 == 0:  # the packer holds back what it has not finished
            size += len(packer.flush(zlib.Z_SYNC_FLUSH))
        if size * 4 / 3 > budget:
            break
        chosen.append(entry)
    short = labels(names)
    cultures, domains = sorted({i.culture for i in items}), sorted({str(i.domain) for i in items})
    data = {
        "scorers": [{"name": n, "label": short[n], "kind": report.scorers[n].spec.kind} for n in names],
        "cells": _cells(report),
        "floors": _floors(report),
        "humans": _humans(report),
        "rolled": sorted({key for part in report.scorers.values() for key in part.by_culture}),
        "cultures": cultures,
        "domains": domains,
        "ids": [item.id for item in items],
        "culture": [cultures.index(item.culture) for item in items],
        "domain": [domains.index(str(item.domain)) for item in items],
        "outcomes": outcomes,
        "digits": DIGITS,
        "scales": known.scales,
        "texts": {key: [entry[key] for entry in chosen] for key in _KEYS},
        "consistency": [_consistency(report, name) for name in names],
    }
    packed = gzip.compress(
        json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"), 9, mtime=0
    )
    cut = sum(len(text) < length for entry in chosen for text, length in _lengths(entry))
    return Payload(base64.b64encode(packed).decode("ascii"), len(order), len(chosen), cut)


_KEYS = ("at", "topic", "language", "prompt", "answers", "scores", "rationales", "source")


def _cells(report: Report) -> dict[str, list[list[float | int | None]]]:
    """Cells of every scorer for every choice of culture and domain; the key is ``culture/domain``, either empty."""
    found: dict[str, list[list[float | int | None]]] = {"/": []}
    parts = list(report.scorers.values())
    keys = {"by_culture": "{}/", "by_domain": "/{}", "by_culture_domain": "{}"}
    found["/"] = [_cell(part.overall) for part in parts]
    for grouping, form in keys.items():
        for key in dict.fromkeys(key for part in parts for key in getattr(part, grouping)):
            found[form.format(key)] = [_cell(getattr(part, grouping).get(key, Cell())) for part in parts]
    return found


def _floors(report: Report) -> dict[str, list[float | str | None]]:
    """The surface floor of all sets, under an empty key, and of each culture: its share, and the best predictor."""
    rows = () if report.floor is None else report.floor.rows
    return {row.group or "": [row.floor.accuracy, row.predictor] for row in rows}


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
    """Sets that some scorer does not win: first those that no model wins, then a failure of each scorer in turn.

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
    return list(taken)


class _Scores:
    """Scores of the responses, as two digits between the lowest and the highest score of their scorer."""

    def __init__(self, scores: ScoreTable, names: Sequence[str]) -> None:
        frame = scores.frame.filter(pl.col("perturbation").is_null())
        limits = {
            name: (low, high)
            for name, low, high in frame.group_by("scorer")
            .agg(pl.col("score").min().alias("low"), pl.col("score").max().alias("high"))
            .iter_rows()
        }
        self.scales = [limits[name] for name in names]
        low, high = pl.col("score").min().over("scorer"), pl.col("score").max().over("scorer")
        top = len(DIGITS) ** 2 - 1
        step = pl.when(high > low).then((pl.col("score") - low) / (high - low) * top).otherwise(pl.col("score") * 0)
        keys = frame.select("scorer", "item_id", "response_id", step.round().cast(pl.Int64).alias("step"))
        self._steps = {(s, i, r): q for s, i, r, q in keys.iter_rows()}

    def digits(self, scorer: str, item: str, response: str) -> str:
        """Two digits, or two spaces where there is no score."""
        step = self._steps.get((scorer, item, response))
        return ABSENT if step is None else DIGITS[step // len(DIGITS)] + DIGITS[step % len(DIGITS)]


def _entry(
    place: int,
    item: BonSet,
    names: Sequence[str],
    known: _Scores,
    outcomes: Sequence[str],
    rationales: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    """One set: its texts, ``chosen`` first, and the scores of those who do not win it, one after another."""
    answers = (item.chosen, *item.rejected)
    return {
        "at": place,
        "topic": item.topic or "",
        "language": item.language,
        "source": f"{item.provenance.source}, {item.provenance.license}",
        "prompt": _text(item.prompt_text),
        "answers": [[*_text(a.text), a.language, a.culture or "", a.generator or ""] for a in answers],
        "scores": "".join(
            known.digits(name, item.id, answer.id)
            for number, name in enumerate(names)
            if outcomes[number][place] != WON
            for answer in answers
        ),
        "rationales": {
            str(number): text[:LONGEST_RATIONALE]
            for number, name in enumerate(names)
            if outcomes[number][place] != WON and (text := rationales.get(name, {}).get(item.id))
        },
    }


def _text(text: str) -> list[Any]:
    """The text as far as it is kept, and its whole length."""
    return [text[:LONGEST_TEXT], len(text)]


def _lengths(entry: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    yield entry["prompt"][0], entry["prompt"][1]
    for answer in entry["answers"]:
        yield answer[0], answer[1]
