"""What a study finds."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from carb_cli.output import Output, OutputPart
from carb_metrics import DependentCorrelations, Estimate, Fit, InfluenceRow, Partial, UncertainCorrelation
from carb_scorers.bon import CurvePoint


class Measured(OutputPart):
    """One number with its interval; null where it could not be measured."""

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    """Sets or prompts."""
    errors: int = 0
    """Sets or prompts without a score; on a benchmark they count as wrong, downstream they do not count."""


class ScorerRow(OutputPart):
    """Everything measured of one scorer."""

    name: str
    spec: str
    benchmarks: dict[str, Measured]
    downstream: dict[str, Measured]
    """Results by outcome: ``bon/POLICY/TASK``, or ``NAME/TASK`` for optimised policies."""
    curves: dict[str, tuple[CurvePoint, ...]]
    """Curves by outcome, for Best-of-N."""


class Prediction(OutputPart):
    """One benchmark against one outcome, over the scorers that have both."""

    benchmark: str
    outcome: str
    n: int
    """Scorers."""
    scorers: tuple[str, ...]
    pearson: Estimate
    spearman: Estimate
    kendall: Estimate
    fit: Fit
    """Downstream on benchmark."""
    uncertain: UncertainCorrelation | None
    """Pearson's r with errors of measurement: items and base models are drawn again together, and it is corrected for
    attenuation."""
    without: tuple[InfluenceRow, ...]
    """The correlation without each scorer; only for the primary benchmark."""
    against: dict[str, DependentCorrelations] = Field(default_factory=dict)
    """Comparison with each other benchmark: does this one (a) predict better than it (b)?"""
    covariate: str | None = None
    """The benchmark that is taken out in ``partial``."""
    partial: Partial | None = None


class FailedCell(OutputPart):
    """A cell that could not be filled."""

    scorer: str
    cell: str
    reason: str


class StudyOutcome(OutputPart):
    """Something that happens downstream."""

    id: str
    kind: Literal["bon", "optimised"]
    policy: str
    task: str
    prompts: int
    n: int
    """Number of samples for each prompt."""
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
    outcomes: tuple[StudyOutcome, ...]
    scorers: tuple[ScorerRow, ...]
    predictions: tuple[Prediction, ...]
    """The primary benchmark first, for each outcome."""
    failures: tuple[FailedCell, ...]
    figures: tuple[str, ...] = ()
    """Files, relative to ``out``."""
