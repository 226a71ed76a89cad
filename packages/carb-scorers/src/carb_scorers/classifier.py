"""Classifier reward models: a head that gives a number for each response to a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from carb_data.models import Frozen
from carb_scorers.known import resolved
from carb_scorers.models.protocol import REWARD_MODELS, Failure, RewardModel, read_backend_options
from carb_scorers.per_candidate import collect, flatten
from carb_scorers.scorer import Scorer, ScoreRequest, ScoreResult, ScorerSpec


class ClassifierOptions(Frozen):
    """Options of ``classifier:MODEL``, besides those of its backend."""

    backend: str = "hf"
    """Where the model runs: ``hf`` (transformers in this process), ``vllm`` or ``openai`` (a server)."""


class ClassifierScorer:
    """The reward of each response, in the model's own units."""

    def __init__(self, spec: ScorerSpec, model: RewardModel) -> None:
        self.spec = spec
        self._model = model

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        """See ``Scorer``."""
        prompts, answers = flatten(requests)
        rewards = await self._model.rewards(prompts, answers)
        return collect(requests, [r if isinstance(r, Failure) else (r.value, r.usage) for r in rewards])

    async def aclose(self) -> None:
        """Close the backend."""
        await self._model.aclose()


def open_classifier(name: str, target: str, options: Mapping[str, str]) -> Scorer:
    """Open ``classifier:MODEL?backend=hf``; see ``ClassifierOptions`` and the backend's own.

    Raises:
        CarbError: an option is wrong, or the model cannot be opened or is no reward model.
    """
    read, kind = read_backend_options(ClassifierOptions, REWARD_MODELS, name, options)
    target = resolved(target, "classifier")
    model: RewardModel = kind.open(target, read)
    spec = ScorerSpec(
        name=name,
        kind="classifier",
        model=target,
        revision=model.revision,
        parameters=read.model_dump(mode="json", exclude={"revision"}),
        comparative=False,
        in_flight=model.in_flight,
    )
    return ClassifierScorer(spec, model)
