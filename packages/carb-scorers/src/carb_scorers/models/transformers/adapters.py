"""Reward models whose head or score is not where transformers puts it, by architecture.

``AutoModelForSequenceClassification`` with a scalar head needs no adapter, nor does one with several outputs. An
adapter is for an architecture (``architectures`` in config.json) whose score stands somewhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from carb_data.extras import require
from carb_scorers.models.transformers.loading import HFOptions, Loader, quiet


def _logits(output: Any) -> Any:
    return output.logits


def _score_head(model: Any) -> Any:
    """The head of transformers' generic decoder classifiers; encoders have theirs behind a pooling layer."""
    return getattr(model, "score", None)


def _no_head(model: Any) -> Any:  # noqa: ARG001 - one signature for all adapters
    return None


def _value_head(model: Any) -> Any:
    return getattr(model, "v_head", None)


def _nothing(config: Any) -> tuple[int, ...]:  # noqa: ARG001 - one signature for all adapters
    return ()


def _reward_token(config: Any) -> tuple[int, ...]:
    return (int(config.reward_token_id),)


@dataclass(frozen=True, slots=True)
class Adapter:
    """How to get scores out of an architecture."""

    loader: Loader = "AutoModelForSequenceClassification"
    """A transformers class by name, or a function ``(transformers, config) -> class with from_pretrained``."""
    output: Callable[[Any], Any] = _logits
    """Function from the output of the model's own forward pass to ``(rows, outputs)``."""
    head: Callable[[Any], Any] = _score_head
    """The module that turns the final hidden state of a row's last token into outputs, where that is all there is
    to a score; ``None`` or a wrong guess, and the model's own forward pass is used."""
    ending: Callable[[Any], tuple[int, ...]] = _nothing
    """Function from the configuration to tokens that the model expects behind every conversation."""
    outputs: int | None = None
    """How many outputs there are; by default the configuration's ``num_labels``."""


def _gated_score(output: Any) -> Any:
    return output.score.reshape(-1, 1)


def _last_of_sequence(output: Any) -> Any:
    logits = output[0] if isinstance(output, tuple) else output.logits
    return logits.reshape(logits.shape[0], -1)[:, -1:]


def _deep_head(transformers: Any, config: Any) -> Any:
    """A decoder classifier whose head is Linear, ReLU, Linear; its weights are ``score.0`` and ``score.2``."""
    torch = require("torch", package="carb-scorers", extra="hf")
    base = transformers.AutoModelForSequenceClassification._model_mapping[type(config)]
    size = config.get_text_config().hidden_size

    class DeepHead(base):  # type: ignore[misc, valid-type]
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.score = torch.nn.Sequential(
                torch.nn.Linear(size, size), torch.nn.ReLU(), torch.nn.Linear(size, self.num_labels)
            )

    return DeepHead


ADAPTERS: dict[str, Adapter] = {
    # Wang et al. 2024, ArmoRM: many objectives, mixed by a gate into output.score. Needs trust_remote_code.
    "LlamaForRewardModelWithGating": Adapter(output=_gated_score, head=_no_head, outputs=1),
    # INF-ORM-Llama3.1-70B: a head of two layers, code on the model card only.
    "INFORMForSequenceClassification": Adapter(loader=_deep_head, outputs=1),
    # Qwen2.5-Math-RM-72B, WorldPM: a head of two layers. Needs trust_remote_code.
    "Qwen2ForRewardModel": Adapter(loader="AutoModel", output=_last_of_sequence, outputs=1),
    # Cai et al. 2024, InternLM2-Reward: a value head read at a reward token. Needs trust_remote_code.
    "InternLM2ForRewardModel": Adapter(
        loader="AutoModel", output=_last_of_sequence, head=_value_head, ending=_reward_token, outputs=1
    ),
}
"""Architecture to adapter; ``register`` adds to it."""


def register(architecture: str, adapter: Adapter) -> None:
    """Use an adapter for an architecture, as its config.json names it."""
    ADAPTERS[architecture] = adapter


def adapter_for(target: str, options: HFOptions) -> Adapter:
    """The adapter of a model, from its configuration; the plain one where none is registered."""
    transformers = require("transformers", package="carb-scorers", extra="hf")
    source = {"revision": options.revision, "trust_remote_code": options.trust_remote_code}
    try:
        with quiet():
            config = transformers.AutoConfig.from_pretrained(target, **source)
    except (OSError, ValueError, KeyError):
        return Adapter()  # loading says what is wrong
    listed = (ADAPTERS.get(name) for name in config.architectures or ())
    return next((adapter for adapter in listed if adapter is not None), Adapter())
