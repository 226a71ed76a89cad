"""What is told and looked at while TRL trains."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from carb_data.extras import require
from carb_data.tasks import evenly
from carb_data.waiting import wait_for
from carb_scorers import Scorer
from carb_scorers.bon import SamplePool
from carb_scorers.bon.policies import BackendPolicy, PolicyOptions, PolicySpec, policy_prompts
from carb_scorers.bon.samples import PoolHead, Sample
from carb_scorers.models.transformers.language import around
from carb_scorers.models.transformers.loading import quiet
from tal_rlvr.policy.alarms import text_stats
from tal_rlvr.policy.config import PolicyConfig
from tal_rlvr.policy.divergence import Forward, pool_divergence
from tal_rlvr.policy.evaluating import OnLog, TaskPart, mean
from tal_rlvr.policy.results import LoggedStep
from tal_rlvr.policy.rewards import ScorerReward

_LOOKS = 10
_PROMPTS = 8


def number(row: Mapping[str, Any], key: str) -> float | None:
    """A finite number of a log, or null."""
    value = row.get(key)
    return float(value) if isinstance(value, int | float) and abs(float(value)) < float("inf") else None


@contextmanager
def quietly() -> Iterator[None]:
    """Keep transformers' bars, remarks and announcements of its next version off the terminal."""
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


def tell(trainer: Any, what: str, steps: int, report: OnLog, names: Mapping[str, str]) -> None:
    """Report every log of a trainer instead of printing it.

    Args:
        trainer: the trainer of transformers or TRL.
        what: the name of the phase, as the log shows it.
        steps: number of steps in the phase.
        report: the function that gets each log.
        names: the entries of a log to pass on: from the trainer's key to the reported name.
    """
    transformers = require("transformers", package="tal-rlvr", extra="train")

    def say(state: Any, told: Mapping[str, Any]) -> None:
        found = ((name, number(told.get("logs") or {}, key)) for key, name in names.items())
        detail = ", ".join(f"{name} {value:.3g}" for name, value in found if value is not None)
        if detail:  # the last log is of the run's time and holds none of this
            report(what, int(state.global_step), steps, detail)

    trainer.remove_callback(transformers.PrinterCallback)
    trainer.add_callback(_at("on_log", say))


def _at(event: str, act: Callable[[Any, Mapping[str, Any]], None]) -> Any:
    """A callback of transformers that calls ``act(state, told)`` at one event, ``told`` by the names of what it is."""
    transformers = require("transformers", package="tal-rlvr", extra="train")

    def happens(_self: Any, _arguments: Any, state: Any, _control: Any, **told: Any) -> None:
        act(state, told)

    return type("Callback", (transformers.TrainerCallback,), {event: happens})()


class PolicyWatch:
    """Looks at fresh samples of a policy in training: their reward, how far it moved, what its answers look like.

    Args:
        config: the configuration of the run.
        part: the prompts trained on; some of them are asked.
        scorer: the scorer that gives the reward.
        tokenizer: The tokenizer that belongs to the policy.
    """

    def __init__(self, config: PolicyConfig, part: TaskPart, scorer: Scorer, tokenizer: Any) -> None:
        self._config = config
        self._part = TaskPart(part, evenly(part.prompts, _PROMPTS))
        self._by_id = {prompt.id: prompt for prompt in self._part.prompts}
        self._scorer = scorer
        self._tokenizer = tokenizer
        self.every = config.watch_every or max(1, config.steps // _LOOKS)
        self.points: dict[int, LoggedStep] = {}
        self.samples: dict[int, tuple[list[str], list[str]]] = {}

    def look(self, step: int, model: Any, reference: Forward) -> None:
        """Sample, score and compare, and remember all of it under the step."""
        was = model.training
        model.eval()
        try:
            pool = wait_for(self._sample, step, model)
            prompts = policy_prompts(self._part, shots=self._config.shots)
            kl = pool_divergence(model, reference, self._tokenizer, prompts, pool, self._config.temperature)
        finally:
            model.train(was)
        keys = [key for key, row in pool.samples.items() for _ in row]
        texts = [one.text for row in pool.samples.values() for one in row]
        rewards = ScorerReward(self._scorer, self._by_id, one_line=self._part.one_line).rewards(keys, texts)
        stats = text_stats(texts, keys, [self._by_id[key].language for key in keys])
        self.points[step] = LoggedStep(step=step, reward=mean(rewards), kl=kl, stats=stats)
        self.samples[step] = keys, texts

    async def _sample(self, step: int, model: Any) -> SamplePool:
        config = self._config
        options = PolicyOptions(
            temperature=config.temperature, max_new_tokens=config.max_new_tokens, sampling_seed=config.seed + step
        )
        spec = PolicySpec(name="policy", kind="hf")
        policy = BackendPolicy(spec, around(model, self._tokenizer), options)
        prompts = policy_prompts(self._part, shots=config.shots)
        rows = await policy.sample(prompts, range(config.eval_samples))
        samples = {
            prompt.id: tuple(Sample(prompt_id=prompt.id, index=i, **one.model_dump()) for i, one in enumerate(row))
            for prompt, row in zip(prompts, rows, strict=True)
        }
        return SamplePool(head=PoolHead(policy=spec, task=self._part.name, prompts=""), samples=samples)

    def on(self, trainer: Any, reference: Callable[[Any], Forward]) -> None:
        """Look every ``every`` steps of a trainer, and after its last; ``reference`` gives what it is compared with."""

        def step_ends(state: Any, _told: Mapping[str, Any]) -> None:
            step = int(state.global_step)
            if step % self.every == 0 or step == state.max_steps:
                model = trainer.accelerator.unwrap_model(trainer.model)
                self.look(step, model, reference(model))

        trainer.add_callback(_at("on_step_end", step_ends))
