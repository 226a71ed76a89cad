"""Generative judges: a language model that says which answer is right."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import anyio.to_thread

from carb_data import CarbError, cultures
from carb_scorers.contract import Presentation, Scorer, ScoreRequest, ScoreResult, ScorerSpec, Usage, failed
from carb_scorers.hf.forward import next_token_logits
from carb_scorers.hf.loading import HFOptions, Loaded, load
from carb_scorers.specs import read_options
from carb_scorers.templates import chat_prefix, fill, plain_prefix

LETTERS = string.ascii_uppercase


class JudgeOptions(HFOptions):
    """Options of ``judge:MODEL``."""

    mode: Literal["listwise"] = "listwise"
    read: Literal["logprob"] = "logprob"
    prompt: str | None = None
    """Name of a shipped prompt or path of a Jinja file; default ``listwise-culture``."""
    orders: Literal["one", "rotated"] = "one"
    """``rotated``: show every candidate once in each position and average, which cancels position bias."""


class ListwiseLogprobJudge:
    """Shows all candidates at once and reads the probability of each letter from one forward pass.

    A score is the log-probability of the candidate's letter among the letters shown (natural logarithm, at most
    0), averaged over the orders shown.
    """

    def __init__(self, spec: ScorerSpec, loaded: Loaded, options: JudgeOptions) -> None:
        self.spec = spec
        self._loaded: Loaded | None = loaded
        self._options = options
        self._prompt = options.prompt or "listwise-culture"
        fill(self._prompt, {"prompt": "", "culture": "", "language": "", "candidates": []})

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        return await anyio.to_thread.run_sync(self._score, requests)

    async def aclose(self) -> None:
        self._loaded = None

    def _score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        if self._loaded is None:
            raise CarbError(f"The scorer '{self.spec.name}' was closed.")
        loaded = self._loaded
        shown = [(request, order) for request in requests for order in self._orders(request)]
        encoded = [_render(loaded.tokenizer, self._prompt, request, order) for request, order in shown]
        letters = letter_tokens(loaded.tokenizer, max((len(r.candidates) for r in requests), default=0))
        fitting = [i for i, row in enumerate(encoded) if len(row) <= loaded.max_tokens]
        logits = next_token_logits(loaded.model, [encoded[i] for i in fitting], letters, self._options.batch_tokens)
        by_row = dict(zip(fitting, logits.double(), strict=True))
        results = []
        row = 0
        for request in requests:
            presentations: list[Presentation] = []
            problem: tuple[str, str] | None = None
            tokens = 0
            for order in self._orders(request):
                tokens += len(encoded[row])
                if row not in by_row:
                    problem = "too-long", f"{len(encoded[row])} tokens, the model takes {loaded.max_tokens}"
                elif not by_row[row].isfinite().all():
                    problem = "non-finite", "the model gave NaN or infinity"
                else:
                    logprobs = by_row[row][: len(order)].log_softmax(-1).tolist()
                    presentations.append(Presentation(order=order, scores=dict(zip(order, logprobs, strict=True))))
                row += 1
            usage = Usage(input_tokens=tokens)
            results.append(
                _average(request, presentations, usage) if problem is None else failed(request, *problem, usage)
            )
        return results

    def _orders(self, request: ScoreRequest) -> list[tuple[str, ...]]:
        ids = tuple(candidate.id for candidate in request.candidates)
        turns = range(len(ids)) if self._options.orders == "rotated" else range(1)
        return [ids[turn:] + ids[:turn] for turn in turns]


def _average(request: ScoreRequest, presentations: Sequence[Presentation], usage: Usage) -> ScoreResult:
    scores = {c.id: sum(p.scores[c.id] for p in presentations) / len(presentations) for c in request.candidates}
    return ScoreResult(item_id=request.item_id, scores=scores, usage=usage, presentations=tuple(presentations))


def _render(tokenizer: Any, prompt: str, request: ScoreRequest, order: Sequence[str]) -> list[int]:
    texts = {candidate.id: candidate.text for candidate in request.candidates}
    fields = {
        "prompt": request.prompt,
        "culture": cultures[request.culture].name if request.culture in cultures else request.culture,
        "language": request.language,
        "candidates": [{"letter": LETTERS[i], "text": texts[key]} for i, key in enumerate(order)],
    }
    text = fill(prompt, fields)
    if tokenizer.chat_template:
        return chat_prefix(tokenizer, [{"role": "user", "content": text}])
    return plain_prefix(tokenizer, text + "\n\nAnswer:")


def letter_tokens(tokenizer: Any, count: int) -> list[int]:
    """The token of each answer letter as it follows the prompt: bare for chat models, after a space for base models.

    Raises:
        CarbError: there are more candidates than letters, or the tokenizer splits a letter.
    """
    if count > len(LETTERS):
        raise CarbError(f"A listwise judge takes at most {len(LETTERS)} candidates, got {count}.")
    space = "" if tokenizer.chat_template else " "
    tokens = [tokenizer(space + letter, add_special_tokens=False)["input_ids"] for letter in LETTERS[:count]]
    if any(len(ids) != 1 for ids in tokens) or len({ids[0] for ids in tokens}) != count:
        raise CarbError("This tokenizer has no token of its own for each answer letter; use read=generate.")
    return [ids[0] for ids in tokens]


def open_judge(name: str, target: str, options: Mapping[str, str]) -> Scorer:
    """Open ``judge:MODEL?mode=listwise&read=logprob``."""
    read = read_options(JudgeOptions, name, options)
    loaded = load(target, read, "AutoModelForCausalLM")
    spec = ScorerSpec(
        name=name,
        kind="judge",
        model=target,
        revision=loaded.revision,
        parameters=read.model_dump(exclude={"revision"}),
        comparative=True,
    )
    return ListwiseLogprobJudge(spec, loaded, read)
