from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_data import CarbError
from tal_rlvr.judge_rewards import VerdictRow
from tal_rlvr.verdict_logprobs import passes_of, verdict_logprobs
from tal_rlvr.verdict_tokens import encode_prompt, verdict_tokens

torch = pytest.importorskip("torch", reason="needs tal-rlvr[train]")


def by_hand(model, ids, tokens):
    """One row, no padding, no cache."""
    with torch.no_grad():
        logprobs = (
            model.eval()(input_ids=torch.tensor([ids])).logits[0, -1].double().log_softmax(-1)
        )
    return float(logprobs[tokens.a]), float(logprobs[tokens.b])


ROWS = [
    VerdictRow((5, 6, 7, 8), (9,)),
    VerdictRow((5, 6, 7, 8), (10, 11, 12)),
    VerdictRow((30, 31), (10, 11)),
    VerdictRow((5, 6, 7, 8), (40, 41, 42, 43, 44, 45)),
    VerdictRow((30, 31), (9,)),
    VerdictRow(tuple(range(50, 70)), (9, 10)),
]


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("budget", [1, 30, 10_000])
def test_log_probabilities_depend_on_the_row_alone(tiny_model, tiny_tokenizer, share, budget):
    tokens = verdict_tokens(tiny_tokenizer)
    tiny_model.train()
    verdict_logprobs(tiny_model, ROWS, tokens)
    assert tiny_model.training
    values = verdict_logprobs(tiny_model.eval(), ROWS, tokens, budget=budget, share_prefix=share)
    for row, value in zip(ROWS, values, strict=True):
        assert value == pytest.approx(
            by_hand(tiny_model, [*row.prefix, *row.suffix], tokens), abs=1e-5
        )


def states_by_hand(model, row):
    """The last hidden state of a row in bfloat16, as the model gives it to its head."""
    with torch.no_grad():
        return model.model(input_ids=torch.tensor([[*row.prefix, *row.suffix]])).last_hidden_state[
            0, -1
        ]


@pytest.mark.parametrize("autocast", [False, True])
def test_in_bfloat16_the_verdicts_are_products_in_float32(tiny_model, tiny_tokenizer, autocast):
    """The model's own logits lie on a lattice: their gaps were multiples of a power of two, 1/8 nat
    in a real model."""
    tokens = verdict_tokens(tiny_tokenizer)
    if not autocast:
        tiny_model.to(torch.bfloat16)
    tiny_model.lm_head.weight.data *= 10  # logits as large as those of real models
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        found = verdict_logprobs(tiny_model.eval(), ROWS, tokens, budget=1)
        states = [states_by_hand(tiny_model, row) for row in ROWS]
    gaps = [a - b for a, b in found]
    weight = tiny_model.lm_head.weight.detach()[[tokens.a, tokens.b]].float()
    exact = [state.float() @ weight.T for state in states]
    assert gaps == pytest.approx([float(a - b) for a, b in exact], abs=1e-4)
    assert not all(gap * 64 == pytest.approx(round(gap * 64), abs=1e-6) for gap in gaps)


def test_in_bfloat16_no_probability_is_above_1(tiny_model, tiny_tokenizer):
    """The letters were exact, and the sum over the vocabulary was not: the paper's R_appr read a
    probability of 1.04."""
    tokens = verdict_tokens(tiny_tokenizer)
    tiny_model.to(torch.bfloat16)
    tiny_model.lm_head.weight.data[tokens.a] *= 5  # a reader that is sure of A in some rows
    rows = [VerdictRow((n,), (n + 1, n + 2)) for n in range(5, 60)]
    values = torch.tensor(verdict_logprobs(tiny_model, rows, tokens), dtype=torch.float64)
    assert float(values.exp().sum(dim=1).max()) <= 1 + 1e-6
    assert float(values[:, 0].exp().max()) > 0.9


def test_prompts_are_encoded_as_trl_encodes_them(tiny_tokenizer):
    messages = [{"role": "user", "content": "rice?"}]
    text = tiny_tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert (
        encode_prompt(tiny_tokenizer, messages)
        == tiny_tokenizer(text, add_special_tokens=False)["input_ids"]
    )
    assert encode_prompt(tiny_tokenizer, "rice?") == tiny_tokenizer("rice?")["input_ids"]


def test_a_tokenizer_that_splits_the_verdict_is_refused(tiny_tokenizer):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    inner.pre_tokenizer, inner.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    with pytest.raises(CarbError, match="one token"):
        verdict_tokens(PreTrainedTokenizerFast(tokenizer_object=inner))


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 3), st.integers(1, 20)), max_size=20),
    st.integers(1, 200),
    st.none() | st.integers(1, 60),
)
def test_a_pass_has_no_more_tokens_than_it_may(shapes, budget, window):
    rows = [VerdictRow((letter,) * prefix, (9,) * suffix) for prefix, letter, suffix in shapes]
    passes = passes_of(rows, budget=budget, window=window)
    assert sorted(index for one in passes for index in one) == list(range(len(rows)))
    for one in passes:
        longest = max(len(rows[i].prefix) + len(rows[i].suffix) for i in one)
        assert len(one) == 1 or longest * len(one) <= min(budget, (window or budget) * len(one))
