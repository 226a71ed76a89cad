"""The contract of a scorer: texts in, numbers out, and no sight of which response is right."""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Annotated, Protocol, Self, runtime_checkable

from pydantic import (
    AfterValidator,
    Field,
    FiniteFloat,
    JsonValue,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    model_validator,
)

from carb_data import UNSPECIFIED, Conversation, Frozen


def _writable(text: str) -> str:
    """Half a surrogate pair, which models and servers do produce, cannot be written as UTF-8."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


Writable = Annotated[str, AfterValidator(_writable)]


class ScorerSpec(Frozen):
    """Everything that a run records about a scorer, and that another run needs to repeat it."""

    name: str
    """The spec string, or any name that is unique within a run."""
    kind: str
    """``baseline``, ``classifier``, ``judge``, ``implicit``, or a third party's."""
    model: str | None = None
    revision: str | None = None
    """The resolved commit of a hub model, or a hash of local weights; never a moving name such as
    ``main``."""
    parameters: dict[str, JsonValue] = Field(default={})
    comparative: bool = True
    """Whether a candidate's score depends on the other candidates of its request.

    A perturbed text is then scored in the place of its original, in a request of its own. Scorers
    that rate each candidate on its own say ``False``, and get all texts of an item in one request.
    """
    in_flight: PositiveInt | None = Field(default=None, exclude=True)
    """How many calls may run at the same time, for a scorer with a server or engine that takes
    requests one by one. It is then given one request a call, and each result is kept as soon as it
    is there. ``None``: calls come one after the other, each with a whole window of requests, which
    is what transformers wants. Not recorded, since it changes no score."""


def told_culture(spec: ScorerSpec) -> bool:
    """Whether a scorer gets the culture of a set beside the set's own text.

    Its spec then has the parameter ``tell=culture`` (``baseline:label`` gets it by its rule), and
    every table marks its numbers.
    """
    by_rule = (spec.kind, spec.model) == ("baseline", "label")
    return by_rule or spec.parameters.get("tell") == "culture"


class Candidate(Frozen):
    """One text to score. Its id is opaque and hides its role."""

    id: str
    text: str


class ScoreRequest(Frozen):
    """One item to score. No role, no label, no generator: a scorer cannot see which response is
    right."""

    request_id: str
    """Opaque, and unique within a call; it names neither the item nor its place. An item may have
    several requests."""
    prompt: str | Conversation
    """One text, or turns of which the last is the user's; kept as turns down to a model's chat
    template."""
    candidates: Annotated[tuple[Candidate, ...], Field(min_length=1)]
    """The candidates in the presented order, which is random and seeded."""
    culture: str
    """Id of the culture that the prompt is about, or ``UNSPECIFIED``. Scorers that are not
    ``told_culture`` never learn a data set's."""
    language: str
    """BCP 47 tag of the prompt's language, or ``UNDETERMINED``."""

    @property
    def named_culture(self) -> str | None:
        """The culture; ``None`` where it is not given."""
        if self.culture == UNSPECIFIED:
            return None
        return self.culture

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Self:
        ids = {candidate.id for candidate in self.candidates}
        if len(ids) != len(self.candidates):
            raise ValueError(f"request '{self.request_id}': candidate ids must be unique")
        return self


class Usage(Frozen):
    """The cost of a result."""

    input_tokens: NonNegativeInt = 0
    output_tokens: NonNegativeInt = 0
    requests: NonNegativeInt = 0
    """Calls of a remote server, retries included."""
    served: tuple[str, ...] = ()
    """Names and fingerprints that a server reported with its answers."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            requests=self.requests + other.requests,
            served=tuple(sorted({*self.served, *other.served})),
        )


before_call: ContextVar[Callable[[], None]] = ContextVar("before_call", default=lambda: None)
"""Called before each call of a remote server. A run counts them, so that it knows those whose
outcome a kill loses."""
TRANSPORT = frozenset({"connection", "http", "timeout"})
"""Kinds of errors that mean that a server gave no answer, whatever the request."""


class ScoreError(Frozen):
    """Why an item has no score."""

    kind: str
    """A short stable word to count by: ``parse``, ``too-long``, ``non-finite``, ``http``,
    ``timeout``, ..."""
    message: Writable


class Presentation(Frozen):
    """The outcome of one order in which a judge saw the candidates."""

    order: tuple[str, ...]
    """Candidate ids as presented."""
    scores: dict[str, FiniteFloat]


class ScoreResult(Frozen):
    """A score or an error for every candidate of a request, or the reason why there is no score at
    all."""

    request_id: str
    scores: dict[str, FiniteFloat] = Field(default={})
    """Candidate id to score; higher is better."""
    errors: dict[str, ScoreError] = Field(default={})
    """Candidate id to the reason why it has no score, where others have one. Only a scorer that
    rates each candidate on its own (``ScorerSpec.comparative`` is false) may give them."""
    rationale: Writable | None = None
    """The text of a generative judge."""
    usage: Usage | None = None
    presentations: tuple[Presentation, ...] = ()
    """The outcome of each order, where a judge was shown several."""
    label_mass: NonNegativeFloat | None = None
    """The smallest share of the probability that the allowed answers held together, where a judge's
    probabilities were read; ``None`` where nothing was read, or the backend does not say."""
    error: ScoreError | None = None
    """Why no candidate has a score."""

    @model_validator(mode="after")
    def _scores_or_error(self) -> Self:
        if bool(self.scores) == (self.error is not None):
            raise ValueError(f"result '{self.request_id}' must hold either scores or an error")
        has_both = self.error is not None or self.errors.keys() & self.scores.keys()
        if self.errors and has_both:
            raise ValueError(
                f"result '{self.request_id}' must hold one of score and error for each candidate"
            )
        return self

    @property
    def complete(self) -> bool:
        """Whether every candidate has a score."""
        return self.error is None and not self.errors

    def error_of(self, candidate: str) -> ScoreError | None:
        """Why a candidate has no score; ``None`` where it has one."""
        return self.error or self.errors.get(candidate)


Requests = Sequence[ScoreRequest]
Results = Sequence[ScoreResult]


@runtime_checkable
class Scorer(Protocol):
    """A reward model of any kind.

    A score depends on its own request alone: not on batch size, neighbours, order or padding.

    ``spec.in_flight`` says how it is called: whole windows of requests, or one request a call.
    """

    spec: ScorerSpec

    async def score(self, requests: Sequence[ScoreRequest]) -> Sequence[ScoreResult]:
        """One result for each request, in the same order. A failed item is an error row, never an
        exception."""
        ...

    async def aclose(self) -> None:
        """Give back memory, processes and connections. May be called more than once."""
        ...


def failed(
    request: ScoreRequest, kind: str, message: str, usage: Usage | None = None
) -> ScoreResult:
    """The error row of a request."""
    return ScoreResult(
        request_id=request.request_id, error=ScoreError(kind=kind, message=message), usage=usage
    )
