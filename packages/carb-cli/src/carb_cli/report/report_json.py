"""The content of a report, as ``report.json`` has it. Data alone: what shows it imports it, never
the other way."""

from typing import Literal

from pydantic import Field

from carb_data import Frozen, HomeLine
from carb_metrics import Cell, FamilyReport, HumanLine, Interval, JudgeBias, SurfaceFloor
from carb_metrics.rows import (
    ConsistencyRow,
    Failures,
    ItemAnalysis,
    JudgedRow,
    KindRow,
    MarginRow,
    PairRow,
    PlaceComparison,
    RankRow,
)
from carb_scorers import RunRecord, ScorerSpec, Usage, told_culture

Cells = dict[str, Cell]
"""Cells by group; keys of two columns are joined by ``/``."""


def mark_of(spec: ScorerSpec) -> str:
    """The mark of a scorer that learns more than the set's own text; empty for most."""
    if "facts" in spec.parameters:
        return "control: shown facts"
    if told_culture(spec):
        return "told the culture"
    return ""


def marked(name: str, spec: ScorerSpec) -> str:
    """A scorer's name with its mark."""
    mark = mark_of(spec)
    return f"{name} ({mark})" if mark else name


class DatasetPart(Frozen):
    """The data set."""

    names: tuple[str, ...]
    fingerprint: str
    sets: int
    """All sets that were scored."""
    mirrors: int
    """Number of these sets that are about other places; they count for families alone."""
    origins: int
    """Independent groups of sets: those that share a source item, family, fact or near-copy."""
    copies: int
    """Sets that are copies or near-copies of sets from another source item."""
    responses: int
    chance: float | None
    """Accuracy of a random pick without ties: the mean of 1/N."""
    cultures: dict[str, int]
    """Sets of each culture, as the sets name it."""
    domains: dict[str, int]
    kinds: dict[str, int]
    """Sets of each kind of fact; empty where no set says its kind."""
    languages: dict[str, int]
    sources: dict[str, int]
    licenses: dict[str, int]
    methods: dict[str, int]
    """How the sets were made: ``human-vote``, ``authored``, ``generated``."""


class ScorerPart(Frozen):
    """The results of one scorer."""

    spec: ScorerSpec
    told: bool = False
    """Whether it was told the culture of a set beside the set's own text (``told_culture``)."""
    usage: Usage
    cost: float | None
    label_mass: float | None = None
    """Median probability that the allowed answers hold together, where a judge's probabilities are
    read."""
    doubt: str = ""
    """Why its numbers may not be what they seem (``ScorerRecord.doubt``)."""
    overall: Cell
    """Over the main sets, each with the same weight: the headline."""
    macro: Cell
    """Every culture × domain weighs the same."""
    rank: RankRow
    by_culture: Cells
    by_domain: Cells
    by_culture_domain: Cells
    by_resource_class: Cells
    by_family: Cells
    by_script: Cells
    by_kind: Cells
    """By kind of fact; empty where no set says its kind."""
    perturbation: dict[str, KindRow] = Field(default={})
    """Results by perturbation (CC, RC, CL, RP), for those that the data set has."""
    causal_to_surface: Interval = Interval()
    """Mean change under CC over that under RC, CL and RP."""
    consistency: ConsistencyRow

    @property
    def kind(self) -> str:
        """The kind of its spec; a scorer that is shown facts of a bank is a control."""
        if self.control:
            return "open-book control"
        return self.spec.kind

    @property
    def control(self) -> bool:
        """Whether it was shown facts of a bank; a control has no rank."""
        return "facts" in self.spec.parameters

    @property
    def mark(self) -> str:
        """The note beside its name in every table; empty for most."""
        return mark_of(self.spec)

    @property
    def failed(self) -> bool:
        """Whether every set failed, so that nothing is known of the scorer."""
        return self.overall.errors == self.overall.n


class JudgesPart(Frozen):
    """How scorers behave apart from being right, on the main sets."""

    bias: JudgeBias
    bias_by_culture: dict[str, JudgeBias]
    """The same of the sets about each root culture."""
    calibration: tuple[MarginRow, ...]
    """How well the margin of the first answer over the second predicts a right pick."""


class PeoplePart(Frozen):
    """Native speakers' answers about the key. Without a review everything is empty."""

    line: HumanLine | None = None
    """How often they pick the key, where `carb review apply` made this data set."""
    groups: dict[str, HumanLine] = Field(default={})
    """The same for a culture (``thai/``) or a domain (``/values``)."""
    cultures: int = 0
    """Cultures with an answer."""
    whole: bool = False
    """True where these runs scored a part of the reviewed data set: the lines are of all its
    sets."""
    scorers: tuple[JudgedRow, ...] = ()
    """Each scorer's picks beside those of people, and people's beside each other's."""


class Report(Frozen):
    """The content of ``report.json``. The version of its form is raised when a key changes its
    meaning or goes."""

    schema_: Literal["carb.report/1"] = Field(default="carb.report/1", alias="schema")
    confidence: float
    verdict: str = ""
    """The results, in sentences that can be quoted alone."""
    dataset: DatasetPart
    scorers: dict[str, ScorerPart]
    """Scorers by name, the best first."""
    families: FamilyReport | None
    """Place win rate and row accuracy of mirrored families: over all of them, by domain and by kind
    of fact. Null where the data set has none."""
    shared_words: Interval | None = None
    """Place win rate of ``baseline:overlap``, always computed: a scorer reads the place only above
    it."""
    place_gap: dict[str, PlaceComparison | None] = Field(default={})
    """By scorer: the place win rate where the question names the place (a), where cues imply it
    (b), and their difference. Null for a scorer that is told the culture. Empty where no family was
    scored in both wordings."""
    ranked_by: Literal["place_win", "accuracy"] = "accuracy"
    """The measure of ranks, and of the order of scorers and pairs."""
    pairs: tuple[PairRow, ...]
    home_line: HomeLine | None = None
    """The share that "always the home's answer" gets right without the question, over the main
    sets; null where answers do not say where they are right."""
    home_by: dict[str, dict[str, HomeLine]] = Field(default={})
    """The home line of each group, by the columns of the cells: ``home_by["culture"]["thai"]``, and
    ``home_by["culture_domain"]["thai/values"]``."""
    floor: SurfaceFloor | None
    """How far the surface alone gets, over all sets and in each culture, and the test of each
    scorer against it. None is above that is not above the home line as well."""
    failures: Failures | None
    """What all good scorers miss, and whose answer they take; null where no scorer is good."""
    items: ItemAnalysis | None
    """What the items do that are to be read first, at most 40; null with a single scorer."""
    judges: JudgesPart
    people: PeoplePart
    runs: tuple[RunRecord, ...]
    """The facts needed to repeat the runs, as ``run.json`` records them."""

    @property
    def models(self) -> list[str]:
        """The scorers that are no baselines and no controls; all of them where there is no
        model."""
        models = [
            name
            for name, part in self.scorers.items()
            if part.spec.kind != "baseline" and not part.control
        ]
        return models or list(self.scorers)
