"""The data of the page's script: the sets, with every scorer's scores, picks and texts.

A page holds as many sets as its texts allow. Sets that every model gets wrong come first, then
other failures, then the sets that all win. The page says how many it holds.
"""

import base64
import gzip
import hashlib
import itertools
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from polars import col

from carb_cli.family_table import place_name
from carb_cli.report.content import Runs
from carb_cli.report.report_json import Report
from carb_cli.report.shown import JudgeTexts, sent
from carb_cli.report.tables import marked_labels
from carb_data import BonSet, Dataset, Response, is_mirror, rounded
from carb_data import cultures as registry
from carb_metrics.scored import outcomes
from carb_scorers import in_order

MOST_CHARACTERS = 6_000_000
"""Characters of sets in a page, and of what judges wrote of them; about 2 MB each once they are
packed."""
LONGEST_TEXT = 4_000
LONGEST_RATIONALE = 1_500
"""Characters that are kept of each."""

LEVEL = 6
"""Of compression; 9 takes twice the time, and saves one byte in a hundred."""

WON, LOST, TIED, FAILED = "w", "l", "t", "e"


@dataclass(frozen=True)
class Payload:
    """The data of a page, and how much of the sets is in it."""

    encoded: str
    """Base64 of gzipped JSON."""
    sets: int
    failures: int
    """Sets that at least one scorer does not win."""
    embedded: int
    """Sets that are in the page."""


def payload(
    report: Report,
    runs: Runs,
    written: Mapping[str, JudgeTexts] | None = None,
    *,
    most: int = MOST_CHARACTERS,
) -> Payload:
    """Collect the data of a page.

    Args:
        report: the content of the page.
        runs: the runs that the report was made from.
        written: what judges wrote, by scorer.
        most: characters of sets that the page may hold, and of what judges wrote.
    """
    names = list(report.scorers)
    texts = written or {}
    given = {scorer.spec.name: record.seed for record in runs.records for scorer in record.scorers}
    seeds = list(dict.fromkeys(given.values()))
    outcomes = _outcomes(runs, names)
    scores = scores_of(runs, names, runs.dataset)
    judges = {index: texts[name] for index, name in enumerate(names) if name in texts}
    sets: list[dict[str, Any]] = []
    left = most
    left_for_rationales = most
    for item in _order(outcomes, [name in report.models for name in names], runs.dataset):
        left -= _shown_characters(item)
        if left < 0:
            break
        rationales = {index: judge.about(item) for index, judge in judges.items()}
        kept = {index: text[:LONGEST_RATIONALE] for index, text in rationales.items() if text}
        left_for_rationales -= sum(map(len, kept.values()))
        if left_for_rationales < 0:
            kept = {}
        entry = _entry(item, seeds, outcomes[item.id], scores[item.id])
        sets.append(entry | {"written": kept})
    orders = [seeds.index(given[name]) for name in names]
    scorers = _named(report, texts, orders, list(runs.dataset))
    all_won = WON * len(names)
    return Payload(
        encoded=_packed({"scorers": scorers, "sets": sets}),
        sets=len(runs.dataset),
        failures=sum(letters != all_won for letters in outcomes.values()),
        embedded=len(sets),
    )


def _packed(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    packed = gzip.compress(text.encode("utf-8", "replace"), LEVEL, mtime=0)
    return base64.b64encode(packed).decode("ascii")


def _shown_characters(item: BonSet) -> int:
    """Characters of a set's texts, each cut to its longest."""
    texts = (item.prompt_text, *item.texts)
    return sum(min(len(text), LONGEST_TEXT) for text in texts)


def _named(
    report: Report, told: Mapping[str, JudgeTexts], seeds: Sequence[int], items: Sequence[BonSet]
) -> list[dict[str, Any]]:
    """Each scorer's names, its kind, the order of its candidates, and its prompt."""
    short = marked_labels(report)
    return [
        {
            "name": name,
            "label": short[name],
            "kind": part.spec.kind,
            "model": name in report.models,
            "order": seed,
            "asked": told[name].asked if name in told else (),
            "sent": sent(part.spec, items),
        }
        for (name, part), seed in zip(report.scorers.items(), seeds, strict=True)
    ]


def _outcomes(runs: Runs, names: Sequence[str]) -> dict[str, str]:
    """For each set a letter for each scorer."""
    letter = (
        pl.when(col.error)
        .then(pl.lit(FAILED))
        .when(col.credit == 1)
        .then(pl.lit(WON))
        .when(col.tied > 0)
        .then(pl.lit(TIED))
        .otherwise(pl.lit(LOST))
    )
    rows = outcomes(runs.scores.frame).select("scorer", "item_id", value=letter)
    ids = [item.id for item in runs.dataset]
    letters = _matrix(rows, pl.DataFrame({"item_id": ids}), names, FAILED)
    return dict(zip(ids, map("".join, letters.tolist()), strict=True))


def _matrix(
    rows: pl.DataFrame, keys: pl.DataFrame, names: Sequence[str], missing: str | float
) -> np.ndarray:
    """(keys, names) the ``value`` of each scorer, ``missing`` where it has none.

    Args:
        rows: ``scorer``, the columns of ``keys``, and ``value``.
    """
    scorers = pl.DataFrame({"scorer": names})
    texts = rows.with_columns(col("scorer", *keys.columns).cast(pl.String))
    numbered = texts.join(keys.with_row_index("row"), on=keys.columns)
    cells = numbered.join(scorers.with_row_index("column"), on="scorer")
    matrix = np.full((len(keys), len(names)), missing)
    matrix[cells["row"], cells["column"]] = cells["value"].to_numpy()
    return matrix


def _order(outcomes: Mapping[str, str], is_model: Sequence[bool], dataset: Dataset) -> list[BonSet]:
    """All sets: first those that no model wins, then those that some scorer does not win, then
    those that all win.

    Within that, by a hash of their id, so that every culture and domain comes up.
    """

    def key(item: BonSet) -> tuple[bool, bool, bytes]:
        letters = outcomes[item.id]
        won_by_a_model = WON in itertools.compress(letters, is_model)
        won_by_all = letters == WON * len(letters)
        hashed = hashlib.sha256(item.id.encode("utf-8", "replace"))
        return won_by_a_model, won_by_all, hashed.digest()

    return sorted(dataset, key=key)


def scores_of(
    runs: Runs, names: Sequence[str], sets: Collection[BonSet]
) -> dict[str, list[list[float | None]]]:
    """Each scorer's scores of each set, the right answer first, rounded as ties are."""
    known = col.perturbation.is_null() & col.score.is_not_null()
    score = rounded(col.score)
    rows = runs.scores.frame.filter(known).select("scorer", "item_id", "response_id", value=score)
    answers = []
    sizes = []
    for item in sets:
        of_set = chosen_first(item)
        answers += [(item.id, answer.id) for answer in of_set]
        sizes.append(len(of_set))
    keys = pl.DataFrame(answers, schema=["item_id", "response_id"], orient="row")
    matrix = _matrix(rows, keys, names, math.nan)
    ends = np.cumsum(sizes)
    scores = {}
    for item, of_answers in zip(sets, np.split(matrix, ends[:-1]), strict=True):
        of_scorers = of_answers.T.tolist()
        scores[item.id] = [[None if math.isnan(one) else one for one in row] for row in of_scorers]
    return scores


def chosen_first(item: BonSet) -> tuple[Response, ...]:
    """The right answer, then the wrong ones."""
    return (item.chosen, *item.rejected)


def _entry(
    item: BonSet,
    seeds: Sequence[int],
    outcomes: str,
    scores: Sequence[Sequence[float | None]],
) -> dict[str, Any]:
    """The texts of one set, the right answer first. Beside them are the order of each seed, and
    each scorer's outcome and scores."""
    answers = chosen_first(item)
    ids = [answer.id for answer in answers]
    orders = []
    for seed in seeds:
        given = in_order(item, item.responses, seed)
        orders.append([ids.index(response.id) for response in given])
    source = item.provenance
    stated = item.chosen.source
    gloss = (stated and stated.note) or ""
    return {
        "id": item.id,
        "culture": item.culture,
        "place": place_name(item),
        "root": registry.root_id(item.culture),
        "domain": str(item.domain),
        "family": item.family or "",
        "mirror": is_mirror(item),
        "topic": " · ".join(str(part) for part in (item.topic, item.kind) if part),
        "language": item.language,
        "prompt": [[text[:LONGEST_TEXT], len(text), role] for role, text in _turns(item)],
        "answers": list(map(_answer, answers)),
        "source": f"{source.source}, {source.license}",
        "gloss": gloss[:LONGEST_TEXT],
        "orders": orders,
        "outcomes": outcomes,
        "scores": scores,
    }


def _turns(item: BonSet) -> list[tuple[str, str]]:
    """The role and the text of each turn of a prompt; a plain question has no role."""
    if isinstance(item.prompt, str):
        return [("", item.prompt)]
    return [(turn.role, turn.content) for turn in item.prompt]


def _answer(answer: Response) -> list[str | int]:
    return [
        answer.text[:LONGEST_TEXT],
        len(answer.text),
        answer.language,
        answer.culture or "",
        answer.generator or "",
        _cited(answer),
    ]


def _cited(answer: Response) -> str:
    """The fact that an answer follows and the page that states it."""
    cited = answer.source
    if cited is None:
        return ""
    parts = [cited.fact, cited.title, cited.url]
    if cited.accessed is not None:
        parts.append(f"read {cited.accessed}")
    return " · ".join(filter(None, parts))
