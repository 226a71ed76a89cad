"""Do prompts and warm-up targets fit? A run that cannot learn is refused, with the numbers."""

from collections.abc import Callable, Sequence
from statistics import median

from carb_data import CarbError, Frozen
from tal_rlvr.mix import Parts
from tal_rlvr.preferences import OrderedPair, both_orders

ENOUGH = 0.9
"""Smallest share of targets, and of pairs, that must fit."""


class Lengths(Frozen):
    """The measured lengths, in tokens; ``lengths.json`` of a run."""

    room: int | None
    """Longest prompt that fits beside an output; null where nothing bounds it."""
    train_pairs: int
    too_long: int
    """Training pairs that are left out: their prompt does not fit in both orders."""
    longest_prompt: int


def fitting(
    parts: Parts,
    count: Callable[[Sequence[OrderedPair]], list[int]],
    *,
    max_new_tokens: int,
    context: int | None,
    max_prompt_tokens: int | None = None,
) -> tuple[Parts, Lengths]:
    """The pairs whose prompts fit, and the numbers.

    Args:
        parts: training and held-out pairs.
        count: the function that counts the tokens of each row's prompt.
        max_new_tokens: length of the longest output, in tokens.
        context: longest prompt and output together that the model takes, in tokens; null where it
            does not say.
        max_prompt_tokens: the length in tokens above which a prompt's pair is left out. Null leaves
            out pairs that the context cannot hold, and refuses when these are many.

    Raises:
        CarbError: too few pairs fit; the message has the numbers and names the options.
    """
    room = max_prompt_tokens
    if room is None and context is not None:
        room = context - max_new_tokens
    kept = Parts([], [], [])
    longest = 0
    for side, pairs in zip(kept, parts, strict=True):
        for pair in pairs:
            tokens = max(count(both_orders(pair)))
            longest = max(longest, tokens)
            if room is None or tokens <= room:
                side.append(pair)
    fit, all_pairs = len(kept.train), len(parts.train)
    if fit == 0 or (max_prompt_tokens is None and fit < ENOUGH * all_pairs):
        raise CarbError(
            f"The prompts of {fit} of {all_pairs} training pairs fit in {room} tokens "
            f"(max_prompt_tokens = {max_prompt_tokens}; the model's {context} tokens less "
            f"max_new_tokens = {max_new_tokens}); the longest has {longest}. Take a model with a "
            "longer context or another tokenizer, lower max_new_tokens, set mix.languages, or set "
            "max_prompt_tokens to train on those that fit."
        )
    return kept, Lengths(
        room=room,
        train_pairs=all_pairs,
        too_long=all_pairs - fit,
        longest_prompt=longest,
    )


def check_targets(targets: Sequence[int], max_new_tokens: int) -> None:
    """Refuse a warm-up most of whose targets would be cut off.

    Args:
        targets: tokens of the warm-up's targets, the end of the turn included; empty without a
            warm-up.
        max_new_tokens: length of the longest output, in tokens.

    Raises:
        CarbError: fewer than 90% fit; the message has the numbers and names the option to raise.
    """
    fit = sum(tokens <= max_new_tokens for tokens in targets)
    if fit >= ENOUGH * len(targets):
        return
    raise CarbError(
        f"Only {fit} of {len(targets)} warm-up targets fit in max_new_tokens = {max_new_tokens}; "
        f"their median is {median(targets):.0f} tokens, the longest has {max(targets)}. "
        "Most judgements would end before their verdict. "
        f"Set max_new_tokens to {max(targets)} or more, or give shorter ones."
    )
