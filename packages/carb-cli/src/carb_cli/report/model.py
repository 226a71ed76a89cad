"""The content of a report, as ``report.json`` has it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from carb_cli.output import Output, OutputPart
from carb_metrics import (
    Cell,
    Correlation,
    Estimate,
    FamilyReport,
    FamilyRow,
    HumanLine,
    ItemRow,
    JudgeBias,
    MarginRow,
    SurfaceFloor,
)
from carb_metrics.rows import ConsistencyRow, KindRow, PairRow, RankRow
from carb_scorers import ScorerSpec, Usage
from carb_scorers.run import Machine

Cells = dict[str, Cell]
"""Cells by group; keys of two columns are joined by ``/``."""


class DatasetPart(OutputPart):
    """What was scored."""

    names: tuple[str, ...]
    fingerprint: str
    sets: int
    """All sets that were scored."""
    mirrors: int
    """Number of these sets that are about other places; they count for families alone."""
    responses: int
    chance: float | None
    """Accuracy of a random pick without ties: the mean of 1/N."""
    human: HumanLine | None = None
    """How often native speakers pick the key, where `carb review apply` made this data set; else null."""
    human_groups: dict[str, HumanLine] = Field(default_factory=dict)
    """The same for a culture (``thai/``), a domain (``/values``), or both (``thai/values``)."""
    human_whole: bool = False
    """True where these runs scored a part of the reviewed data set: the lines are of all its sets."""
    cultures: dict[str, int]
    """Sets of each culture, as the sets name it."""
    domains: dict[str, int]
    languages: dict[str, int]
    sources: dict[str, int]
    licenses: dict[str, int]
    methods: dict[str, int]
    """How the sets were made: ``human-vote``, ``authored``, ``generated``."""


class ScorerPart(OutputPart):
    """What was found about one scorer."""

    spec: ScorerSpec
    usage: Usage
    cost: float | None
    overall: Cell
    """Every set weighs the same: the headline."""
    macro: Cell
    """Every culture × domain weighs the same."""
    shared: Cell
    """A tie of k gives 1/k."""
    rank: RankRow
    by_culture: Cells
    by_variety: Cells
    by_domain: Cells
    by_culture_domain: Cells
    by_topic: Cells
    by_resource_class: Cells
    by_family: Cells
    by_script: Cells
    perturbation: dict[str, KindRow]
    """Results by perturbation (CC, RC, CL, RP), for those that the data set has."""
    causal_to_surface: Estimate
    """Mean change under CC over that under RC, CL and RP."""
    consistency: ConsistencyRow | None
    """Null where the data set has no text in two languages."""


class ItemsPart(OutputPart):
    """What the items do: null where fewer than two scorers judged them."""

    difficulty: tuple[int, ...]
    """Items by the share of scorers that win them, in ten steps from 0 to 1; the first step is the hardest."""
    flags: dict[str, int]
    """How many items have each flag."""
    suspects: int
    """Items that good scorers lose and bad ones win, or whose wrong answer good scorers prefer."""
    suspicious: tuple[ItemRow, ...]
    """The worst of these sets, at most 40, the worst first."""


class Behaviour(OutputPart):
    """How scorers behave apart from being right, on the sets that count for a culture."""

    bias: JudgeBias
    calibration: tuple[MarginRow, ...]
    """What the lead of the first answer says of being right, over all sets and by culture, with risk and coverage."""


class Downstream(Correlation):
    """How well benchmark scores predict downstream results."""

    file: str
    points: dict[str, tuple[float, float]]
    """Benchmark and downstream result by scorer."""


class RunPart(OutputPart):
    """A run that went into the report."""

    folder: str
    created: datetime
    command: tuple[str, ...]
    seed: int
    window: int
    python: str
    versions: dict[str, str]
    machine: Machine


class ReferencePart(OutputPart):
    """A result that comes with this program, computed on the sets that it shares with these runs."""

    name: str
    spec: ScorerSpec
    created: datetime
    command: tuple[str, ...]
    data: tuple[str, ...]
    """What its run scored; these sets may be a part of that."""
    sets: int
    """Sets that it shares with these runs, mirrors included."""
    accuracy: Cell
    """Accuracy over those of these sets that are not mirrors."""
    shared: Cell
    by_domain: dict[str, Cell]
    """Accuracy in each domain."""
    families: FamilyRow | None
    """The same over their mirrored families; null where there are none."""
    yours: Cell | None
    """The best model of these runs on the same sets; null where they are all sets of these runs."""


class Report(Output):
    """The content of ``report.json``."""

    schema_: Literal["carb.report/1"] = Field(default="carb.report/1", alias="schema")
    confidence: float
    verdict: str = ""
    """What was found, in sentences that survive being quoted."""
    dataset: DatasetPart
    scorers: dict[str, ScorerPart]
    """Scorers by name, the best first."""
    pairs: tuple[PairRow, ...]
    floor: SurfaceFloor | None
    """How far the surface alone gets, over all sets and in each culture, and the test of each scorer against it."""
    families: FamilyReport | None
    """Accuracy over mirrored families, over all of them and by domain; null where the data set has none."""
    items: ItemsPart | None
    """What each item does; null with a single scorer."""
    behaviour: Behaviour
    validity: Downstream | None
    runs: tuple[RunPart, ...]
    references: tuple[ReferencePart, ...] = ()
    """Results that come with this program; those on the most sets first."""

    def plain(self) -> dict[str, Any]:
        """The report in the form of ``report.json``."""
        return self.model_dump(mode="json")
