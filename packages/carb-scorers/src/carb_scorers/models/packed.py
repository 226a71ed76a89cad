"""A model whose weights stay packed, as its GGUF file holds them.

A layer's weight is unpacked whenever the layer is asked, computes what an unpacked one does, and is
dropped again. So the scores are those of the unpacked model, and memory holds the file and one
layer.
"""

from __future__ import annotations

from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

from carb_data.errors import require

CHUNK = 1 << 20
"""Weights that are unpacked at a time: what that takes besides its result stays small."""

IN_ROWS = (
    "TensorProcessor",
    "LlamaTensorProcessor",
    "Gemma2TensorProcessor",
    "NemotronTensorProcessor",
)
"""What transformers does to the weights of an architecture, where it moves no more than whole rows
of a matrix: those are bytes of their own in the file."""


def load_packed(path: Path, dtype: Any, attention: str | None) -> tuple[Any, dict[str, list[str]]]:
    """The model of a GGUF file, on the CPU, and ``missing_keys``: those weights of it that the file
    does not hold.

    It computes in ``dtype``; ``attention`` is as transformers names it, ``None`` for its own
    choice.

    Raises:
        NotImplementedError: a tensor of it cannot stay packed.
    """
    torch = require("torch", package="carb-scorers", extra="hf")
    transformers = require("transformers", package="carb-scorers", extra="hf")
    accelerate = require("accelerate", package="carb-scorers", extra="gguf")
    gguf = require("gguf", package="carb-scorers", extra="gguf")
    known = require(
        "transformers.modeling_gguf_pytorch_utils", package="carb-scorers", extra="gguf"
    )
    found = known.load_gguf_checkpoint(path)["config"]
    with accelerate.init_empty_weights():
        config = transformers.AutoConfig.for_model(**found)
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=dtype, attn_implementation=attention
        )
    reader = gguf.GGUFReader(path)
    architecture = reader.fields["general.architecture"].contents()
    moved = known.TENSOR_PROCESSORS.get(architecture, known.TensorProcessor)(config=found)
    names = known.get_gguf_hf_weights_map(model, moved)
    kept: dict[Any, Any] = {}
    for tensor in reader.tensors:
        if tensor.name not in names:
            continue
        kind = tensor.tensor_type
        layer, _, part = names[tensor.name].rpartition(".")
        module = model.get_submodule(layer)
        packed = kind != gguf.GGMLQuantizationType.F32 and len(tensor.shape) > 1
        plain = part == "weight" and isinstance(module, (torch.nn.Linear, torch.nn.Embedding))
        if packed and not (plain and type(moved).__name__ in IN_ROWS):
            raise NotImplementedError(
                f"'{tensor.name}' of the architecture '{architecture}' cannot stay packed."
            )
        held = tensor.data.view("uint8") if packed else gguf.dequantize(tensor.data, kind)
        values = torch.from_numpy(moved.process(weights=held, name=tensor.name).weights.copy())
        if packed:
            module.weight = torch.nn.Parameter(values, requires_grad=False)
            kept[module.weight] = partial(_unpacked, kind, int(tensor.shape[0]), dtype)
            kept[module.weight](values[:1])  # a type that nobody unpacks is an error now
        else:
            accelerate.utils.set_module_tensor_to_device(
                model, names[tensor.name], "cpu", values, dtype
            )
    model.tie_weights()
    for module in model.modules():
        if (unpack := kept.get(getattr(module, "weight", None))) is not None:
            module.forward = partial(
                _forward, module, unpack, isinstance(module, torch.nn.Embedding)
            )
    return model, {
        "missing_keys": [name for name, values in model.named_parameters() if values.is_meta]
    }


def _forward(module: Any, unpack: Any, looks_up: bool, given: Any) -> Any:
    """What a layer computes with its weight unpacked; of a table, the rows that are looked up
    alone."""
    weight, own = (
        module.weight,
        copy(module),
    )  # the layer itself may be asked by several threads at once
    if looks_up:
        rows, given = given.unique(return_inverse=True)
        weight, own.padding_idx = weight[rows], None
    own._parameters = {**module._parameters, "weight": unpack(weight)}
    return type(module).forward(own, given)


def _unpacked(kind: Any, columns: int, dtype: Any, packed: Any) -> Any:
    """The numbers of packed rows."""
    torch = require("torch", package="carb-scorers", extra="hf")
    blocks = require("transformers.integrations.gguf.dequant", package="carb-scorers", extra="gguf")
    gguf = require("gguf", package="carb-scorers", extra="gguf")
    values = torch.empty((len(packed), columns), dtype=dtype, device=packed.device)
    step = max(1, CHUNK // columns)
    for held, rows in zip(packed.split(step), values.split(step), strict=True):
        if kind in blocks.GGML_BLOCK:  # on the device of the weights
            rows.copy_(blocks.dequantize(held, kind).view_as(rows))
        else:
            rows.copy_(torch.from_numpy(gguf.dequantize(held.cpu().numpy(), kind)))
    return values
