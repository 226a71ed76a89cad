"""The padded tokens of a pass on a GPU, by their arithmetic."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")

import torch

from carb_scorers.models.hf_memory import FEWEST, MOST, ON_A_CPU, batch_tokens, bytes_per_token

GIB = 2**30
SMALL = SimpleNamespace(
    num_hidden_layers=28,
    hidden_size=1024,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=128,
    intermediate_size=3072,
    vocab_size=151_936,
)
"""As Qwen3 0.6B."""
LARGE = SimpleNamespace(
    num_hidden_layers=36,
    hidden_size=4096,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    intermediate_size=12_288,
    vocab_size=151_936,
)
"""As Qwen3 8B."""
OLD = SimpleNamespace(num_hidden_layers=12, hidden_size=768, num_attention_heads=12)
"""As GPT-2, which names neither heads of keys nor inner sizes."""


def model(config: SimpleNamespace, device: str = "cuda") -> SimpleNamespace:
    held = SimpleNamespace(get_text_config=lambda: config)
    return SimpleNamespace(device=SimpleNamespace(type=device), dtype=torch.bfloat16, config=held)


def test_a_token_is_its_keys_values_states_and_logits() -> None:
    assert bytes_per_token(SMALL, 2) == 2 * (2 * 28 * 8 * 128 + 10 * 1024 + 3 * 3072)
    assert bytes_per_token(OLD, 4) == 4 * (2 * 12 * 768 + 10 * 768 + 12 * 768)
    assert bytes_per_token(SMALL, 2, logits=True) == bytes_per_token(SMALL, 2) + 151_936 * 6
    assert bytes_per_token(SMALL, 4) == 2 * bytes_per_token(SMALL, 2)


@pytest.mark.parametrize(
    ("config", "logits", "free", "tokens"),
    [
        (SMALL, False, 70, MOST),
        (SMALL, True, 70, int(0.5 * 70 * GIB / 1_065_216)),
        (LARGE, False, 8, int(0.5 * 8 * GIB / 303_104)),
        (LARGE, False, 0, FEWEST),
        (SimpleNamespace(), False, 70, ON_A_CPU),
    ],
)
def test_what_is_free_decides_within_bounds(
    monkeypatch: pytest.MonkeyPatch,
    config: SimpleNamespace,
    logits: bool,
    free: int,
    tokens: int,
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free * GIB, 80 * GIB))
    assert batch_tokens(None, model(config), logits=logits) == tokens


def test_a_cpu_and_the_user_have_their_own_number() -> None:
    assert batch_tokens(None, model(SMALL, "cpu")) == ON_A_CPU
    assert batch_tokens(77, model(SMALL)) == 77
