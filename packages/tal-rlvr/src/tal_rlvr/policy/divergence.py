"""How far a policy has moved from where it started: KL(policy ‖ reference), in nats per answer.

KL = E over the policy's answers y of Σ_t KL(π(·|y_<t) ‖ π_ref(·|y_<t)): the exact divergence of the next-token
distributions at each place of a sampled answer, summed over the answer. It has the same mean as the sum of
log π(y_t) − log π_ref(y_t), a lower variance, and is never negative (Amini, Vieira and Cotterell 2025, Better
estimation of the KL divergence between language models, arXiv:2504.10637, the Rao–Blackwellised estimator).
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from carb_data.extras import require
from carb_scorers.bon import SamplePool
from carb_scorers.bon.policies import PolicyPrompt
from carb_scorers.models.tokens import answer_ids, prompt_ids

Forward = Callable[..., Any]
"""A causal language model, or a function with its signature."""


def pool_divergence(
    model: Forward,
    reference: Forward,
    tokenizer: Any,
    prompts: Sequence[PolicyPrompt],
    pool: SamplePool,
    temperature: float = 1.0,
) -> float | None:
    """Mean KL over the samples of a pool that ``model`` gave; null where there are none.

    An answer is read from its text. A model's memory bounds it: each prompt is read once, its different answers
    together.

    Args:
        model: The policy that is measured.
        reference: the policy that it is compared with.
        tokenizer: the tokenizer that both models use.
        prompts: the prompts in the form in which the policy received them.
        pool: the policy's answers; failed ones do not count.
        temperature: the temperature at which the answers were sampled.
    """
    total, answers = 0.0, 0
    for prompt in prompts:
        rows = Counter((s.text, s.finished) for s in pool.samples.get(prompt.id, ()) if s.error is None)
        if not rows:
            continue
        lead = "" if tokenizer.chat_template else " "
        ids = [answer_ids(tokenizer, f"{lead}{text}", end_of_turn=False) if text.strip() else [] for text, _ in rows]
        places = [len(row) + finished for row, (_, finished) in zip(ids, rows, strict=True)]
        found = answer_divergences(model, reference, prompt_ids(tokenizer, prompt.prompt), ids, places, temperature)
        total += sum(kl * count for kl, count in zip(found, rows.values(), strict=True))
        answers += rows.total()
    return total / answers if answers else None


def answer_divergences(
    model: Forward,
    reference: Forward,
    prompt: Sequence[int],
    answers: Sequence[Sequence[int]],
    places: Sequence[int],
    temperature: float = 1.0,
) -> list[float]:
    """KL of each answer to one prompt, in nats.

    Args:
        model: The policy that is measured.
        reference: the policy that it is compared with.
        prompt: token ids, not empty.
        answers: token ids of each answer; may be empty.
        places: for each answer, how many next-token distributions count, from the first: its length, and one more
            if it ended by itself.
        temperature: the temperature at which the answers were sampled.
    """
    torch = require("torch", package="tal-rlvr", extra="train")
    with torch.no_grad():
        mine, other = (_log_probs(torch, one, prompt, answers, temperature) for one in (model, reference))
        kl = (mine.exp() * (mine - other)).sum(-1)  # (answers, places)
    return [float(row[:count].sum()) for row, count in zip(kl, places, strict=True)]


def _log_probs(
    torch: Any, model: Forward, prompt: Sequence[int], answers: Sequence[Sequence[int]], temperature: float
) -> Any:
    """(answers, longest + 1, vocabulary): log-probabilities of the next token from the prompt's end on.

    Shorter answers are padded behind their end, which nothing before it sees.
    """
    device = getattr(model, "device", None)
    out = model(input_ids=torch.tensor([list(prompt)], device=device), use_cache=True, logits_to_keep=1)
    logits = out.logits.expand(len(answers), -1, -1)
    longest = max(map(len, answers))
    if longest:
        cache = copy.deepcopy(out.past_key_values)
        cache.batch_repeat_interleave(len(answers))
        rows = [[*row, *[0] * (longest - len(row))] for row in answers]
        rest = model(input_ids=torch.tensor(rows, device=device), past_key_values=cache, use_cache=True)
        logits = torch.cat([logits, rest.logits], dim=1)
    return torch.log_softmax(logits.float() / temperature, dim=-1)
