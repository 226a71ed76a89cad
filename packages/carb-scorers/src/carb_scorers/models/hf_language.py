"""Language models on transformers: the ``hf`` backend of ``judge`` and ``implicit``."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread

from carb_data import uncollected
from carb_scorers.models.chat_tokens import watched_choices, watched_ids
from carb_scorers.models.hf_loading import HFOptions, Loaded, load, quiet
from carb_scorers.models.hf_memory import batch_tokens
from carb_scorers.models.hf_passes import Passes, check_cancelled, is_out_of_memory, out_of_memory
from carb_scorers.models.marks import until, written_text
from carb_scorers.models.protocol import (
    BackendKind,
    Failure,
    Generation,
    Prompt,
    Prompts,
    Texts,
    Writing,
    seeds_for,
)
from carb_scorers.models.shared_prefix import padded, token_budget_batches
from carb_scorers.models.source import hf_library, model_source
from carb_scorers.models.token_rows import (
    Finish,
    Fitted,
    Row,
    Rows,
    RowsOf,
    TokenLanguageModel,
    fitted,
)
from carb_scorers.scorer import Usage

A = TypeVar("A")


class HFLanguageModel(TokenLanguageModel):
    """See ``LanguageModel``; the common beginning of an item's prompts is computed once."""

    def __init__(self, target: str, loaded: Loaded, options: HFOptions) -> None:
        super().__init__(target, loaded.revision, loaded.tokenizer)
        model = loaded.model
        self._passes = Passes(
            loaded,
            options,
            self._probe_rows,
            forward=model,
            outputs=lambda output: output.logits,
            whole=lambda inputs: model(**inputs).logits,
        )
        self.in_flight: int | None = self._passes.in_flight
        self._budget = batch_tokens(options.batch_tokens, model)

    def _probe_rows(self, prompt: Prompt, answer: str) -> list[Row]:
        question = prompt.messages[-1].content
        parts = [
            self._tokenizer(text, add_special_tokens=False)["input_ids"] or [0]
            for text in (question, answer)
        ]
        before, behind = parts
        return [Row((*before, *behind), len(before))]

    async def aclose(self) -> None:
        """Drop the model."""
        self._passes.close()

    async def generate(self, prompts: Prompts, writing: Writing) -> list[Generation | Failure]:
        """See ``LanguageModel``. Greedy texts are the same in any batch, but for ties within
        rounding."""

        def run() -> list[Generation | Failure]:
            loaded = self._passes.open()
            room = max(1, loaded.max_length - writing.max_tokens)
            encoded = fitted(prompts, None, self._asked, limit=room, embeddings=loaded.embeddings)
            seeds = seeds_for(prompts, writing)
            return generate(loaded, seeds, encoded, writing, budget=self._budget)

        return await anyio.to_thread.run_sync(run)

    async def _logprobs(
        self,
        prompts: Prompts,
        answers: Texts | None,
        rows_of: RowsOf,
        finish: Finish[A],
    ) -> list[A | Failure]:
        return await anyio.to_thread.run_sync(
            partial(self._passes.run, prompts, answers, rows_of, _read, finish)
        )


def _read(logits: Any, rows: Rows) -> list[list[float]]:
    """The log-probabilities of each row's targets."""
    torch = hf_library("torch")
    values = []
    for line, row in enumerate(rows):
        last = logits[line, -row.keep :].float()
        targets = torch.tensor(row.targets, device=last.device)
        lines = torch.arange(row.keep, device=last.device)
        picked = last[lines, targets].double()  # one line is read for all of its targets
        values.append((picked - last.logsumexp(-1).double()).tolist())
    return values


@uncollected()
def open_language_model(target: str, options: HFOptions) -> HFLanguageModel:
    """Load ``target``.

    Raises:
        CarbError: see ``load``.
    """
    model_source(
        target, gguf=True
    )  # report a typing error before torch is imported, which takes seconds
    return HFLanguageModel(target, load(target, options, "AutoModelForCausalLM"), options)


def generate(
    loaded: Loaded,
    seeds: Sequence[int],
    encoded: Sequence[Fitted],
    writing: Writing,
    *,
    budget: int,
) -> list[Generation | Failure]:
    """An answer to each prompt.

    Prompts are batched by length and padded on the left, with positions that do not count the
    padding. ``budget`` is the padded tokens in a batch, those to be written included; it is halved
    where memory runs out.
    """
    out: dict[int, Generation | Failure] = {}
    rows: dict[int, Sequence[int]] = {}
    usages: dict[int, Usage] = {}
    for index, made in enumerate(encoded):
        if isinstance(made, Failure):
            out[index] = made
        else:
            rows[index] = made[0][0].tokens
            usages[index] = made[1]
    while waiting := [i for i in rows if i not in out]:
        lengths = [len(rows[i]) + writing.max_tokens for i in waiting]
        for batch in token_budget_batches(lengths, budget):
            chosen = [waiting[i] for i in batch]
            check_cancelled()
            seeds_here = [seeds[i] for i in chosen]
            written = _written(loaded, [rows[i] for i in chosen], seeds_here, writing)
            longest = max(lengths[i] for i in batch)
            if written is None and len(chosen) > 1:
                size = longest * len(chosen)
                budget = max(1, min(budget, size) // 2)
                break
            if written is None:
                (alone,) = chosen
                out[alone] = Failure(out_of_memory(longest), usages[alone])
                continue
            for index, answer in zip(chosen, written, strict=True):
                usage = usages[index] + answer.usage
                out[index] = replace(answer, usage=usage)
    return [out[i] for i in range(len(encoded))]


def _written(
    loaded: Loaded, rows: Sequence[Sequence[int]], seeds: Sequence[int], writing: Writing
) -> list[Generation] | None:
    """The text generated behind rows of tokens, all in one batch; ``None`` where memory ran out.

    Raises:
        CarbError: a watched word is not one token.
    """
    torch = hf_library("torch")
    transformers = hf_library("transformers")
    model, tokenizer = loaded.model, loaded.tokenizer
    ids, mask = padded(rows, model.device)
    ends = _ends(model, tokenizer)
    config = transformers.GenerationConfig(
        do_sample=False,
        max_new_tokens=writing.max_tokens,
        eos_token_id=ends or None,
        pad_token_id=(ends or [0])[0],
        stop_strings=list(writing.stop) or None,
    )
    watched = watched_ids(tokenizer, writing.watch)
    notes = _Notes(watched, entropies=writing.entropy)
    processors = transformers.LogitsProcessorList([notes])
    if writing.temperature > 0:
        processors.append(_Gumbel(torch, seeds, writing))
    try:
        with torch.inference_mode(), quiet():
            written = model.generate(
                input_ids=ids,
                attention_mask=mask,
                generation_config=config,
                logits_processor=processors,
                tokenizer=tokenizer,
            )
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(torch, error):
            raise
        return None
    texts = written[:, ids.shape[1] :].tolist()
    return [
        _finish(tokenizer, line, tokens, ends, writing, notes) for line, tokens in enumerate(texts)
    ]


def _finish(
    tokenizer: Any,
    line: int,
    tokens: Sequence[int],
    ends: Sequence[int],
    writing: Writing,
    notes: "_Notes",
) -> Generation:
    end = next((index for index, token in enumerate(tokens) if token in ends), None)
    text = written_text(tokenizer, tokens[:end])
    shown = until(text, writing.stop)
    kept = tokens
    if end is not None:
        kept = tokens[: end + 1]

    def values_at(index: int) -> list[float]:
        values: list[float] = notes.watched[index][line].tolist()
        return values

    choices = watched_choices(tokenizer, writing.watch, kept, values_at)
    steps = notes.entropies[: len(kept)]
    measured = [float(step[line]) for step in steps]
    entropy = None
    if measured:
        entropy = sum(measured) / len(measured)
    return Generation(
        text=shown,
        usage=Usage(output_tokens=len(kept)),
        finished=end is not None or shown != text,
        choices=choices,
        entropy=entropy,
    )


class _Notes:
    """A logits processor that changes nothing, and keeps the requested figures of each step."""

    def __init__(self, watched: Sequence[int], *, entropies: bool) -> None:
        self._tokens = list(watched)
        self._measure = entropies
        self.watched: list[Any] = []
        """The watched tokens' log-probabilities at each step, up to a constant of the row, ``(rows,
        watched)``."""
        self.entropies: list[Any] = []

    # transformers' signature
    def __call__(self, input_ids: Any, scores: Any) -> Any:  # noqa: ARG002
        if self._tokens:
            values = scores[:, self._tokens]
            self.watched.append(values.double().cpu())
        if self._measure:
            logprobs = scores.float().log_softmax(-1)
            terms = (logprobs.exp() * logprobs).nan_to_num(0.0)
            self.entropies.append(-terms.sum(-1).cpu())
        return scores


def _ends(model: Any, tokenizer: Any) -> list[int]:
    """Tokens that end an answer: those that the model, its way of generating, or the tokenizer
    names."""
    token_ids: set[int] = set()
    for source in (tokenizer, getattr(model, "generation_config", None), model.config):
        named = getattr(source, "eos_token_id", None)
        if not isinstance(named, list | tuple):
            named = [named]
        token_ids |= {token for token in named if isinstance(token, int)}
    return sorted(token_ids)


class _Gumbel:
    """Sampling as a greedy choice: argmax(logits / T + g), g standard Gumbel, is a draw from
    softmax(logits / T).

    Gumbel 1954; used so that every row draws from a generator of its own, whatever its neighbours
    are.
    """

    def __init__(self, torch: Any, seeds: Sequence[int], writing: Writing) -> None:
        self._torch = torch
        self._temperature = writing.temperature
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    # transformers' signature
    def __call__(self, input_ids: Any, scores: Any) -> Any:  # noqa: ARG002
        draws = []
        for generator in self._generators:
            draw = self._torch.empty(scores.shape[-1])
            draws.append(draw.exponential_(generator=generator).log_())
        noise = self._torch.stack(draws)
        return scores / self._temperature - noise.to(scores.device)


LANGUAGE_MODEL = BackendKind(HFOptions, open_language_model)
