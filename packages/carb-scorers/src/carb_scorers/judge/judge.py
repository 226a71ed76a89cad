"""The judge: a generative model as a scorer, its options, and its forms of judging."""

import hashlib
import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, product
from typing import Literal

from pydantic import Field, PositiveInt, model_validator

from carb_data import CarbError, Frozen
from carb_scorers.judge.form import Mode, read_form
from carb_scorers.judge.order_and_prompt import (
    LETTERS,
    Ask,
    Asker,
    Orders,
    read_words,
    shown_orders,
)
from carb_scorers.judge.reading import Read, read_probabilities, read_verdicts
from carb_scorers.known import resolved
from carb_scorers.models.protocol import (
    Failure,
    LanguageModel,
    NonNegative,
    Prompt,
    Writing,
    read_backend_options,
    spec_of,
)
from carb_scorers.scorer import (
    Candidate,
    Presentation,
    ScoreError,
    Scorer,
    ScoreRequest,
    ScoreResult,
    ScorerSpec,
    Usage,
    failed,
)
from carb_scorers.spec import Kind, Options, Planned


class JudgeOptions(Frozen):
    """Options of ``judge:MODEL``, besides those of its backend."""

    backend: str = "hf"
    """Where the model runs: ``hf`` (transformers in this process), ``vllm`` or ``openai`` (a
    server)."""
    mode: Mode = "listwise"
    """The candidates in one prompt: all (``listwise``), two (``pairwise``) or one
    (``pointwise``)."""
    read: Literal["logprob", "generate"] = "logprob"
    """``logprob``: the probability of each allowed answer is read from one forward pass.
    ``generate``: the model writes, and its verdict is found in the text."""
    orders: Orders | None = None
    """The orders in which candidates (for ``pointwise``, the scale) are shown: ``one``, as given;
    ``both``, also reversed; ``rotated``, every candidate in every position. The default is ``both``
    for pairs and ``one`` otherwise. Every presentation is recorded."""
    form: str = "plain"
    """The prompt and the rule that finds its verdict: the name of a shipped form (``carb models``),
    or the path of a form file. With ``tell=culture`` the default is ``culture``."""
    tell: Literal["nothing", "culture"] = "nothing"
    """Information in the prompt beside the set's own text: ``nothing``, or the name of its
    ``culture`` where the form has a place for it. Tables mark a judge that gets the culture."""
    prompt_language: str = "en"
    """Language of the instructions (BCP 47), or ``item`` for the language of each item. Only the
    forms ``culture`` and ``plain`` are translated."""
    max_tokens: PositiveInt = 512
    """Longest answer in tokens with ``read=generate``."""
    temperature: NonNegative = 0.0
    """Sampling temperature with ``read=generate``; 0 takes the most probable token."""
    seed: int = 0
    """Seed of sampling, where the temperature is above 0."""
    least_mass: float = Field(default=0.01, ge=0.0, le=1.0)
    """Share of the probability that the allowed answers must hold together with ``read=logprob``.
    Below it the model does not answer at that place, and the request becomes an error row. The
    smallest share is in each result."""

    @model_validator(mode="before")
    @classmethod
    def _form_that_tells(cls, given: Mapping[str, object]) -> Mapping[str, object]:
        return {"form": default_form(given), **given}


def default_form(given: Mapping[str, object]) -> str:
    """The form of a judge whose options name none."""
    if given.get("tell") == "culture":
        return "culture"
    return "plain"


@dataclass(frozen=True)
class Form:
    """A way of judging."""

    asks: Callable[[ScoreRequest], list[Ask]]
    """The prompts that an item needs."""
    read: Callable[[LanguageModel, Sequence[Ask]], Awaitable[Sequence[Read | Failure]]]
    """Asks the model, and reads its replies."""


class JudgeScorer:
    """A generative judge of any form over any backend.

    Scores are comparable within an item alone, except for pointwise ratings.
    """

    def __init__(self, spec: ScorerSpec, model: LanguageModel, form: Form) -> None:
        self.spec = spec
        self._model = model
        self._form = form

    async def aclose(self) -> None:
        """Close the backend."""
        await self._model.aclose()

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        """See ``Scorer``. All prompts of all requests are asked at once."""
        asked: list[list[Ask]] = []
        for number, request in enumerate(requests):
            asked.append([])
            for ask in self._form.asks(request):
                prompt = replace(ask.prompt, group=number)
                asked[-1].append(replace(ask, prompt=prompt))
        every = list(chain.from_iterable(asked))
        answers = iter(await self._form.read(self._model, every))
        results = []
        for request, asks in zip(requests, asked, strict=True):
            answered = [(ask, next(answers)) for ask in asks]
            results.append(_result(request, answered))
        return results


Answered = Sequence[tuple[Ask, Read | Failure]]


def _result(request: ScoreRequest, answered: Answered) -> ScoreResult:
    """The result of the answers about an item."""
    ids = [candidate.id for candidate in request.candidates]
    usage = sum((answer.usage for _, answer in answered), Usage())
    errors = _errors(ids, answered)
    if errors and len(errors) == len(ids):
        first = next(iter(errors.values()))
        return failed(request, first.kind, first.message, usage)
    presentations = []
    texts = []
    masses = []
    for ask, read in answered:
        if isinstance(read, Failure) or not errors.keys().isdisjoint(ask.order):
            continue
        values = dict(zip(ask.order, read.values, strict=True))
        presentations.append(Presentation(order=ask.order, scores=values))
        if read.text:
            texts.append(f"{ask.note}{read.text}")
        if read.mass is not None:
            masses.append(read.mass)
    scores = {key: _mean(key, presentations) for key in ids if key not in errors}
    alone = all(len(shown.order) == 1 for shown in presentations)
    if alone and len(presentations) == len(scores):
        presentations = []  # each says what the scores say
    return ScoreResult(
        request_id=request.request_id,
        scores=scores,
        errors=errors,
        rationale="\n\n".join(texts) or None,
        usage=usage,
        presentations=tuple(presentations),
        label_mass=min(masses, default=None),
    )


def _errors(ids: Sequence[str], answered: Answered) -> dict[str, ScoreError]:
    """The candidates without a score. One that is always shown alone fails alone. Where one order
    of several is missing, the rest would count a preference for a position as a verdict."""
    errors: dict[str, ScoreError] = {}
    for ask, answer in answered:
        if isinstance(answer, Failure):
            failed_ids = ask.order if len(ask.order) == 1 else ids
            for key in failed_ids:
                errors.setdefault(key, answer.error)
    return errors


def _mean(key: str, presentations: Sequence[Presentation]) -> float:
    """A candidate's mean over the presentations that show it; over pairs, the share of them that it
    won.

    Every two are compared equally often. So the shares rank them as the strengths of Bradley and
    Terry would (Ford 1957, "Solution of a Ranking Problem from Binary Comparisons", American
    Mathematical Monthly 64). The sum is exact: candidates that won the same shares, in whatever
    order, have the same score.
    """
    shares = [shown.scores[key] for shown in presentations if key in shown.scores]
    if not shares:
        return 0.0
    return math.fsum(shares) / len(shares)


def form_of(options: JudgeOptions) -> Form:
    """The form that a judge's options describe.

    Raises:
        CarbError: there is no such form, or it does not have what the options ask for.
    """
    asker = _asker(options)
    mode = options.mode
    wording = asker.wording
    reads = options.read == "logprob"
    writing = Writing(options.max_tokens, options.temperature, options.seed)

    orders = options.orders or ("both" if mode == "pairwise" else "one")
    # Nothing stands beside a candidate alone; what can be shown in both orders is the scale of
    # ratings.
    scales: tuple[bool, ...] = (False,)
    if mode == "pointwise" and orders != "one":
        scales = (False, True)

    def asks(request: ScoreRequest) -> list[Ask]:
        texts = {candidate.id: candidate.text for candidate in request.candidates}
        asked = []
        for order, falling in product(shown_orders(tuple(texts), mode, orders), scales):
            labels = tuple(wording.ratings)
            if mode != "pointwise":
                labels = tuple(LETTERS[: len(order)])
            shown = [texts[key] for key in order]
            prompt = asker.ask(request, shown, reads=reads, falling=falling)
            asked.append(Ask(order, prompt, labels))
        return asked

    if reads:
        least = options.least_mass
        return Form(asks, partial(read_probabilities, mode=mode, wording=wording, least_mass=least))
    return Form(asks, partial(read_verdicts, mode=mode, wording=wording, writing=writing))


def _asker(options: JudgeOptions) -> Asker:
    form = read_form(options.form)
    wording = form.wording(options.mode)
    if options.read not in wording.reads:
        raise CarbError(
            f"form={options.form} is read with "
            f"{' or '.join(f'read={x}' for x in wording.reads)} alone."
        )
    return Asker(form, options.mode, options.prompt_language, options.tell == "culture")


def with_defaults(options: Options) -> dict[str, str]:
    """A judge's options, with those of its form where the user gave no others.

    Raises:
        CarbError: there is no such form.
    """
    form = read_form(options.get("form", default_form(options)))
    of_form = {name: str(value) for name, value in form.defaults.items()}
    merged = {**of_form, **options}
    mode = merged.setdefault("mode", form.modes[0])
    wording = None
    if mode in form.modes:
        wording = getattr(form, mode, None)
    if wording is not None:
        merged.setdefault("read", wording.reads[0])
    return merged


def _open_judge(name: str, target: str, options: Options) -> Scorer:
    """Open ``judge:MODEL?backend=hf&mode=listwise&read=logprob``; see ``JudgeOptions``.

    Raises:
        CarbError: an option is wrong or does not go with another, or the model cannot be opened.
    """
    read, kind = read_backend_options(JudgeOptions, name, with_defaults(options))
    try:
        asker = _asker(read)
        _check_prompts(asker, read)
    except CarbError as error:
        raise CarbError(f"Scorer '{name}': {error}") from None
    target = resolved(target, "judge")
    writes = (
        read.read == "generate"
    )  # which a model in this process does faster for a window than for one request
    model: LanguageModel = kind.open(target, read)
    hashed = _prompt_hash(asker)
    compares = read.mode != "pointwise"
    spec = spec_of(name, "judge", target, model, read, comparative=compares, prompt_sha256=hashed)
    if writes and model.in_flight == 1:
        spec = spec.changed(in_flight=None)
    return JudgeScorer(spec, model, form_of(read))


# the signature of every planner, see Kind.plan
def _plan_judge(name: str, target: str, options: Options) -> Planned:  # noqa: ARG001
    read, _ = read_backend_options(JudgeOptions, name, with_defaults(options))
    longest = 1
    if read.read == "generate":
        longest = read.max_tokens
    return planned(form_of(read), comparative=read.mode != "pointwise", longest=longest)


def planned(form: Form, *, comparative: bool, longest: int) -> Planned:
    """How a judge of a form would ask, for ``carb run --dry-run``."""

    def asks(request: ScoreRequest) -> list[list[str]]:
        conversations = [ask.prompt.messages for ask in form.asks(request)]
        return [[turn.content for turn in turns] for turns in conversations]

    return Planned(asks, comparative, longest)


open_judge = Kind(_open_judge, _plan_judge)


def _prompt_hash(asker: Asker) -> str:
    """A hash of the question and, in a language that is known from the start, of its phrases. A
    changed prompt makes another judge."""
    words = {}
    if asker.language != "item":
        words = read_words(asker.language)
    forms = [asker.form]
    if asker.form.without_culture is not None:
        forms.append(asker.form.placeless)
    asked = [form.model_dump(include={"rubric", asker.mode}) for form in forms]
    content = json.dumps([asked, words], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _check_prompts(asker: Asker, options: JudgeOptions) -> None:
    """Find a broken prompt, and a culture that no prompt would name, before a model is loaded."""
    if asker.language == "item":
        asker = replace(asker, language="en")
    texts = ["", ""]
    if options.mode == "pointwise":
        texts = [""]

    def about(culture: str) -> Prompt:
        trial = ScoreRequest(
            request_id="",
            prompt="",
            candidates=(Candidate(id="1", text=""),),
            culture=culture,
            language="en",
        )
        return asker.ask(trial, texts, reads=options.read == "logprob")

    if about("thai") == about("german") and asker.tells:
        raise CarbError(
            f"form={options.form} with mode={options.mode} has no place for a culture, so "
            "leave out tell=culture, or choose form=culture, mr3 or prometheus."
        )
