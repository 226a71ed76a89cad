"""Reward models with a head of their own on transformers: the ``hf`` backend of ``classifier``.

``AutoModelForSequenceClassification`` with a scalar head needs no adapter, nor does one with
several outputs. An adapter is for an architecture (``architectures`` in config.json) whose score
stands somewhere else.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import anyio.to_thread

from carb_data import CarbError, uncollected
from carb_scorers.models.chat_tokens import Ids, conversation, warn_of_open_turn
from carb_scorers.models.hf_loading import HFOptions, Loaded, TemplateOptions, load, quiet
from carb_scorers.models.hf_passes import Passes
from carb_scorers.models.peft_adapters import adapter_config, base_of
from carb_scorers.models.protocol import BackendKind, Failure, Prompt, Prompts, Reward, Texts
from carb_scorers.models.source import hf_library, model_source, reachable
from carb_scorers.models.token_rows import Row, Rows


class RewardOptions(HFOptions):
    """Options of ``classifier:MODEL`` on transformers."""

    objective: str | None = None
    """The name or number of the output that is the score, for a head with several outputs."""


@dataclass(frozen=True)
class Adapter:
    """How to get scores out of an architecture."""

    loader: str | Callable[[Any, Any], Any] = "AutoModelForSequenceClassification"
    """A transformers class by name, or a function ``(transformers, config) -> class with
    from_pretrained``."""
    output: Callable[[Any], Any] = attrgetter("logits")
    """Function from the output of the model's own forward pass to one row for each answer."""
    head: str | None = "score"
    """Name of the module that turns the final hidden state of a row's last token into outputs,
    where nothing else makes the score. Where it is ``None`` or the model has no such module, its
    own forward pass is used."""
    ending: str | None = None
    """Name of the configuration's field with a token that the model expects behind every
    conversation."""
    outputs: int | None = None
    """How many outputs there are; by default the configuration's ``num_labels``."""
    closed: bool = False
    """Whether the head is read at the end of text, which stands behind every conversation."""


def _last_of_sequence(output: Any) -> Any:
    logits = output[0] if isinstance(output, tuple) else output.logits
    return logits.reshape(len(logits), -1)[:, -1:]


def _deep_head(transformers: Any, config: Any) -> Any:
    """A decoder classifier whose head is Linear, ReLU, Linear; its weights are ``score.0`` and
    ``score.2``."""
    torch = hf_library("torch")
    base = transformers.AutoModelForSequenceClassification._model_mapping[type(config)]
    size = config.get_text_config().hidden_size

    class DeepHead(base):  # type: ignore[misc, valid-type]
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            hidden = torch.nn.Linear(size, size)
            last = torch.nn.Linear(size, self.num_labels)
            self.score = torch.nn.Sequential(hidden, torch.nn.ReLU(), last)

    return DeepHead


def _one_output(transformers: Any, _: Any) -> Any:
    """A classifier with one output, even against its configuration."""
    plain = transformers.AutoModelForSequenceClassification
    return SimpleNamespace(from_pretrained=partial(plain.from_pretrained, num_labels=1))


OPENRLHF = "RewardModel"
"""The class under which OpenRLHF saves its reward models."""
ADAPTERS: dict[str, Adapter] = {
    # openrlhf/datasets/reward_dataset.py puts the end of text behind a conversation.
    OPENRLHF: Adapter(loader=_one_output, closed=True),
    # Wang et al. 2024, ArmoRM; URM, QRM: many objectives, mixed by a gate. Needs
    # trust_remote_code.
    "LlamaForRewardModelWithGating": Adapter(head=None, outputs=1),
    "Gemma2ForRewardModelWithGating": Adapter(head=None, outputs=1),
    # INF-ORM-Llama3.1-70B: a head of two layers, code on the model card only.
    "INFORMForSequenceClassification": Adapter(loader=_deep_head, outputs=1),
    # Qwen2.5-Math-RM-72B, WorldPM: a head of two layers. Needs trust_remote_code.
    "Qwen2ForRewardModel": Adapter(loader="AutoModel", output=_last_of_sequence, outputs=1),
    # Cai et al. 2024, InternLM2-Reward: a value head read at a reward token. Needs
    # trust_remote_code.
    "InternLM2ForRewardModel": Adapter(
        loader="AutoModel",
        output=_last_of_sequence,
        head="v_head",
        ending="reward_token_id",
        outputs=1,
    ),
}
"""Architecture to adapter; add to it for an architecture of one's own."""
OTHER_TASKS = ("ForTokenClassification", "ForQuestionAnswering", "ForMultipleChoice")
"""Classes whose heads have the names of a classifier's head; a process reward model, which scores
each step, is one of the first kind."""


def adapter_for(target: str, options: TemplateOptions) -> tuple[Adapter, Any]:
    """The adapter of a model, from its configuration, and its loader; the plain one where none is
    registered.

    Raises:
        CarbError: the model was trained for another task.
    """
    transformers = hf_library("transformers")
    source = options.source
    try:
        with quiet():
            adapted = adapter_config(reachable(model_source(target)), options.revision)
            if adapted is not None:
                target = base_of(target, adapted)
                source["revision"] = adapted.get("revision")
            config = transformers.AutoConfig.from_pretrained(target, **source)
    except (OSError, ValueError, KeyError):
        return (adapter := Adapter()), adapter.loader  # loading says what is wrong
    architectures = config.architectures or []
    if vars(config).keys() & {"value_head_prefix", "normalize_reward", "mean"}:
        architectures = [OPENRLHF]
    for name in architectures:
        _check_class(target, config, name)
    adapter = next((ADAPTERS[name] for name in architectures if name in ADAPTERS), Adapter())
    if isinstance(adapter.loader, str):
        return adapter, adapter.loader
    return adapter, adapter.loader(transformers, config)


def _check_class(target: str, config: Any, name: str) -> None:
    of_its_own = f".{name}'" in str(getattr(config, "auto_map", None))
    known = hasattr(hf_library("transformers"), name) and not name.endswith(OTHER_TASKS)
    if not (known or of_its_own or name in ADAPTERS):
        raise CarbError(
            f"The model '{target}' is a {name}, whose outputs are not known to be scores of whole "
            "answers. Choose a model for sequence classification, or serve it with the code that "
            "trained it, and score the server (docs/servers.md)."
        )


class HFRewardModel:
    """See ``RewardModel``; the common beginning of an item's conversations is computed once."""

    def __init__(
        self, target: str, loaded: Loaded, adapter: Adapter, options: RewardOptions
    ) -> None:
        model = loaded.model
        self.model = target
        self.revision: str | None = loaded.revision
        self._tokenizer = loaded.tokenizer
        warn_of_open_turn(loaded.tokenizer)
        labels = adapter.outputs or int(model.config.num_labels)
        self._output = _output(target, model, labels, options)
        self._takes_types = "token_type_ids" in inspect.signature(model.forward).parameters
        self._closed = adapter.closed
        if adapter.closed:
            model.config.get_text_config().pad_token_id = None  # nothing is padding: the last token
        self._ending: Ids = ()
        if adapter.ending is not None:
            self._ending = (int(getattr(model.config, adapter.ending)),)
        head: Any = getattr(model, adapter.head or "", None)
        self._passes = Passes(
            loaded,
            options,
            self._rows_of,
            forward=None if head is None else model.base_model,
            outputs=lambda output: head(output.last_hidden_state[:, -1:]),
            whole=lambda inputs: _rows(target, adapter.output(model(**inputs)), labels),
            head=True,
        )
        self.in_flight: int | None = self._passes.in_flight

    async def aclose(self) -> None:
        """Drop the model."""
        self._passes.close()

    async def rewards(self, prompts: Prompts, answers: Texts) -> list[Reward | Failure]:
        """See ``RewardModel``. The head is read where the model's own forward pass reads it."""

        # one signature for all readers
        def read(outputs: Any, rows: Rows) -> list[float]:  # noqa: ARG001
            last = outputs[:, -1, self._output]
            values: list[float] = last.double().tolist()
            return values

        run = partial(
            self._passes.run,
            prompts,
            answers,
            self._rows_of,
            read,
            lambda values, usage: Reward(values[0], usage),
        )
        return await anyio.to_thread.run_sync(run)

    def _rows_of(self, prompt: Prompt, answer: str) -> list[Row]:
        ids, types = conversation(self._tokenizer, prompt, answer, closed=self._closed)
        if not self._takes_types:
            types = ()
        return [Row((*ids, *self._ending), types=types)]


@uncollected()
def open_reward_model(target: str, options: RewardOptions) -> HFRewardModel:
    """Load ``target``.

    Raises:
        CarbError: see ``load``; or the head has several outputs and ``objective`` does not say
            which counts.
    """
    model_source(target)  # report a typing error before torch is imported, which takes seconds
    adapter, loader = adapter_for(target, options)
    return HFRewardModel(target, load(target, options, loader), adapter, options)


def _rows(target: str, given: Any, labels: int) -> Any:
    """Outputs as ``(rows, 1, labels)``.

    Raises:
        CarbError: there are more or fewer of them.
    """
    outputs = given.reshape(len(given), 1, -1)
    if outputs.shape[-1] != labels:
        raise CarbError(
            f"'{target}' gives {outputs.shape[-1]} numbers for an answer, and its configuration "
            f"names {labels} (num_labels), so that its score is not known. Serve it with the code "
            "that trained it, and score the server (docs/servers.md)."
        )
    return outputs


def _output(target: str, model: Any, labels: int, options: RewardOptions) -> int:
    """The index of the output that is the score."""
    names = [str(model.config.id2label.get(index, index)) for index in range(labels)]
    if options.objective is not None:
        matches = [i for i, name in enumerate(names) if options.objective in (name, str(i))]
        if len(matches) != 1:
            raise CarbError(
                f"'{target}' has no output '{options.objective}'; there are {', '.join(names)}."
            )
        return matches[0]
    if labels != 1:
        raise CarbError(
            f"'{target}' has {labels} outputs ({', '.join(names)}). A reward is one number: choose "
            "one with objective=NAME."
        )
    return 0


REWARD_MODEL = BackendKind(RewardOptions, open_reward_model)
