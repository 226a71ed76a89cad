"""From the table of a study to its correlations. Pure: no models, no files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import NormalDist

from carb_cli.study.config import StudyConfig
from carb_cli.study.result import Measured, Prediction, ScorerRow
from carb_metrics import (
    DependentCorrelations,
    compare_correlations,
    correlate,
    correlate_uncertain,
    leave_one_out,
    mean_interval,
)


def predictions(rows: Sequence[ScorerRow], outcomes: Sequence[str], config: StudyConfig) -> tuple[Prediction, ...]:
    """Every benchmark against every outcome; the primary one with influence, comparison and partial correlation."""
    names = [benchmark.name for benchmark in config.benchmark]
    order = [config.main, *(name for name in names if name != config.main)]
    bases = {scorer.name: scorer.base or scorer.name for scorer in config.scorer}
    sources = {b.name: b.source for b in config.benchmark}, {t.name: t.source for t in config.task}
    found = []
    for outcome in outcomes:
        for benchmark in order:
            primary = benchmark == config.main
            source = sources[0][benchmark]
            prediction = predict(
                rows,
                outcome,
                benchmark,
                [name for name in order if name != benchmark] if primary else [],
                config.covariate if primary else None,
                config.confidence,
                influence=primary,
                bases=bases,
                shared_source=source is not None and source == sources[1].get(outcome.rpartition("/")[2]),
            )
            found.append(prediction)
    return tuple(found)


def predict(
    rows: Sequence[ScorerRow],
    outcome: str,
    benchmark: str,
    others: Sequence[str] = (),
    covariate: str | None = None,
    confidence: float = 0.95,
    *,
    influence: bool = True,
    bases: Mapping[str, str] | None = None,
    shared_source: bool = False,
) -> Prediction:
    """One benchmark against one outcome, over the scorers that have both.

    Each number is one of ``carb_metrics``: ``correlate``, ``correlate_uncertain``, ``leave_one_out``, and
    ``compare_correlations`` over the scorers that have all three. The standard error of a measurement is the half width
    of its interval over the normal quantile; one without an interval counts as exact. Errors count as independent,
    which is cautious where all scorers answer the same items.

    Args:
        rows: The rows of the study's table, one for each scorer.
        outcome: The name of the downstream result that is predicted.
        benchmark: The name of the benchmark that may predict it.
        others: benchmarks that it is compared with.
        covariate: the benchmark that is taken out in a partial correlation, or null.
        confidence: The level of all intervals and of those in ``rows``, a share such as 0.95.
        influence: whether to leave out each scorer.
        bases: base model of each scorer, by name, for the correlation with errors of measurement; none if left out.
        shared_source: whether benchmark and outcome rest on the same source.
    """
    kept = _complete(rows, outcome, (benchmark,))
    x, y = _column(kept, benchmark), _outcome(kept, outcome)
    both = correlate(x, y, confidence=confidence)
    partial = None
    if covariate is not None:
        with_all = _complete(rows, outcome, (benchmark, covariate))
        partial = correlate(
            _column(with_all, benchmark), _outcome(with_all, outcome), _column(with_all, covariate), confidence
        ).partial
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    names = [row.name for row in kept]
    return Prediction(
        benchmark=benchmark,
        outcome=outcome,
        n=both.n,
        scorers=tuple(names),
        pearson=both.pearson,
        spearman=both.spearman,
        kendall=both.kendall,
        fit=both.fit,
        uncertain=None
        if bases is None
        else correlate_uncertain(
            x,
            y,
            [_error(row.benchmarks[benchmark], z) for row in kept],
            [_error(row.downstream[outcome], z) for row in kept],
            [bases.get(name, name) for name in names],
            confidence,
            shared_source=shared_source,
        ),
        without=leave_one_out(x, y, names).points if influence else (),
        against={other: _against(rows, outcome, benchmark, other, confidence) for other in others},
        covariate=covariate,
        partial=partial,
    )


def _error(cell: Measured, z: float) -> float:
    return 0.0 if cell.low is None or cell.high is None else (cell.high - cell.low) / 2 / z


def _against(
    rows: Sequence[ScorerRow], outcome: str, benchmark: str, other: str, confidence: float
) -> DependentCorrelations:
    kept = _complete(rows, outcome, (benchmark, other))
    return compare_correlations(_column(kept, benchmark), _column(kept, other), _outcome(kept, outcome), confidence)


def _complete(rows: Sequence[ScorerRow], outcome: str, benchmarks: Sequence[str]) -> list[ScorerRow]:
    return [
        row
        for row in rows
        if _value(row.downstream, outcome) is not None
        and all(_value(row.benchmarks, b) is not None for b in benchmarks)
    ]


def _value(cells: Mapping[str, Measured], key: str) -> float | None:
    return cells[key].value if key in cells else None


def _column(rows: Sequence[ScorerRow], benchmark: str) -> list[float]:
    return [value for row in rows if (value := row.benchmarks[benchmark].value) is not None]


def _outcome(rows: Sequence[ScorerRow], outcome: str) -> list[float]:
    return [value for row in rows if (value := row.downstream[outcome].value) is not None]


def mean_of(values: Sequence[float], clusters: Sequence[str], confidence: float, errors: int) -> Measured:
    """The mean over prompts with ``carb_metrics.mean_interval``.

    Args:
        values: one for each prompt.
        clusters: the cluster of each prompt; prompts that share one are not independent.
        confidence: level of the interval, between 0 and 1.
        errors: the number of prompts that failed and do not count.
    """
    if not values:
        return Measured(value=None, n=0, errors=errors)
    shares = all(0 <= value <= 1 for value in values)
    found = mean_interval(values, clusters, confidence, bounded=shares)
    return Measured(value=found.estimate, low=found.low, high=found.high, n=len(values), errors=errors)
