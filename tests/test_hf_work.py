"""No work is done twice or for nothing: tokens, forward passes, logits, masks; and memory stays within the budget."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")
pytest.importorskip("transformers", reason="needs the extra carb-scorers[hf]")

import torch
import transformers

import tiny_models
from carb_scorers import ScoreRequest, ScoreResult, open_scorer
from carb_scorers.models.transformers import cores, executor, rewards
from carb_scorers.models.transformers.batching import Cost, Pack, Row
from carb_scorers.models.transformers.cores import LanguageHead
from carb_scorers.models.transformers.executor import Executor
from tiny_models import TEXTS, request


def opened(base: Path, spec: str, architecture: str = "llama", **changes: Any) -> Any:
    kind, _, options = spec.partition("?")
    head = "SequenceClassification" if kind == "classifier" else "CausalLM"
    folder = tiny_models.folder(base, architecture, head, pad="<pad>", **changes)
    return open_scorer(f"{kind}:{folder}?{options}")


def scored(scorer: Any, *requests: ScoreRequest) -> list[ScoreResult]:
    found = list(anyio.run(scorer.score, requests))
    assert all(result.error is None for result in found)
    return found


class Watched:
    """Stands before a core and notes the packs of each pass."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self.passes: list[list[Pack]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def states(self, packs: Sequence[Pack]) -> Any:
        self.passes.append(list(packs))
        return self._core.states(packs)

    @property
    def tokens(self) -> int:
        """Computed, padding included."""
        return sum(len(packs) * max(pack.length for pack in packs) for packs in self.passes)


def watched(scorer: Any) -> Watched:
    runner = scorer._model._items.executor
    core = Watched(runner._workers[0].core)
    runner._workers = (dataclasses.replace(runner._workers[0], core=core),)
    return core


class Tokenizer:
    """Stands before a tokenizer and notes what it was given."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.given: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __call__(self, *texts: str, **options: Any) -> Any:
        self.given[" ".join(texts)] += 1
        return self._inner(*texts, **options)


def test_every_conversation_is_put_into_tokens_once(base: Path) -> None:
    """Whole, since what stands at the border of prompt and answer may be one token."""
    scorer = opened(base, "classifier?truncate=middle", chat=True)
    scorer._model._tokenizer = tokenizer = Tokenizer(scorer._model._tokenizer)
    scored(scorer, request("same", "same", "other"), request("same", prompt="Why?", request_id="2"))
    assert len(tokenizer.given) == 3
    assert set(tokenizer.given.values()) == {1}


def test_a_prompt_is_put_into_tokens_once_for_all_its_answers(base: Path) -> None:
    for chat in (False, True):
        scorer = opened(base, "implicit?ref=none", chat=chat)
        scorer._model = None
        scorer._policy._tokenizer = tokenizer = Tokenizer(scorer._policy._tokenizer)
        scored(scorer, *(request(prompt=f"What do people eat in {n}?", request_id=str(n)) for n in range(5)))
        prompts = {text: times for text, times in tokenizer.given.items() if "What do people" in text}
        assert list(prompts.values()) == [1] * 5


def test_a_judges_prompts_are_put_into_tokens_once(base: Path) -> None:
    scorer = opened(base, "judge?mode=pairwise", chat=True)
    scorer._model._tokenizer = tokenizer = Tokenizer(scorer._model._tokenizer)
    scored(scorer, request())
    prompts = {text: times for text, times in tokenizer.given.items() if "What do people" in text}
    assert list(prompts.values()) == [1] * 12


@dataclasses.dataclass
class FakeCore:
    """Waits, in its first pass, until tokens of a later item are prepared."""

    ahead: threading.Event
    device = torch.device("cpu")
    packable = False
    paddable = True
    together = False
    cost = Cost()
    waited = False

    def states(self, packs: Sequence[Pack]) -> Any:
        if not self.waited:
            self.waited = True
            assert self.ahead.wait(30), "the next items' tokens are not prepared while the model computes"
        return torch.zeros((len(packs), 1))


@dataclasses.dataclass
class FakeWorker:
    core: Any


def test_tokens_are_prepared_while_the_model_computes() -> None:
    ahead = threading.Event()
    computing = threading.get_ident()
    threads = set()

    def encode(item: int) -> list[Row]:
        threads.add(threading.get_ident())
        if item >= 2:  # 8 items make 4 chunks of 2: this is the second's
            ahead.set()
        return [Row((item, 1), (1,))]

    def read(_: FakeWorker, states: Any, rows: Sequence[Row]) -> list[int]:
        assert threading.get_ident() == computing
        return [row.tokens[0] for row in rows]

    runner: Executor[Any] = Executor([FakeWorker(FakeCore(ahead))], budget=100, merge=True)
    found = runner.map(range(8), encode, read, packing=False)
    assert found == [[item] for item in range(8)]
    assert computing not in threads


@pytest.mark.parametrize("mode", ["listwise", "pointwise", "pairwise"])
@pytest.mark.parametrize("batching", ["item", "budget"])
def test_logits_are_computed_at_the_verdict_alone(
    base: Path, mode: str, batching: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One place for each prompt, and of the vocabulary only the entries of the allowed answers."""
    scorer = opened(base, f"judge?mode={mode}&batching={batching}", chat=True)
    sizes: list[tuple[int, int]] = []
    run = LanguageHead._run

    def note(self: LanguageHead, head: Any, states: Any) -> Any:
        logits = run(self, head, states)
        sizes.append((states.shape[0], logits.shape[-1]))
        return logits

    monkeypatch.setattr(LanguageHead, "_run", note)
    scored(scorer, request())
    prompts = {"listwise": 1, "pointwise": 4, "pairwise": 12}[mode]
    wide = [places for places, width in sizes if width > 10]
    assert sum(places for places, width in sizes if width <= 10) == prompts
    assert sum(wide) == (prompts if mode == "pointwise" else 0)  # 10 is two tokens, and "0" is read behind "1"


def test_logits_of_a_given_answer_are_computed_at_its_tokens_alone(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = opened(base, "implicit?ref=none")
    places: list[int] = []
    run = LanguageHead._run

    def note(self: LanguageHead, head: Any, states: Any) -> Any:
        places.append(states.shape[0])
        return run(self, head, states)

    monkeypatch.setattr(LanguageHead, "_run", note)
    scored(scorer, request())
    tokenizer = scorer._policy._tokenizer
    assert sum(places) == sum(len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in TEXTS)


def test_a_prompt_is_computed_once_and_nothing_is_padded(base: Path) -> None:
    asked = [request(*(f"{n} {text}" for text in TEXTS), prompt="Why? " * 20, request_id=str(n)) for n in range(4)]
    packed, alone = (opened(base, f"classifier?packing={p}", chat=True) for p in ("auto", "off"))
    with_packs, without = watched(packed), watched(alone)
    results = scored(packed, *asked)
    scored(alone, *asked)
    rows = [len(row.tokens) for packs in without.passes for pack in packs for row in pack.rows]
    assert without.tokens == sum(rows) == sum(r.usage.input_tokens for r in results if r.usage)
    assert [len(pack.rows) for packs in with_packs.passes for pack in packs] == [4] * 4
    prefixes = [pack.prefix for packs in with_packs.passes for pack in packs]
    assert with_packs.tokens == sum(rows) - 3 * sum(prefixes)
    assert with_packs.tokens < without.tokens / 2


@pytest.mark.parametrize("architecture", ["llama", "bert"])
@pytest.mark.parametrize("packing", ["auto", "off"])
def test_shared_passes_stay_within_the_token_budget(base: Path, architecture: str, packing: str) -> None:
    """Which bounds peak memory. Only a text that is longer alone may exceed it."""
    asked = [request(*(f"{text} " * (1 + n % 5) for text in TEXTS), request_id=str(n)) for n in range(12)]
    asked.append(request("long " * 200, request_id="long"))
    for budget in (60, 200, 1000):
        spec = f"classifier?batching=budget&batch_tokens={budget}&packing={packing}"
        scorer = opened(base, spec, architecture)
        core = watched(scorer)
        scored(scorer, *asked)
        sizes = [len(packs) * max(pack.length for pack in packs) for packs in core.passes]
        rows = [sum(len(pack.rows) for pack in packs) for packs in core.passes]
        assert all(size <= budget or count == 1 for size, count in zip(sizes, rows, strict=True))
        assert max(rows) > 1  # and it is used


@pytest.mark.parametrize("architecture", ["llama", "bert"])
def test_an_items_own_passes_are_bounded_too(base: Path, architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "PACK_TOKENS", 80)
    scorer = opened(base, "classifier", architecture)
    core = watched(scorer)
    scored(scorer, request(*(f"{text} {n}" for text in TEXTS for n in range(6))))
    sizes = [len(packs) * max(pack.length for pack in packs) for packs in core.passes]
    assert len(sizes) > 1
    assert max(sizes) <= 80


def attention_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many packs each pass with attention tail by tail had."""
    calls: list[int] = []
    split = cores.split

    def note(config: Any, packs: Sequence[Pack]) -> Any:
        calls.append(len(packs))
        return split(config, packs)

    monkeypatch.setattr(cores, "split", note)
    return calls


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("architecture", ["llama", "gemma3", "qwen2"])
def test_attention_tail_by_tail_is_that_of_a_mask(
    base: Path, architecture: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for packs of several items in one pass, of tails without a prefix, and of a row that begins another."""
    asked = [
        request(*TEXTS, "Noodles at dawn. And tea", prompt="Why?", request_id="1"),
        request("a", "b", request_id="2"),
        request("only", request_id="3"),
    ]
    spec = f"classifier?batching=budget&packing=on&dtype={dtype}"
    calls = attention_calls(monkeypatch)
    split = opened(base, spec, architecture)
    found = scored(split, *asked)
    assert calls
    assert split._model._items.workers[0].loaded.model.config._attn_implementation == "sdpa"
    masked = opened(base, spec, architecture)
    masked._model._items.workers[0].core.split = False
    calls.clear()
    expected = scored(masked, *asked)
    assert not calls
    bound = {"float64": 1e-12, "float32": 1e-5, "bfloat16": 0.05}[dtype]
    for one, other in zip(found, expected, strict=True):
        assert one.scores == pytest.approx(other.scores, abs=bound)


def test_rows_longer_than_a_sliding_window_keep_the_mask(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gemma 3 in small: 48 tokens."""
    long = request(prompt="What do people eat? " * 12)
    calls = attention_calls(monkeypatch)
    scorer = opened(base, "classifier?packing=on", "gemma3")
    calls.clear()  # of the trial when it was opened
    (found,) = scored(scorer, long)
    assert not calls
    (alone,) = scored(opened(base, "classifier?packing=off", "gemma3"), long)
    assert found.scores == pytest.approx(alone.scores, abs=1e-5)


def test_a_models_attention_is_put_back_after_a_failure(base: Path) -> None:
    scorer = opened(base, "classifier?packing=on")
    worker = scorer._model._items.workers[0]
    body = worker.core._body
    worker.core._body = lambda **_: (_ for _ in ()).throw(torch.OutOfMemoryError("CUDA out of memory."))
    (failed,) = anyio.run(scorer.score, [request()])
    assert failed.error is not None
    assert worker.loaded.model.config._attn_implementation == "sdpa"
    worker.core._body = body
    (after,) = scored(scorer, request())
    (expected,) = scored(opened(base, "classifier?packing=on"), request())
    assert after.scores == pytest.approx(expected.scores, abs=1e-5)


def test_a_language_model_without_short_cuts_computes_no_more_logits(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own forward pass is asked for the wanted places alone, and says the same."""
    expected = [scored(opened(base, kind, chat=True), request()) for kind in ("judge", "implicit?ref=none")]

    def refuse(*_: Any, **__: Any) -> Any:
        raise AttributeError("no body to be had")

    monkeypatch.setattr("carb_scorers.models.transformers.language.HiddenCore", refuse)
    for kind, wanted in zip(("judge", "implicit?ref=none"), expected, strict=True):
        scorer = opened(base, kind, chat=True)
        core = (getattr(scorer, "_model", None) or scorer._policy)._items.workers[0].core
        assert type(core).__name__ == "OwnCore"
        widths: list[int] = []
        output = core._output
        core._output = lambda out, widths=widths, output=output: widths.append(out.logits.shape[1]) or output(out)
        found = scored(scorer, request())
        assert max(widths) <= (1 if kind == "judge" else 40)
        for one, other in zip(found, wanted, strict=True):
            assert one.scores == pytest.approx(other.scores, abs=1e-4)
            assert all(map(math.isfinite, one.scores.values()))


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="torch has no MKL here")
@pytest.mark.parametrize("architecture", ["llama", "bert"])
def test_weights_lie_as_mkl_takes_them(tmp_path: Path, architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def lie(options: str = "") -> tuple[set[bool], set[bool], dict[str, float]]:
        scorer = opened(tmp_path, f"classifier?{options}", architecture)
        layers = list(scorer._model._items.workers[0].loaded.model.modules())
        linear = {layer.weight.t().is_contiguous() for layer in layers if isinstance(layer, torch.nn.Linear)}
        tables = {layer.weight.is_contiguous() for layer in layers if isinstance(layer, torch.nn.Embedding)}
        return linear, tables, scored(scorer, request())[0].scores

    linear, tables, scores = lie()
    assert (linear, tables) == ({True}, {True})
    assert False in lie("dtype=bfloat16")[0]
    monkeypatch.setattr(rewards, "lay_out", lambda model: None)
    linear, _, plain = lie()
    assert False in linear
    assert scores == pytest.approx(plain, abs=1e-5)


def test_weights_of_foreign_code_and_of_embeddings_stay_as_they_are() -> None:
    class Foreign(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 2)

    foreign = Foreign()
    cores.lay_out(foreign)
    assert foreign.linear.weight.is_contiguous()
    tied = transformers.LlamaForCausalLM(tiny_models.config("llama", 2, tie_word_embeddings=True))
    cores.lay_out(tied)
    assert tied.lm_head.weight is tied.model.embed_tokens.weight
    assert tied.lm_head.weight.is_contiguous()
    assert tied.model.layers[0].mlp.up_proj.weight.is_contiguous() != torch.backends.mkl.is_available()
