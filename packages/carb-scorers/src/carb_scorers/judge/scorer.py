"""The judge as a scorer, and its options."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from carb_data import CarbError
from carb_scorers.contract import Scorer, ScoreRequest, ScoreResult, ScorerSpec, Usage, failed
from carb_scorers.judge.asking import Asker, Mode
from carb_scorers.judge.modes import LETTERS, Ask, Outcome, Round, listwise, pairwise, pointwise
from carb_scorers.judge.reading import Read, Writing, read_probabilities, read_verdicts
from carb_scorers.models.protocol import LANGUAGE_MODELS, Failure, LanguageModel, read_backend_options
from carb_scorers.specs import Options
from carb_scorers.templates import read_template, read_words


class JudgeOptions(Options):
    """Options of ``judge:MODEL``, besides those of its backend."""

    backend: str = "hf"
    mode: Mode = "listwise"
    read: Literal["logprob", "generate"] = "logprob"
    """``logprob``: the probability of each allowed answer, from one forward pass. ``generate``: the model writes,
    and its verdict in double brackets is parsed."""
    answer: Literal["pick", "ranking"] = "pick"
    """Listwise and written: name the best candidate, or order all of them."""
    pairs: Literal["all", "knockout"] = "all"
    """Pairwise: every pair, or a knockout."""
    orders: Literal["one", "both", "rotated"] | None = None
    """In how many orders candidates (or, pointwise, the scale) are shown: as given, also reversed, or every candidate
    in every position. Default: ``both`` for pairs, else ``one``. Every presentation is recorded."""
    prompt: str = "culture"
    """``culture``, ``plain``, the name of a shipped layout, or the path of a Jinja file."""
    prompt_language: str = "en"
    """Language of the instructions, or ``item``: each item's own."""
    words: str | None = None
    """Folder of ``LANGUAGE.json`` files with instructions in further languages; see the shipped ``en.json``."""
    max_tokens: int = Field(default=512, ge=1)
    """Longest text that a writing judge may write."""
    temperature: float = Field(default=0.0, ge=0.0)
    seed: int = 0


class JudgeScorer:
    """A generative judge over any backend.

    Scores are comparable within an item alone, except for pointwise ratings.
    """

    def __init__(self, spec: ScorerSpec, model: LanguageModel, options: JudgeOptions) -> None:
        self.spec = spec
        self._model = model
        self._options = options
        self._asker = Asker(options.mode, options.prompt, options.prompt_language, options.words)

    async def aclose(self) -> None:
        """Close the backend."""
        await self._model.aclose()

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        """See ``Scorer``. An item fails as a whole where one of its prompts does, but for pointwise ratings."""
        parts = [(number, part) for number, request in enumerate(requests) for part in self._parts(request)]
        items = [(number, _Item(part, self._round(part))) for number, part in parts]
        while asking := [(number, item) for number, item in items if item.asks]:
            asks = [
                replace(ask, prompt=replace(ask.prompt, group=number)) for number, item in asking for ask in item.asks
            ]
            answers = iter(await self._read(asks))
            for _, item in asking:
                item.hear([next(answers) for _ in item.asks])
        found: list[list[ScoreResult]] = [[] for _ in requests]
        for number, item in items:
            found[number].append(item.result())
        return [_joined(request, own) for request, own in zip(requests, found, strict=True)]

    def _parts(self, request: ScoreRequest) -> list[ScoreRequest]:
        """What is asked about by itself: the item, or each candidate of a pointwise judge."""
        if self._options.mode != "pointwise":
            return [request]
        return [request.model_copy(update={"candidates": (candidate,)}) for candidate in request.candidates]

    async def _read(self, asks: Sequence[Ask]) -> list[Read | Failure]:
        if self._options.read == "logprob":
            return await read_probabilities(self._model, asks)
        options = self._options
        return await read_verdicts(self._model, asks, Writing(options.max_tokens, options.temperature, options.seed))

    def _round(self, request: ScoreRequest) -> Round:
        options, asker = self._options, self._asker
        reads = options.read == "logprob"
        if options.mode == "pairwise":
            orders, knockout = options.orders or "both", options.pairs == "knockout"
            return pairwise(request, asker, reads=reads, knockout=knockout, orders=orders)
        orders = options.orders or "one"
        if options.mode == "pointwise":
            return pointwise(request, asker, reads=reads, orders=orders)
        if len(request.candidates) > len(LETTERS):
            raise CarbError(f"A listwise judge shows at most {len(LETTERS)} candidates; use mode=pairwise.")
        return listwise(request, asker, reads=reads, ranking=options.answer == "ranking", orders=orders)


def _joined(request: ScoreRequest, parts: Sequence[ScoreResult]) -> ScoreResult:
    """One result for an item from those of its candidates."""
    if len(parts) == 1:
        return parts[0]
    usage = sum((part.usage for part in parts if part.usage is not None), Usage())
    errors = {c.id: part.error for c, part in zip(request.candidates, parts, strict=True) if part.error is not None}
    if len(errors) == len(parts):
        first = next(iter(errors.values()))
        return failed(request, first.kind, first.message, usage)
    return ScoreResult(
        request_id=request.request_id,
        scores={key: score for part in parts for key, score in part.scores.items()},
        errors=errors,
        rationale="\n\n".join(part.rationale for part in parts if part.rationale) or None,
        usage=usage,
        presentations=tuple(shown for part in parts for shown in part.presentations),
    )


class _Item:
    """An item on its way through its rounds."""

    def __init__(self, request: ScoreRequest, rounds: Round) -> None:
        self.asks: list[Ask] = []
        self._request = request
        self._rounds = rounds
        self._usage = Usage()
        self._texts: list[str] = []
        self._outcome: Outcome | None = None
        self._failure: Failure | None = None
        self._advance(None)

    def hear(self, answers: Sequence[Read | Failure]) -> None:
        """Take the answers to ``asks`` and go to the next round."""
        for answer in answers:
            self._usage += answer.usage
            if isinstance(answer, Failure):
                self._failure = self._failure or answer
            elif answer.text is not None:
                self._texts.append(answer.text)
        if self._failure is None:
            self._advance([answer.answer for answer in answers if isinstance(answer, Read)])
        else:
            self.asks = []

    def result(self) -> ScoreResult:
        if self._failure is not None:
            error = self._failure.error
            return failed(self._request, error.kind, error.message, self._usage)
        assert self._outcome is not None
        return ScoreResult(
            request_id=self._request.request_id,
            scores=self._outcome.scores,
            rationale="\n\n".join(self._texts) or None,
            usage=self._usage,
            presentations=self._outcome.presentations,
        )

    def _advance(self, answers: list[Any] | None) -> None:
        try:
            self.asks = next(self._rounds) if answers is None else self._rounds.send(answers)
        except StopIteration as stop:
            self.asks, self._outcome = [], stop.value


def open_judge(name: str, target: str, options: Mapping[str, str]) -> Scorer:
    """Open ``judge:MODEL?backend=hf&mode=listwise&read=logprob``; see ``JudgeOptions``.

    Raises:
        CarbError: an option is wrong or does not go with another, or the model cannot be opened.
    """
    read, kind = read_backend_options(JudgeOptions, LANGUAGE_MODELS, name, options)
    if read.answer == "ranking" and (read.mode != "listwise" or read.read != "generate"):
        raise CarbError(
            f"Scorer '{name}': answer=ranking needs mode=listwise&read=generate; probabilities and pairs rank all "
            f"candidates as they are."
        )
    if read.pairs == "knockout" and read.mode != "pairwise":
        raise CarbError(f"Scorer '{name}': pairs=knockout needs mode=pairwise.")
    _check_prompts(read)
    model: LanguageModel = kind.open(target, read)
    spec = ScorerSpec(
        name=name,
        kind="judge",
        model=target,
        revision=model.revision,
        parameters={**read.model_dump(mode="json", exclude={"revision"}), "prompt_sha256": _prompt_hash(read)},
        comparative=read.mode != "pointwise",
        in_flight=model.in_flight,
    )
    return JudgeScorer(spec, model, read)


def _prompt_hash(options: JudgeOptions) -> str:
    """Of the layout and, in a language that is known beforehand, of its phrases: a changed prompt is another judge."""
    asker = Asker(options.mode, options.prompt, options.prompt_language, options.words)
    words = {} if options.prompt_language == "item" else read_words(options.prompt_language, options.words)
    content = json.dumps([read_template(asker.layout), words], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _check_prompts(options: JudgeOptions) -> None:
    """Find a broken prompt before a model is loaded."""
    language = "en" if options.prompt_language == "item" else options.prompt_language
    trial = ScoreRequest.model_validate(
        {
            "request_id": "",
            "prompt": "",
            "candidates": [{"id": "1", "text": ""}],
            "culture": "english",
            "language": "en",
        }
    )
    asker = Asker(options.mode, options.prompt, language, options.words)
    asker.ask(
        trial, [""] * (1 if options.mode == "pointwise" else 2), "A" if options.mode == "pointwise" else "AB", "letter"
    )
