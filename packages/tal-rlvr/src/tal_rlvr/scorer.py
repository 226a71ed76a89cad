"""A trained judge as a scorer: criteria and verdicts over all pairs in both orders, aggregated."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import anyio.to_thread
from pydantic import Field, ValidationError

from carb_data import CarbError
from carb_data.models import Frozen
from carb_scorers.contract import Scorer, ScoreRequest, ScoreResult, ScorerSpec, Usage, failed
from carb_scorers.models.transformers.loading import HFOptions, Loaded, load
from carb_scorers.specs import Options, read_options
from tal_rlvr.appropriateness import VerdictRow, label_logprob
from tal_rlvr.bradley_terry import bradley_terry
from tal_rlvr.generation import Written, write
from tal_rlvr.judgement import FormatError, Judgement, parse_judgement
from tal_rlvr.prompting import PromptConfig
from tal_rlvr.prompts import render_prompt
from tal_rlvr.providers import ModelVerdicts
from tal_rlvr.tokens import encode_prompt, is_chat, make_prompt, reasoning_ids, verdict_tokens

THINK = "think.json"
Order = tuple[str, str]
"""Candidate ids of a pair as shown, A first."""


class ThinkSettings(Frozen):
    """``think.json``, which training writes beside a model."""

    prompts: PromptConfig = PromptConfig()
    direct: bool = False
    max_new_tokens: int = Field(default=512, ge=1)


class ThinkOptions(Options):
    """Options of ``think:MODEL``. What is not given is taken from ``think.json`` beside the model."""

    backend: Literal["hf"] = "hf"
    revision: str | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: str = "auto"
    attention: str = "sdpa"
    batch_tokens: int = Field(default=8192, ge=1)
    """Padded tokens of prompt and output in one batch; bounds memory."""
    max_length: int | None = Field(default=None, ge=1)
    """Longest prompt and output together, in tokens. Default: what the model's configuration allows."""
    trust_remote_code: bool = False
    read: Literal["logprob", "verdict"] = "logprob"
    """``logprob``: a pair counts by the verdict's probability after the criteria; ``verdict``: by the verdict."""
    pairs: Literal["all", "knockout"] = "all"
    """``knockout``: neighbours meet and winners go on, so that N candidates need N - 1 pairs."""
    max_new_tokens: int | None = Field(default=None, ge=1)
    language: str | None = None
    style: str | None = None
    chat: Literal["auto", "yes", "no"] | None = None

    def loading(self) -> HFOptions:
        """The part that says how the model is loaded."""
        names = ("revision", "dtype", "device", "attention", "max_length", "trust_remote_code")
        return HFOptions.model_validate({name: getattr(self, name) for name in names})


class ThinkScorer:
    """Scores are Bradley-Terry log-strengths of the candidates of a request (natural logarithms that sum to 0).

    Every pair, or every pair of a knockout, is judged in both orders with greedy decoding. An output that is not a
    judgement is left out; a pair without a judgement in either order makes the item an error row. In a knockout a
    candidate without an opponent goes on, and so does the first of two who are even.
    """

    def __init__(self, spec: ScorerSpec, loaded: Loaded, options: ThinkOptions, settings: ThinkSettings) -> None:
        self.spec = spec
        self._loaded: Loaded | None = loaded
        self._options = options
        self._settings = settings
        self._tokens = verdict_tokens(loaded.tokenizer)

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        """Judge each request by itself; one that fails is an error row."""
        return await anyio.to_thread.run_sync(self._score, requests)

    async def aclose(self) -> None:
        """Let the model go."""
        self._loaded = None

    def _score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        if self._loaded is None:
            raise CarbError(f"The scorer '{self.spec.name}' was closed.")
        return [self._score_one(request, self._loaded) for request in requests]

    def _score_one(self, request: ScoreRequest, loaded: Loaded) -> ScoreResult:
        """Each request has passes of its own, so that nothing beside it can change even a rounding."""
        ids = [candidate.id for candidate in request.candidates]
        room = loaded.max_length - self._settings.max_new_tokens
        written: dict[Order, Written] = {}
        wins: dict[Order, float] = {}
        usage = Usage()
        left = ids
        while len(left) > 1:
            knockout = self._options.pairs == "knockout"
            pairs = list(zip(left[::2], left[1::2], strict=False)) if knockout else list(combinations(left, 2))
            prompts = {order: self._prompt(request, *order) for a, b in pairs for order in ((a, b), (b, a))}
            longest = max(map(len, prompts.values()))
            if longest > room:
                return failed(
                    request, "too-long", f"a prompt has {longest} tokens, and {room} fit beside the output", usage
                )
            outputs = write(
                loaded.model,
                loaded.tokenizer,
                list(prompts.values()),
                max_new_tokens=self._settings.max_new_tokens,
                budget=self._options.batch_tokens,
            )
            new = dict(zip(prompts, outputs, strict=True))
            written |= new
            read, wrote = sum(map(len, prompts.values())), sum(len(output.ids) for output in outputs)
            usage += Usage(input_tokens=read, output_tokens=wrote)
            for (first, second), chance in self._first_wins(prompts, new, loaded).items():
                if math.isnan(chance):
                    return failed(request, "non-finite", "the model gave NaN", usage)
                wins[first, second] = wins.get((first, second), 0.0) + chance
                wins[second, first] = wins.get((second, first), 0.0) + 1 - chance
            unjudged = [pair for pair in pairs if pair not in wins]
            if unjudged:
                error = parse_judgement(new[unjudged[0]].text, direct=self._settings.direct)
                why = error.message if isinstance(error, FormatError) else "not a judgement"
                return failed(
                    request, "parse", f"{len(unjudged)} of the pairs have no judgement; the first: {why}", usage
                )
            winners = [a if wins[a, b] >= wins[b, a] else b for a, b in pairs]
            left = [*winners, *left[2 * len(pairs) :]] if knockout else []
        rationale = "\n\n".join(f"A = {a}, B = {b}\n{output.text.strip()}" for (a, b), output in written.items())
        return ScoreResult(
            request_id=request.request_id, scores=bradley_terry(ids, wins), rationale=rationale, usage=usage
        )

    def _prompt(self, request: ScoreRequest, first: str, second: str) -> tuple[int, ...]:
        assert self._loaded is not None
        tokenizer = self._loaded.tokenizer
        texts = {candidate.id: candidate.text for candidate in request.candidates}
        prompts = self._settings.prompts
        messages = render_prompt(
            request,
            (texts[first], texts[second]),
            request.culture,
            prompts.language,
            form="direct" if self._settings.direct else "think",
            folder=prompts.folder(),
        )
        return tuple(
            encode_prompt(tokenizer, make_prompt(tokenizer, messages, chat=prompts.is_chat(is_chat(tokenizer))))
        )

    def _first_wins(
        self, prompts: Mapping[Order, tuple[int, ...]], written: Mapping[Order, Written], loaded: Loaded
    ) -> dict[Order, float]:
        """How far the first-shown response won each order, 0 to 1; outputs that are no judgement are left out."""
        direct = self._settings.direct
        judgements = {order: parse_judgement(output.text, direct=direct) for order, output in written.items()}
        parsed = {order: found for order, found in judgements.items() if isinstance(found, Judgement)}
        if self._options.read == "verdict":
            return {order: float(judgement.verdict == "A") for order, judgement in parsed.items()}
        rows = [
            VerdictRow(prompts[order], reasoning_ids(loaded.tokenizer, written[order].ids, self._tokens, direct=direct))
            for order in parsed
        ]
        values = ModelVerdicts(loaded.model, self._tokens)(rows)
        return {order: math.exp(label_logprob(value, "A")) for order, value in zip(parsed, values, strict=True)}


def read_think_settings(target: str) -> ThinkSettings:
    """``think.json`` beside a model, or the defaults where there is none.

    Raises:
        CarbError: the file is broken.
    """
    path = Path(target).expanduser() / THINK
    if not path.is_file():
        return ThinkSettings()
    try:
        return ThinkSettings.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, ValidationError) as error:
        raise CarbError(f"{path} is not valid: {error}. Remove it, or write it anew by training.") from None


def open_think(name: str, target: str, options: Mapping[str, str]) -> Scorer:
    """Open ``think:MODEL``: a model trained by ``carb train``, or any causal language model that follows the form."""
    read = read_options(ThinkOptions, name, options)
    settings = read_think_settings(target)
    prompts = {key: getattr(read, key) for key in ("language", "style", "chat") if getattr(read, key) is not None}
    settings = ThinkSettings(
        prompts=PromptConfig.model_validate({**settings.prompts.model_dump(), **prompts}),
        direct=settings.direct,
        max_new_tokens=read.max_new_tokens or settings.max_new_tokens,
    )
    return open_with(name, target, read, settings)


def open_with(name: str, target: str, read: ThinkOptions, settings: ThinkSettings) -> Scorer:
    """Open a model under these settings, whatever lies beside it."""
    loaded = load(target, read.loading(), "AutoModelForCausalLM")
    spec = ScorerSpec(
        name=name,
        kind="think",
        model=target,
        revision=loaded.revision,
        parameters={**read.model_dump(exclude={"revision"}), **settings.model_dump(mode="json")},
        comparative=True,
        in_flight=1,  # a request has passes of its own and takes seconds, so each is asked for, and kept, alone
    )
    return ThinkScorer(spec, loaded, read, settings)


def judge_as_scorer(checkpoint: str | Path, *, name: str | None = None, **options: Any) -> Scorer:
    """A trained Think-as-Locals model as a scorer like any other.

    Args:
        checkpoint: folder of the model (``result.model`` of a run), or a hub id.
        name: how it is called in tables; default ``think:CHECKPOINT``.
        options: see ``ThinkOptions``.

    Raises:
        CarbError: the model or an option is not usable.
    """
    return open_think(name or f"think:{checkpoint}", str(checkpoint), {key: str(v) for key, v in options.items()})
