"""The padded tokens of a pass on a GPU, by their arithmetic."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from carb_scorers.models.hf_memory import (
    FEWEST,
    MOST,
    ON_A_CPU,
    batch_tokens,
    bytes_per_token,
    tokens_within,
)

GIB = 2**30
SMALL = SimpleNamespace(  # as Qwen3 0.6B
    num_hidden_layers=28,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=128,
    hidden_size=1024,
    intermediate_size=3072,
    vocab_size=151_936,
)
LARGE = SimpleNamespace(  # as Qwen3 8B
    num_hidden_layers=36,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    hidden_size=4096,
    intermediate_size=12_288,
    vocab_size=151_936,
)


def test_a_token_is_its_keys_values_states_and_logits() -> None:
    remembered, states = 2 * 28 * 8 * 128 * 2, (10 * 1024 + 3 * 3072) * 2
    assert bytes_per_token(SMALL, 2) == remembered + states
    assert bytes_per_token(SMALL, 2, logits=True) == remembered + states + 151_936 * 6
    assert bytes_per_token(SMALL, 2, eager=True) == remembered + states + 16 * 2048 * 4
    assert bytes_per_token(SMALL, 4) == 2 * bytes_per_token(SMALL, 2)
    old = SimpleNamespace(
        num_hidden_layers=2, num_attention_heads=4, hidden_size=32, vocab_size=640
    )
    assert bytes_per_token(old, 4) == (2 * 2 * 32 + 10 * 32 + 3 * 128) * 4


def test_what_is_free_decides_within_bounds() -> None:
    assert tokens_within(70 * GIB, bytes_per_token(SMALL, 2)) == MOST
    assert tokens_within(70 * GIB, bytes_per_token(SMALL, 2, logits=True)) == pytest.approx(
        0.5 * 70 * GIB / 1_065_216, abs=1
    )
    assert 4096 < tokens_within(8 * GIB, bytes_per_token(LARGE, 2)) < MOST
    assert tokens_within(0, bytes_per_token(LARGE, 2)) == FEWEST


def test_a_cpu_and_the_user_have_their_own_number() -> None:
    model = SimpleNamespace(device=SimpleNamespace(type="cpu"))
    assert batch_tokens(None, model) == ON_A_CPU
    assert batch_tokens(77, model) == 77
