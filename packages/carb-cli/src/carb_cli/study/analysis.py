"""From the table of a study to its correlations. Pure: no models, no files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from carb_cli.study.result import Against, Line, Measured, PartialPart, Prediction, ScorerRow, WithoutOne
from carb_metrics import compare_correlations, correlate, leave_one_out, mean_interval


def predictions(
    rows: Sequence[ScorerRow],
    outcomes: Sequence[str],
    benchmarks: Sequence[str],
    primary: str,
    covariate: str | None,
    confidence: float,
) -> tuple[Prediction, ...]:
    """Every benchmark against every outcome; the primary one with influence, comparison and partial correlation."""
    order = [primary, *(name for name in benchmarks if name != primary)]
    found = []
    for outcome in outcomes:
        for benchmark in order:
            others = [name for name in order if name != benchmark] if benchmark == primary else []
            taken = covariate if benchmark == primary else None
            found.append(predict(rows, outcome, benchmark, others, taken, confidence, influence=benchmark == primary))
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
) -> Prediction:
    """One benchmark against one outcome, over the scorers that have both.

    Correlations and intervals are those of ``carb_metrics.correlate``; the comparison with another benchmark that of
    ``compare_correlations`` (Williams 1959, Steiger 1980, Zou 2007), over the scorers that have all three; influence
    that of ``leave_one_out``.
    """
    kept = _complete(rows, outcome, (benchmark,))
    x, y = _column(kept, benchmark), _outcome(kept, outcome)
    both = correlate(x, y, confidence=confidence)
    partial = None
    if covariate is not None:
        with_all = _complete(rows, outcome, (benchmark, covariate))
        taken = correlate(
            _column(with_all, benchmark),
            _outcome(with_all, outcome),
            [[value] for value in _column(with_all, covariate)],
            confidence,
        ).partial
        if taken is not None:
            partial = PartialPart(covariate=covariate, pearson=taken.pearson, spearman=taken.spearman)
    return Prediction(
        benchmark=benchmark,
        outcome=outcome,
        n=both.n,
        scorers=tuple(row.name for row in kept),
        pearson=both.pearson,
        spearman=both.spearman,
        kendall=both.kendall,
        fit=Line(**{name: getattr(both.fit, name) for name in Line.model_fields}),
        without=_without(kept, x, y) if influence else (),
        against=tuple(_against(rows, outcome, benchmark, other, confidence) for other in others),
        partial=partial,
    )


def _without(rows: Sequence[ScorerRow], x: Sequence[float], y: Sequence[float]) -> tuple[WithoutOne, ...]:
    points = leave_one_out(x, y, [row.name for row in rows]).points.to_dicts()
    return tuple(
        WithoutOne(
            scorer=point["label"],
            pearson=point["pearson"],
            spearman=point["spearman"],
            cooks_distance=point["cooks_distance"],
        )
        for point in points
    )


def _against(rows: Sequence[ScorerRow], outcome: str, benchmark: str, other: str, confidence: float) -> Against:
    kept = _complete(rows, outcome, (benchmark, other))
    found = compare_correlations(_column(kept, benchmark), _column(kept, other), _outcome(kept, outcome), confidence)
    return Against(
        benchmark=other,
        r=found.r_a,
        r_other=found.r_b,
        r_between=found.r_ab,
        difference=found.difference,
        steiger_p=found.steiger_p,
    )


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
        clusters: prompts that share one are not independent.
        confidence: level of the interval, between 0 and 1.
        errors: prompts that do not count.
    """
    if not values:
        return Measured(value=None, n=0, errors=errors)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(clusters))}
    shares = all(0 <= value <= 1 for value in values)
    found = mean_interval(values, np.array([numbers[name] for name in clusters]), confidence, bounded=shares)
    return Measured(value=found.estimate, low=found.low, high=found.high, n=len(values), errors=errors)
