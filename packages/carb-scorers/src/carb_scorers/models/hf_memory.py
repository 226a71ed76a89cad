"""How many padded tokens a forward pass may have, from the memory that is free on its device."""

from typing import Any

from carb_scorers.models.source import hf_library

ON_A_CPU = 4096
"""Padded tokens on a CPU, which larger batches make no faster."""
FEWEST = 1024
"""Padded tokens on a GPU, at least."""
MOST = 65_536
"""Padded tokens on a GPU, at most: a card is busy long before."""
SHARE = 0.5
"""Share of the free memory; the rest is for what fragments it and for attention's own workspace."""


def bytes_per_token(config: Any, width: int, *, logits: bool = False) -> int:
    """The memory of a padded token: its keys and values in each layer and the states of
    one layer. Where every place is read, a row of the vocabulary comes on top.

    Args:
        config: the text configuration of the model.
        width: bytes of a number.
        logits: whether log-probabilities of every token are read, in float32 beside the model's
            own numbers.
    """
    hidden, heads = config.hidden_size, config.num_attention_heads
    shared = getattr(config, "num_key_value_heads", None) or heads
    size = getattr(config, "head_dim", None) or hidden // heads
    inner = getattr(config, "intermediate_size", None) or 4 * hidden
    remembered = 2 * config.num_hidden_layers * shared * size
    states = 10 * hidden + 3 * inner
    needed = (remembered + states) * width
    if logits:
        needed += config.vocab_size * (width + 4)
    return int(needed)


def batch_tokens(given: int | None, model: Any, *, logits: bool = False) -> int:
    """The padded tokens of a pass: those that the user gives, or what the device has room for."""
    if given is not None:
        return given
    if model.device.type != "cuda":
        return ON_A_CPU
    free, _ = hf_library("torch").cuda.mem_get_info(model.device)
    config = model.config.get_text_config()
    try:
        each = bytes_per_token(config, model.dtype.itemsize, logits=logits)
    except (AttributeError, TypeError):  # an architecture that calls its sizes otherwise
        return ON_A_CPU
    return int(min(MOST, max(FEWEST, SHARE * free / each)))
