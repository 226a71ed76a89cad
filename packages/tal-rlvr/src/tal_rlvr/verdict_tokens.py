"""Judgements as tokens: prompts as ids, the verdict's tokens, and z on the sampled ids."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from carb_data import CarbError
from tal_rlvr.judge_prompts import Message, Prompt, guard, render_plain
from tal_rlvr.judgement import MARKER, Judgement, before_verdict, parse_judgement
from tal_rlvr.masking import mask_verdict

# tokens after the marker of a well-formed output: the letter, the end of the turn, white space
_TAIL = 16


@dataclass(frozen=True)
class VerdictTokens:
    """The ids around a verdict."""

    a: int
    b: int
    marker: tuple[int, ...]
    """``Verdict:`` at the start of an answer."""
    line: tuple[int, ...]
    """A line break and ``Verdict:``."""


def verdict_tokens(tokenizer: Any) -> VerdictTokens:
    """The ids around a verdict.

    Raises:
        CarbError: after the marker the letters are not one token each, so that log pi(j) is not one
            number.
    """
    marker = text_ids(tokenizer, MARKER)
    line = text_ids(tokenizer, f"\n{MARKER}")
    letters = []
    for before, text in ((marker, MARKER), (line, f"\n{MARKER}")):
        for letter in ("A", "B"):
            verdict = f"{text} {letter}"
            ids = text_ids(tokenizer, verdict)
            decoded = tokenizer.decode(ids)
            if ids[:-1] != before or decoded.strip() != verdict.strip():
                raise CarbError(
                    f"This tokenizer does not write the verdict's letter after '{MARKER}' as one "
                    f"token of its own ({tokenizer.convert_ids_to_tokens(ids)}); Think-as-Locals "
                    "needs one that does."
                )
            letters.append(ids[-1])
    if letters[:2] != letters[2:] or letters[0] == letters[1]:
        raise CarbError(
            "This tokenizer's tokens of the verdicts A and B depend on what stands before: "
            f"{letters}."
        )
    return VerdictTokens(
        a=letters[0],
        b=letters[1],
        marker=tuple(marker),
        line=tuple(line),
    )


def make_prompt(tokenizer: Any, messages: Sequence[Message], *, chat: bool) -> Prompt:
    """The prompt for a trainer: guarded messages for a chat model, plain text for a base model."""
    guarded = guard(messages, tokenizer)
    if chat:
        return guarded
    return render_plain(guarded)


def encode_prompt(
    tokenizer: Any, prompt: Prompt, variables: Mapping[str, Any] | None = None
) -> list[int]:
    """Ids of a prompt up to where the answer begins, exactly as TRL's trainer encodes it. Variables
    of the chat template stand beside those of the tokenizer."""
    if isinstance(prompt, str):
        return list(tokenizer(text=prompt)["input_ids"])
    encoded = tokenizer.apply_chat_template(
        prompt, add_generation_prompt=True, tokenize=True, return_dict=True, **(variables or {})
    )
    return list(encoded["input_ids"])


def reasoning_ids(
    tokenizer: Any, completion: Sequence[int], tokens: VerdictTokens, *, mask: bool = False
) -> tuple[int, ...]:
    """z and the verdict's marker, so that the next token is the verdict.

    A well-formed output is cut on its sampled ids, since re-tokenising would shift borders. In any
    other one z is the text before the first marker, or all of it. The marker is appended, so that
    criteria are measured and not the format.

    Args:
        tokenizer: the tokenizer that belongs to the model.
        completion: the sampled ids.
        tokens: the verdict's tokens, from ``verdict_tokens``.
        mask: whether to mask the verdict's letters (``mask_verdict``); the text is then put into
            tokens again.
    """
    text = tokenizer.decode(completion, skip_special_tokens=True)
    if not mask and isinstance(parse_judgement(text), Judgement):
        size = len(completion)
        earliest = max(0, size - _TAIL)
        for cut in range(size - 1, earliest, -1):
            before = tuple(completion[:cut])
            is_letter = completion[cut] in (tokens.a, tokens.b)
            if is_letter and before[-len(tokens.marker) :] == tokens.marker:
                return before
    reasoning = before_verdict(text)
    if mask:
        reasoning = mask_verdict(reasoning).rstrip()
    if not reasoning:
        return tokens.marker
    return (*text_ids(tokenizer, reasoning), *tokens.line)


def text_ids(tokenizer: Any, text: str) -> list[int]:
    """Ids of a text alone, without the tokens that a model adds."""
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])
