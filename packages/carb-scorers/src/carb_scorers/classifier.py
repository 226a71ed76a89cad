"""Classifier reward models: a sequence classifier with a scalar head, one forward pass per response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import anyio.to_thread

from carb_data import CarbError
from carb_data.extras import require
from carb_scorers.batching import token_budget_batches
from carb_scorers.contract import Scorer, ScoreRequest, ScoreResult, ScorerSpec, Usage, failed
from carb_scorers.hf.forward import pad, positions
from carb_scorers.hf.loading import HFOptions, Loaded, load
from carb_scorers.specs import read_options


class ClassifierOptions(HFOptions):
    """Options of ``classifier:MODEL``."""


class ClassifierScorer:
    """The head's output at the last real token of prompt and response, in the model's own units."""

    def __init__(self, spec: ScorerSpec, loaded: Loaded, options: ClassifierOptions) -> None:
        self.spec = spec
        self._loaded: Loaded | None = loaded
        self._options = options

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        return await anyio.to_thread.run_sync(self._score, requests)

    async def aclose(self) -> None:
        self._loaded = None

    def _score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        if self._loaded is None:
            raise CarbError(f"The scorer '{self.spec.name}' was closed.")
        loaded = self._loaded
        rows = [_encode(loaded.tokenizer, r.prompt, c.text) for r in requests for c in r.candidates]
        fitting = [i for i, row in enumerate(rows) if len(row) <= loaded.max_tokens]
        values = dict(
            zip(fitting, _forward(loaded.model, [rows[i] for i in fitting], self._options.batch_tokens), strict=True)
        )
        results = []
        start = 0
        for request in requests:
            place = range(start, start + len(request.candidates))
            start = place.stop
            usage = Usage(input_tokens=sum(len(rows[i]) for i in place))
            if any(i not in values for i in place):
                longest = max(len(rows[i]) for i in place)
                message = f"{longest} tokens, the model takes {loaded.max_tokens}"
                results.append(failed(request, "too-long", message, usage))
                continue
            scores = {candidate.id: values[i] for candidate, i in zip(request.candidates, place, strict=True)}
            if any(not abs(value) < float("inf") for value in scores.values()):
                results.append(failed(request, "non-finite", "the model gave NaN or infinity", usage))
                continue
            results.append(ScoreResult(item_id=request.item_id, scores=scores, usage=usage))
        return results


def _encode(tokenizer: Any, prompt: str, text: str) -> list[int]:
    if tokenizer.chat_template:
        messages = [{"role": "user", "content": prompt}, {"role": "assistant", "content": text}]
        rendered = tokenizer.apply_chat_template(messages, tokenize=False)
        return list(tokenizer(rendered, add_special_tokens=False)["input_ids"])
    return list(tokenizer(prompt, text)["input_ids"])


def _forward(model: Any, rows: Sequence[Sequence[int]], budget: int) -> list[float]:
    """One score per row, in order.

    Decoders: rows are padded on the right and the head is read at each row's last real token, found by its
    length, never by looking for a pad token (which may also be the end-of-text token). Encoders pool by
    themselves and only need the mask.
    """
    torch = require("torch", package="carb-scorers", extra="hf")
    out = torch.empty(len(rows))
    head = getattr(model, "score", None)
    with torch.inference_mode():
        for batch in token_budget_batches([len(row) for row in rows], budget):
            chosen = [rows[i] for i in batch]
            ids, mask = pad(chosen, side="right", to=len(chosen[0]), torch=torch)
            ids, mask = ids.to(model.device), mask.to(model.device)
            if head is None:
                values = model(input_ids=ids, attention_mask=mask).logits[:, 0]
            else:
                hidden = model.base_model(
                    input_ids=ids, attention_mask=mask, position_ids=positions(mask), use_cache=False
                ).last_hidden_state
                last = torch.tensor([len(row) - 1 for row in chosen], device=hidden.device)
                values = head(hidden[torch.arange(len(chosen), device=hidden.device), last])[:, 0]
            out[batch] = values.float().cpu()
    return [float(value) for value in out]


def open_classifier(name: str, target: str, options: Mapping[str, str]) -> Scorer:
    """Open ``classifier:MODEL``, any ``AutoModelForSequenceClassification`` with one label."""
    read = read_options(ClassifierOptions, name, options)
    loaded = load(target, read, "AutoModelForSequenceClassification")
    labels = loaded.model.config.num_labels
    if labels != 1:
        raise CarbError(f"'{target}' has {labels} labels; a reward model has a scalar head (num_labels = 1).")
    spec = ScorerSpec(
        name=name,
        kind="classifier",
        model=target,
        revision=loaded.revision,
        parameters=read.model_dump(exclude={"revision"}),
        comparative=False,
    )
    return ClassifierScorer(spec, loaded, read)
