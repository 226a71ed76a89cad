"""Reward models with a head of their own on transformers: the ``hf`` backend of ``classifier``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import field_validator

from carb_data import CarbError
from carb_scorers.models.protocol import BackendKind, Failure, Prompt, Reward
from carb_scorers.models.source import model_source
from carb_scorers.models.tokens import conversation_ids
from carb_scorers.models.transformers.adapters import Adapter, adapter_for
from carb_scorers.models.transformers.batching import Row
from carb_scorers.models.transformers.cores import Core, HiddenCore, OwnCore, lay_out
from carb_scorers.models.transformers.executor import each
from carb_scorers.models.transformers.items import ItemRunner, shares_passes
from carb_scorers.models.transformers.loading import HFOptions, Loaded, load, uncollected
from carb_scorers.models.transformers.probe import probe_rows, try_core
from carb_scorers.models.transformers.workers import open_workers
from carb_scorers.scorer import Usage


class RewardOptions(HFOptions):
    """Options of ``classifier:MODEL`` on transformers."""

    objective: str | None = None
    """The name or number of the output that is the score, for a head with several outputs."""
    weights: tuple[float, ...] | None = None
    """The weights of the outputs in the score, for a head with several, such as ``0.3,0.7``."""

    @field_validator("weights", mode="before")
    @classmethod
    def _numbers(cls, value: object) -> object:
        return value.split(",") if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class RewardWorker:
    """A reward model on a device."""

    loaded: Loaded
    core: Core
    finish: Any
    """Function from states ``(rows, D)`` to outputs ``(rows, labels)``."""


class HFRewardModel:
    """See ``RewardModel``; an item's candidates are packed beside its prompt where the architecture allows that."""

    def __init__(
        self,
        target: str,
        workers: Sequence[RewardWorker],
        options: RewardOptions,
        weights: Sequence[float],
        ending: Sequence[int],
    ) -> None:
        self.model = target
        self.revision: str | None = workers[0].loaded.revision
        self.in_flight: int | None = None
        self._tokenizer = workers[0].loaded.tokenizer
        self._items = ItemRunner(workers, options)
        self._packing = options.packing != "off"
        self._weights = tuple(weights)
        self._ending = tuple(ending)

    async def aclose(self) -> None:
        """Drop the model."""
        self._items.close()

    async def rewards(self, prompts: Sequence[Prompt], answers: Sequence[str]) -> list[Reward | Failure]:
        """See ``RewardModel``. The head is read at the last token of each conversation, found by its length."""

        def rows_of(prompt: Prompt, answer: str) -> list[Row]:
            ids = (*conversation_ids(self._tokenizer, prompt, answer), *self._ending)
            return [Row(ids, (len(ids) - 1,))]

        def read(worker: RewardWorker, states: Any, rows: Sequence[Row]) -> list[float]:
            outputs = worker.finish(states).double().cpu()
            scores = (outputs * outputs.new_tensor(self._weights)).sum(-1)
            return [float(own[0]) for own in each(scores, rows)]

        def reward(found: Sequence[float], usage: Usage) -> Reward:
            return Reward(found[0], usage)

        return await self._items.run(prompts, answers, rows_of, read, reward, packing=self._packing)


def make_worker(loaded: Loaded, adapter: Adapter, options: RewardOptions) -> RewardWorker:
    """The fastest core that gives what the model's own forward pass gives, tried on a few tokens."""
    model = loaded.model
    own = OwnCore(model, adapter.output, per_token=False)
    rows = probe_rows(loaded.tokenizer)
    head = adapter.head(model)
    if head is not None:
        core = HiddenCore(model, compiled=options.compile)
        core.packable = core.packable and options.packing != "off"
        core.paddable = shares_passes(options, core.device)
        if try_core(core, rows, head, own.alone):
            return RewardWorker(loaded, core, head)
    whole = OwnCore(model, adapter.output, per_token=False, compiled=options.compile)
    if not try_core(whole, rows, lambda states: states, own.alone):
        whole = own
        whole.paddable = False  # NaN agrees with nothing, itself included
    return RewardWorker(loaded, whole, lambda states: states)


@uncollected()
def open_reward_model(target: str, options: RewardOptions) -> HFRewardModel:
    """Load ``target`` once on every device asked for.

    Raises:
        CarbError: see ``load``; or the head has several outputs and neither ``objective`` nor ``weights`` says
            which counts.
    """
    model_source(target)  # a typing error is told before torch is imported, which takes seconds
    adapter = adapter_for(target, options)

    def opened(device: str) -> RewardWorker:
        loaded = load(target, options, adapter.loader, device)
        lay_out(loaded.model)
        return make_worker(loaded, adapter, options)

    workers = open_workers(options, opened)
    model = workers[0].loaded.model
    weights = _weights(target, model, adapter, options)
    return HFRewardModel(target, workers, options, weights, adapter.ending(model.config))


def _weights(target: str, model: Any, adapter: Adapter, options: RewardOptions) -> tuple[float, ...]:
    labels = adapter.outputs or int(model.config.num_labels)
    names = [str(name) for _, name in sorted((getattr(model.config, "id2label", None) or {}).items())]
    names = names if len(names) == labels else [str(i) for i in range(labels)]
    if options.weights is not None:
        if len(options.weights) != labels:
            raise CarbError(
                f"'{target}' has {labels} outputs ({', '.join(names)}), got {len(options.weights)} weights."
            )
        return options.weights
    if options.objective is not None:
        found = [i for i, name in enumerate(names) if options.objective in (name, str(i))]
        if len(found) != 1:
            raise CarbError(f"'{target}' has no output '{options.objective}'; there are {', '.join(names)}.")
        return tuple(float(i == found[0]) for i in range(labels))
    if labels != 1:
        raise CarbError(
            f"'{target}' has {labels} outputs ({', '.join(names)}). A reward is one number: choose one with "
            f"objective=NAME, or weigh all with weights=0.5,0.5,..."
        )
    return (1.0,)


REWARD_MODEL = BackendKind(RewardOptions, open_reward_model)
