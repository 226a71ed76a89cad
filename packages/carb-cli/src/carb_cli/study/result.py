"""What a study finds."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from carb_cli.output import Output, Part
from carb_metrics import Estimate


class Measured(Part):
    """One number with its interval; null where it could not be measured."""

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    """Sets or prompts."""
    errors: int = 0
    """Sets or prompts without a score; on a benchmark they count as wrong, downstream they do not count."""


class CurvePart(Part):
    """Best-of-n at one n."""

    n: int
    picked: float
    best: float
    regret: float


class ScorerRow(Part):
    """Everything measured of one scorer."""

    name: str
    spec: str
    benchmarks: dict[str, Measured]
    downstream: dict[str, Measured]
    """Rows by outcome: ``bon/POLICY/TASK``, or ``NAME/TASK`` for optimised policies."""
    curves: dict[str, tuple[CurvePart, ...]]
    """Rows by outcome, for Best-of-N."""


class Line(Part):
    """Least squares of downstream on benchmark."""

    slope: float | None
    slope_low: float | None
    slope_high: float | None
    intercept: float | None
    r2: float | None
    p: float | None


class PartialPart(Part):
    """The correlation after what the covariate explains is taken out of both."""

    covariate: str
    pearson: Estimate
    spearman: Estimate


class Against(Part):
    """Does the benchmark predict better than another one? Positive differences say that it does."""

    benchmark: str
    r: float | None
    r_other: float | None
    r_between: float | None
    difference: Estimate
    """With Zou's interval and Williams's p."""
    steiger_p: float | None


class WithoutOne(Part):
    """What remains of the correlation when one scorer is left out."""

    scorer: str
    pearson: float | None
    spearman: float | None
    cooks_distance: float | None


class Prediction(Part):
    """One benchmark against one outcome, over the scorers that have both."""

    benchmark: str
    outcome: str
    n: int
    """Scorers."""
    scorers: tuple[str, ...]
    pearson: Estimate
    spearman: Estimate
    kendall: Estimate
    fit: Line
    without: tuple[WithoutOne, ...]
    """Only for the primary benchmark."""
    against: tuple[Against, ...] = ()
    partial: PartialPart | None = None


class Failure(Part):
    """A cell that could not be filled."""

    scorer: str
    cell: str
    reason: str


class Outcome(Part):
    """Something that happens downstream."""

    id: str
    kind: Literal["bon", "optimised"]
    policy: str
    task: str
    prompts: int
    n: int
    """Samples for each prompt."""
    random: float | None
    """Quality of a random sample; null for optimised policies."""
    best: float | None
    """Quality of the best of all samples."""
    start: float | None = None
    """Quality of the policy before it was optimised, on the same prompts; only for runs of ``carb train-policy``."""


class StudyResult(Output):
    """Output of ``carb validity --study``."""

    schema_: Literal["carb.study/1"] = Field(default="carb.study/1", alias="schema")
    out: str
    confidence: float
    primary: str
    benchmarks: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    scorers: tuple[ScorerRow, ...]
    predictions: tuple[Prediction, ...]
    """The primary benchmark first, for each outcome."""
    failures: tuple[Failure, ...]
    figures: tuple[str, ...] = ()
    """Files, relative to ``out``."""
