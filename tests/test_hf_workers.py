"""Workers on a CPU: they share the weights and torch's threads, and give what one gives, to the last bit."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")
pytest.importorskip("transformers", reason="needs the extra carb-scorers[hf]")

import torch
import transformers

import tiny_models
from carb_scorers import Candidate, ScoreRequest, ScoreResult, open_scorer
from carb_scorers.models import Writing
from carb_scorers.models.protocol import Prompt, Turn
from carb_scorers.models.transformers import generate
from carb_scorers.models.transformers.language import open_language_model
from carb_scorers.models.transformers.loading import HFOptions
from carb_scorers.models.transformers.workers import CPU_WORKERS

CASES = [
    *(("classifier", name, "SequenceClassification") for name in (*tiny_models.DECODERS, *tiny_models.ENCODERS)),
    *(("judge", name, "CausalLM") for name in tiny_models.DECODERS),
    *(("implicit", name, "CausalLM") for name in tiny_models.DECODERS),
]


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def requests(count: int) -> list[ScoreRequest]:
    return [
        ScoreRequest(
            request_id=str(n),
            prompt=f"What is {n}?",
            candidates=tuple(Candidate(id=str(k), text=f"{n} and {k} " * (k + 1 + n % 3)) for k in range(3)),
            culture="thai",
            language="th",
        )
        for n in range(count)
    ]


def opened(base: Path, kind: str, architecture: str, head: str, options: str = "") -> Any:
    return open_scorer(f"{kind}:{tiny_models.folder(base, architecture, head)}{options}")


def classifier(base: Path, options: str = "") -> Any:
    return opened(base, "classifier", "llama", "SequenceClassification", options)


def workers(scorer: Any) -> tuple[Any, ...]:
    found: tuple[Any, ...] = getattr(scorer, "_model", getattr(scorer, "_policy", None))._items.workers
    return found


def score(scorer: Any, asked: Sequence[ScoreRequest]) -> list[ScoreResult]:
    found = list(anyio.run(scorer.score, asked))
    assert all(result.error is None for result in found)
    return found


def threads_to_come() -> int:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize(("kind", "architecture", "head"), CASES)
def test_two_workers_share_the_weights_and_give_what_one_gives(
    base: Path, kind: str, architecture: str, head: str
) -> None:
    both = opened(base, kind, architecture, head)
    models = [worker.loaded.model for worker in workers(both)]
    assert len(models) == CPU_WORKERS
    assert len({id(model.config) for model in models}) == CPU_WORKERS  # each chooses its own attention
    parameters = {id(p) for model in models for p in model.parameters()}
    assert parameters == {id(p) for p in models[0].parameters()}
    storages = {t.data_ptr() for model in models for t in (*model.parameters(), *model.buffers())}
    assert storages == {t.data_ptr() for t in (*models[0].parameters(), *models[0].buffers())}
    torch.set_num_threads(1)
    one = opened(base, kind, architecture, head)
    assert len(workers(one)) == 1
    asked = requests(12)
    assert score(both, asked) == score(one, asked)


@settings(deadline=None, max_examples=10)
@given(order=st.permutations(range(9)), kept=st.integers(1, 9))
def test_neighbours_and_order_change_nothing_between_workers(base: Path, order: list[int], kept: int) -> None:
    asked = requests(9)
    scorer = classifier(base)
    assert len(workers(scorer)) == 2
    expected = {result.request_id: result for result in score(scorer, asked)}
    for result in score(scorer, [asked[place] for place in order[:kept]]):
        assert result == expected[result.request_id]


def test_each_worker_has_its_share_of_the_threads_while_it_runs(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []

    def noted(scorer: Any) -> Any:
        for worker in workers(scorer):
            inner = worker.core.states

            def states(packs: Any, inner: Any = inner) -> Any:
                seen.append((threading.get_ident(), torch.get_num_threads()))
                return inner(packs)

            monkeypatch.setattr(worker.core, "states", states)
        return scorer

    torch.set_num_threads(4)
    asked = requests(40)
    score(noted(classifier(base)), asked)
    assert {number for _, number in seen} == {2}
    assert (torch.get_num_threads(), threads_to_come()) == (4, 4)
    seen.clear()
    score(noted(classifier(base, "?device=cpu")), asked)  # one worker: torch's own number
    assert {number for _, number in seen} == {4}
    seen.clear()
    score(noted(classifier(base, "?device=cpu,cpu,cpu,cpu,cpu")), asked)
    assert {number for _, number in seen} == {1}
    assert threads_to_come() == 4


def test_compiled_models_and_single_threads_have_one_worker(base: Path) -> None:
    assert len(workers(classifier(base, "?device=cpu"))) == 1
    torch.set_num_threads(1)
    assert len(workers(classifier(base))) == 1


def test_a_model_that_cannot_be_copied_has_one_worker(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise TypeError("cannot pickle '_thread.lock' object")

    monkeypatch.setattr(transformers.LlamaForSequenceClassification, "__deepcopy__", refuse, raising=False)
    assert len(workers(classifier(base))) == 1
    asked_for = workers(classifier(base, "?device=cpu,cpu"))  # who asks for two has the model loaded twice
    assert len(asked_for) == 2
    assert asked_for[0].loaded.model.score.weight is not asked_for[1].loaded.model.score.weight


class Broken:
    """A core that fails in its third pass."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self.passes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def states(self, packs: Any) -> Any:
        self.passes += 1
        if self.passes == 3:
            raise RuntimeError("device-side assert triggered")
        return self._core.states(packs)


@pytest.mark.parametrize("broken", [0, 1])
def test_a_worker_that_fails_stops_the_others_and_is_not_hidden(base: Path, broken: int) -> None:
    scorer = classifier(base)
    executor = scorer._model._items.executor
    cores = [Broken(worker.core) for worker in executor._workers]
    cores[1 - broken].passes = 3  # never fails
    executor._workers = tuple(
        dataclasses.replace(worker, core=core) for worker, core in zip(executor._workers, cores, strict=True)
    )
    with pytest.raises(RuntimeError, match="device-side assert"):
        anyio.run(scorer.score, requests(600))
    assert cores[1 - broken].passes < 400
    assert threads_to_come() == 2
    assert len(score(scorer, requests(3))) == 3


def test_a_cancelled_run_ends_after_the_passes_at_hand(base: Path) -> None:
    """As Ctrl-C cancels it."""
    scorer = classifier(base)
    asked = requests(600)
    ended: list[bool] = []

    async def cancelled() -> None:
        with anyio.move_on_after(0.2) as scope:
            await scorer.score(asked)
        ended.append(scope.cancelled_caught)

    anyio.run(cancelled)
    assert ended == [True]
    assert threads_to_come() == 2
    assert score(scorer, asked[:3]) == score(classifier(base), asked[:3])


def test_one_worker_writes_with_all_threads_by_default(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(tiny_models.folder(base, "llama", "CausalLM"))
    copies: list[int] = []
    inner = generate.write_rows

    def noted(model: Any, *rest: Any) -> Any:
        copies.append(id(model))
        assert torch.get_num_threads() == 2
        return inner(model, *rest)

    monkeypatch.setattr(generate, "write_rows", noted)
    asked = [Prompt((Turn(role="user", content=f"What is {n}?"),)) for n in range(4)]
    for device, count in (("auto", 1), ("cpu,cpu", 2)):
        copies.clear()
        anyio.run(open_language_model(folder, HFOptions(device=device)).generate, asked, Writing(max_tokens=2))
        assert len(set(copies)) == count
