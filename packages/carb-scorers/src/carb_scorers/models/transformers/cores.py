"""What a model computes for packs of rows: final hidden states where they can be had, its own outputs elsewhere.

A core turns packs into *states*, a tensor ``(reads, D)``: one line for each read of each row, in order. Which core
and which short cuts suit a model is not assumed from its name but tried on a few tokens (``probe``).
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from carb_data.extras import require
from carb_scorers.models.transformers.attention import split
from carb_scorers.models.transformers.batching import Cost, Pack, Row

_FULL, _SLIDING = "full_attention", "sliding_attention"
"""Kinds of attention, as transformers names them in ``layer_types``; a pack's mask is known for these."""


class Core(Protocol):
    """See the module's text."""

    device: Any
    packable: bool
    """Rows may share a sequence."""
    paddable: bool
    """Packs of different length may share a pass."""
    together: bool
    """Rows of one item share passes, padded, where they cannot share a sequence."""
    cost: Cost

    def states(self, packs: Sequence[Pack]) -> Any:
        """Tensor ``(reads, D)`` on the core's device."""
        ...


class HasCore(Protocol):
    """A worker: a core, and whatever reads its states."""

    @property
    def core(self) -> Core:
        """What the executor runs."""
        ...


class HiddenCore:
    """Final hidden states of a decoder: its body without its head, padded on the right.

    Causal attention keeps padding on the right out of sight by itself, so a mask is needed only for packs. The
    body is given 4-dimensional masks, which transformers passes on as they are; a model whose layers attend in
    several ways takes one mask for each way.
    """

    def __init__(self, model: Any, *, compiled: bool = False) -> None:
        torch = require("torch", package="carb-scorers", extra="hf")
        self._torch = torch
        config = model.config.get_text_config()
        attention = getattr(config, "_attn_implementation", None)
        self._body = torch.compile(model.base_model, dynamic=True) if compiled else model.base_model
        self._window: int | None = getattr(config, "sliding_window", None)
        self._kinds = set(getattr(config, "layer_types", None) or ({_SLIDING} if self._window else {_FULL}))
        self._eager = attention == "eager"
        self._config = config
        self.split = attention == "sdpa" and model.device.type == "cpu" and not compiled
        self._dtype = model.dtype
        self.device = model.device
        self.packable = attention in {"sdpa", "eager"} and self._kinds <= {_FULL, _SLIDING}
        self.paddable = True
        self.together = False
        self.cost = _cost(model, config, split=self.split)

    def states(self, packs: Sequence[Pack]) -> Any:
        torch = self._torch
        width = max(pack.length for pack in packs)
        ids = torch.zeros((len(packs), width), dtype=torch.long)
        positions = torch.zeros_like(ids)
        segments = torch.full_like(ids, -1)
        lines: list[int] = []
        columns: list[int] = []
        for line, pack in enumerate(packs):
            tokens, place, segment = pack.layout()
            ids[line, : pack.length] = torch.tensor(tokens)
            positions[line] = torch.arange(width)
            positions[line, : pack.length] = torch.tensor(place)
            segments[line, : pack.length] = torch.tensor(segment)
            reads = pack.places()
            lines.extend([line] * len(reads))
            columns.extend(reads)
        packed = any(len(pack.rows) > 1 for pack in packs)
        longest = max(len(row.tokens) for pack in packs for row in pack.rows)
        inside = self._window is None or longest <= self._window
        inputs = {"input_ids": ids.to(self.device), "position_ids": positions.to(self.device), "use_cache": False}
        if packed and self.split and inside:
            with split(self._config, packs):
                hidden = self._body(**inputs, attention_mask=self._by_kind(dict.fromkeys(self._kinds, _unused(torch))))
        elif packed:
            hidden = self._body(**inputs, attention_mask=self._masks(inputs["position_ids"], segments.to(self.device)))
        else:
            hidden = self._body(**inputs)
        hidden = hidden.last_hidden_state
        return hidden[torch.tensor(lines, device=hidden.device), torch.tensor(columns, device=hidden.device)]

    def _masks(self, positions: Any, segments: Any) -> Any:
        """Each token sees what stands before it in the prefix or in its own tail; padding sees the prefix."""
        torch = self._torch
        width = segments.shape[1]
        past = torch.ones((width, width), dtype=torch.bool, device=segments.device).tril()
        query, key = segments[:, :, None], segments[:, None, :]
        seen = {_FULL: past & ((key == 0) | (key == query))}
        if self._window is not None:
            seen[_SLIDING] = seen[_FULL] & (positions[:, :, None] - positions[:, None, :] < self._window)
        return self._by_kind({kind: self._as_attention_wants(seen[kind][:, None]) for kind in self._kinds})

    def _by_kind(self, masks: dict[str, Any]) -> Any:
        """A model whose layers attend in several ways takes a mask for each, others take the mask itself."""
        return masks if len(masks) > 1 else next(iter(masks.values()))

    def _as_attention_wants(self, seen: Any) -> Any:
        """sdpa takes what may be seen; eager attention adds numbers to its scores."""
        if not self._eager:
            return seen
        hidden = self._torch.finfo(self._dtype).min
        return self._torch.zeros(seen.shape, dtype=self._dtype, device=seen.device).masked_fill(~seen, hidden)


class OwnCore:
    """A model's own forward pass, for encoders and for whatever has a head or a mask of its own.

    Args:
        model: any transformers model.
        output: the function that reads ``(rows, D)`` or ``(rows, tokens, D)`` from the model's output.
        per_token: the output has a line per token (language models), not per row (classifiers).
        compiled: whether to run the forward pass through ``torch.compile``.
    """

    packable = False

    def __init__(self, model: Any, output: Callable[[Any], Any], *, per_token: bool, compiled: bool = False) -> None:
        self._torch = require("torch", package="carb-scorers", extra="hf")
        self._model = model
        self._call = self._torch.compile(model, dynamic=True) if compiled else model
        self._output = output
        self._per_token = per_token
        self.paddable = self.together = not per_token
        self._options = {"use_cache": False} if per_token else {}
        self._keeps = per_token and "logits_to_keep" in inspect.signature(model.forward).parameters
        self.device = model.device
        self.cost = Cost()

    def states(self, packs: Sequence[Pack]) -> Any:
        torch = self._torch
        rows = [pack.rows[0] for pack in packs]
        width = max(len(row.tokens) for row in rows)
        padding = getattr(self._model.config.get_text_config(), "pad_token_id", None) or 0
        ids = torch.full((len(rows), width), padding, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for line, row in enumerate(rows):
            ids[line, : len(row.tokens)] = torch.tensor(row.tokens)
            mask[line, : len(row.tokens)] = 1
        arguments = {"input_ids": ids.to(self.device), "attention_mask": mask.to(self.device)}
        if self._keeps:  # a row at a time, since these cores do not pad
            arguments["logits_to_keep"] = torch.tensor(rows[0].reads, device=self.device)
        output = self._output(self._call(**arguments, **self._options))
        if self._keeps:
            return output[0]
        if not self._per_token:
            return output
        return torch.cat([output[line, list(row.reads)] for line, row in enumerate(rows)])

    def alone(self, row: Row) -> Any:
        """States ``(reads, D)`` of one row by itself: what every other way must agree with."""
        return self.states([row_alone(row)])


class LanguageHead:
    """Logits from final hidden states by the model's own code: scaling and soft caps included.

    The model is copied without its weights, and its body replaced by one that returns given states.

    Attributes:
        output: name of the model's own linear layer from states to the vocabulary; ``None`` where there is no such
            layer, or where computing only some of its lines does not give their logits.
    """

    def __init__(self, model: Any) -> None:
        self._torch = require("torch", package="carb-scorers", extra="hf")
        self._head = _without_body(model)
        self._forward = type(model).forward
        output = model.get_output_embeddings()  # of the whole model: without a body transformers gives none
        plain = type(output) is self._torch.nn.Linear
        self.output = next((name for name, part in model._modules.items() if plain and part is output), None)
        self._narrow: tuple[tuple[int, ...], Any] | None = None

    def logits(self, states: Any, wanted: Sequence[int] | None = None) -> Any:
        """float32 logits ``(reads, vocabulary)``, or only of the ``wanted`` entries, ``(reads, len(wanted))``."""
        head = self._head if wanted is None else self._narrowed(tuple(wanted))
        logits = self._run(head, states)
        return logits if wanted is None or logits.shape[-1] == len(wanted) else logits[:, list(wanted)]

    def _run(self, head: Any, states: Any) -> Any:
        head._modules[head.base_model_prefix].given = states[None]
        places = self._torch.zeros((1, states.shape[0]), dtype=self._torch.long, device=states.device)
        return self._forward(head, input_ids=places, use_cache=False).logits[0].float()

    def _narrowed(self, wanted: tuple[int, ...]) -> Any:
        """The head with only some lines of its output matrix: a vocabulary of 262k costs as much as a model."""
        if self.output is None:
            return self._head
        if self._narrow is None or self._narrow[0] != wanted:
            head = copy.copy(self._head)
            head._modules = dict(self._head._modules)
            narrow = head._modules[self.output] = copy.copy(head._modules[self.output])
            narrow._parameters = {
                name: None if value is None else value[list(wanted)] for name, value in narrow._parameters.items()
            }
            self._narrow = wanted, head
        return self._narrow[1]


class OwnLogits:
    """The head's twin for a core whose states are logits already."""

    def logits(self, states: Any, wanted: Sequence[int] | None = None) -> Any:
        """As ``LanguageHead.logits``."""
        return states.float() if wanted is None else states[:, list(wanted)].float()


def _without_body(model: Any) -> Any:
    torch = require("torch", package="carb-scorers", extra="hf")
    outputs = require("transformers", package="carb-scorers", extra="hf").modeling_outputs

    class FixedBody(torch.nn.Module):  # type: ignore[misc, name-defined]
        given: Any = None

        def forward(self, *_: Any, **__: Any) -> Any:
            return outputs.BaseModelOutputWithPast(last_hidden_state=self.given)

    head = copy.copy(model)
    head._modules = {**model._modules, model.base_model_prefix: FixedBody()}
    return head


def _unused(torch: Any) -> Any:
    """A mask in name only: of four dimensions, so that transformers makes none of its own."""
    return torch.ones((1, 1, 1, 1), dtype=torch.bool)


def _cost(model: Any, config: Any, *, split: bool) -> Cost:
    """Attention against linear layers, from their multiplications; kernels reach half the speed in attention."""
    body = sum(p.numel() for name, p in model.base_model.named_parameters() if "embed" not in name)
    heads = getattr(config, "num_attention_heads", 0) * (getattr(config, "head_dim", None) or 0)
    width = heads or getattr(config, "hidden_size", 0)
    layers = getattr(config, "num_hidden_layers", 1)
    return Cost(attention=2 * layers * width / max(body, 1), split=split)


def lay_out(model: Any) -> None:
    """Keep the weights of linear layers column by column, where Intel's MKL multiplies by them (float32 on a CPU).

    MKL copies a matrix of weights before it multiplies, faster from columns than from rows. Beside a pass over one
    item's few tokens that copy is no small thing; ``benchmarks/bench_scorers.py`` measures it. Only for transformers'
    own code, since other code may count on how weights lie, and not for embeddings, which are read by rows.
    """
    torch = require("torch", package="carb-scorers", extra="hf")
    if not torch.backends.mkl.is_available() or not type(model).__module__.startswith("transformers."):
        return
    layers = list(model.modules())
    read_by_rows = {id(layer.weight) for layer in layers if isinstance(layer, torch.nn.Embedding)}
    for layer in layers:
        weight = layer.weight if type(layer) is torch.nn.Linear else None
        if weight is None or id(weight) in read_by_rows:
            continue
        if weight.dtype == torch.float32 and weight.device.type == "cpu":
            weight.data = weight.data.t().contiguous().t()


def row_alone(row: Row) -> Pack:
    """A pack of one row."""
    return Pack((row,), len(row.tokens))
