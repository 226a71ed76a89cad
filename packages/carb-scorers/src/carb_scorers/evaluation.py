"""The whole road in one call: hide the labels, score, join the labels back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import anyio

from carb_data import CarbError, Dataset, ScoreTable
from carb_scorers.blind import blind, checked, unblind
from carb_scorers.contract import Scorer, ScoreRequest, ScoreResult, failed
from carb_scorers.specs import open_scorer

WINDOW = 256
"""Requests handed to a scorer at once: enough to sort by length, few enough to show progress."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one scorer has come."""

    scorer: str
    done: int
    total: int
    errors: int
    tokens: int


OnProgress = Callable[[Progress], None]


async def score_window(scorer: Scorer, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
    """Score some requests; whatever goes wrong becomes error rows.

    A user's mistake (``CarbError``) is passed on, since it would fail every item alike.
    """
    try:
        results = await scorer.score(requests)
    except CarbError:
        raise
    except Exception as error:  # any failure of a third party's scorer is a row, not the end of the run
        return [failed(request, type(error).__name__, str(error)) for request in requests]
    if len(results) != len(requests):
        message = f"the scorer gave {len(results)} results for {len(requests)} requests"
        return [failed(request, "contract", message) for request in requests]
    return [checked(request, result) for request, result in zip(requests, results, strict=True)]


async def evaluate_async(
    dataset: Dataset,
    scorers: Sequence[Scorer | str],
    *,
    seed: int = 0,
    window: int = WINDOW,
    on_progress: OnProgress | None = None,
) -> ScoreTable:
    """``evaluate`` for callers that have an event loop already (asyncio or trio)."""
    if isinstance(scorers, str):
        raise CarbError("scorers must be a list, for example [open_scorer('baseline:length')].")
    names: set[str] = set()
    tables: list[ScoreTable] = []
    for given in scorers:
        async with AsyncExitStack() as stack:
            scorer = given
            if isinstance(scorer, str):
                scorer = open_scorer(scorer)
                stack.push_async_callback(scorer.aclose)
            name = scorer.spec.name
            if name in names:
                raise CarbError(f"Two scorers are named '{name}'; give each a name of its own.")
            names.add(name)
            blinded = [b for item in dataset for b in blind(item, seed=seed, comparative=scorer.spec.comparative)]
            results: list[ScoreResult] = []
            errors = tokens = 0
            for start in range(0, len(blinded), window):
                part = await score_window(scorer, [b.request for b in blinded[start : start + window]])
                results.extend(part)
                errors += sum(result.error is not None for result in part)
                tokens += sum(r.usage.input_tokens + r.usage.output_tokens for r in part if r.usage is not None)
                if on_progress is not None:
                    on_progress(Progress(name, len(results), len(blinded), errors, tokens))
            tables.append(unblind(dataset, name, zip(blinded, results, strict=True)))
    return ScoreTable.concat(tables)


def evaluate(
    dataset: Dataset,
    scorers: Sequence[Scorer | str],
    *,
    seed: int = 0,
    window: int = WINDOW,
    on_progress: OnProgress | None = None,
) -> ScoreTable:
    """Score every response of a data set with every scorer.

    The labels are hidden, candidates are put into a seeded random order under opaque ids, scored, and the
    labels are joined back.

    Args:
        dataset: the sets.
        scorers: spec strings (opened and closed here) or ``Scorer`` objects (left open).
        seed: of the presented order.
        window: requests handed to a scorer at once.
        on_progress: called after each window.

    Returns:
        A row per scorer and response, perturbed ones included; ``score`` is null where scoring failed.

    Raises:
        CarbError: a spec is wrong, a model or extra is missing, or two scorers share a name.
    """

    async def run() -> ScoreTable:
        return await evaluate_async(dataset, scorers, seed=seed, window=window, on_progress=on_progress)

    return anyio.run(run)
