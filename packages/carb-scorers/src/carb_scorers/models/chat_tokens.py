"""Prompts and answers as token ids: chat templates, base models, and texts that would like to be
control tokens."""

import logging
import math
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from jinja2 import TemplateError

from carb_data import CarbError, Message
from carb_scorers.jinja_filling import TEMPLATE_FAULTS
from carb_scorers.models.marks import (
    broken_up,
    opened_thought,
    unthought,
    without_thinking,
)
from carb_scorers.models.protocol import Choices, Prompt, Texts, Watch, chat, message, plain_text
from carb_scorers.models.shared_prefix import common_prefix
from carb_scorers.scorer import Usage

__all__ = ["guarded"]


_log = logging.getLogger(__name__)
Ids = tuple[int, ...]
"""Ids of tokens."""
_ASKING = message("user", "?")


def prompt_ids(tokenizer: Any, prompt: Prompt, *, answers_at_once: bool = False) -> list[int]:
    """Token ids of a prompt up to the place where the answer begins.

    With a chat template they are the chat up to the assistant's turn. Without one they are the
    messages as plain text and the cue, behind the model's special tokens of a start. With
    ``answers_at_once`` the answer itself is read at that place, so that no thought may come before
    it.

    Raises:
        CarbError: the chat template begins a thought there, or puts the answer elsewhere.
    """
    text = _prompt_text(tokenizer, prompt)
    if answers_at_once and tokenizer.chat_template:
        _check_end(tokenizer, text)
    if prompt.bare and not tokenizer.chat_template:
        return list(tokenizer(text, verbose=False)["input_ids"])
    return _ids(tokenizer, text)


def _check_end(tokenizer: Any, text: str) -> None:
    """Refuse a prompt behind which its chat template puts no answer.

    Raises:
        CarbError: the model would think there, or the answer belongs elsewhere.
    """
    if thought := opened_thought(text, str(tokenizer.chat_template)):
        raise CarbError(
            f"This model's chat template ends a prompt with {thought}, so that the model thinks "
            "before it answers, and no answer can be read there. Use "
            'chat_template_kwargs={"enable_thinking": false} where the template knows that, '
            "another chat_template=, or, for a judge, read=generate."
        )
    asked = _rendered(tokenizer, chat([_ASKING]), add_generation_prompt=True)
    before = _around_answer(tokenizer)[0]
    if unthought(asked) != unthought(before):
        raise CarbError(
            "This model's chat template does not end a prompt where it puts the answer, so that "
            "none can be read there. Give another chat_template=."
        )


def answer_ids(tokenizer: Any, answer: str, *, end_of_turn: bool) -> list[int]:
    """Token ids of an answer, behind ``prompt_ids``.

    Args:
        tokenizer: The tokenizer of the model.
        answer: the answer's text, tokenised on its own, so that its tokens are the same whatever
            the prompt ends with.
        end_of_turn: with a chat template, whether the token that ends the assistant's turn belongs
            to the answer. Preference optimisation trains on it (TRL appends it to every
            completion), so an implicit reward includes it.
    """
    answer = guarded(tokenizer, answer)
    if not tokenizer.chat_template:
        return list(tokenizer(answer, add_special_tokens=False, verbose=False)["input_ids"])
    ids = _ids(tokenizer, answer, start=False)
    if not end_of_turn:
        return ids
    return [*ids, *_end_of_turn(tokenizer)]


def conversation(
    tokenizer: Any, prompt: Prompt, answer: str, *, closed: bool = False
) -> tuple[Ids, Ids]:
    """Token ids of a whole conversation for a reward model, and token types where the tokenizer
    gives some.

    With a chat template, the template's own rendering of both turns. Without one, prompt and answer
    as a pair of texts where the tokenizer has a separator, else as one text with a line break.
    With ``closed`` the end of text stands behind it, as OpenRLHF puts it there.
    """
    if tokenizer.chat_template:
        text = _templated(tokenizer, [*prompt.messages, message("assistant", answer)])
        if closed:
            text = text.rstrip("\n")
            if not text.endswith(tokenizer.eos_token):
                text += f" {tokenizer.eos_token}"
        encoded = tokenizer(text, add_special_tokens=False, verbose=False)
    else:
        texts = [guarded(tokenizer, text) for text in (plain_text(prompt), answer)]
        if not tokenizer.sep_token:
            texts = ["\n".join(texts)]
        encoded = tokenizer(*texts, verbose=False)
    return tuple(encoded["input_ids"]), tuple(encoded.get("token_type_ids", ()))


class WordTree(NamedTuple):
    """Some short answers as a tree of tokens: the queries that give the probability of each."""

    lead: Ids
    """Tokens that all of them begin with."""
    endings: Mapping[str, Ids]
    """Each answer's tokens behind the lead."""
    after: Mapping[Ids, Ids]
    """Map from a path behind the lead, ``()`` first, to the tokens whose log-probabilities are
    wanted there."""

    def choices(self, read: Sequence[Sequence[float]], usage: Usage) -> Choices:
        """Log-probability of each answer, without longer ones that begin with it. ``read`` holds
        the log-probabilities of the tokens of each path of ``after``, in order."""
        steps = {
            path: dict(zip(tokens, values, strict=True))
            for (path, tokens), values in zip(self.after.items(), read, strict=True)
        }
        logprobs = {}
        for text, ids in self.endings.items():
            going_on = [steps[ids][token] for token in self.after.get(ids, ())]
            longer = math.fsum(map(math.exp, going_on))
            rest = -math.inf
            if longer < 1.0:
                rest = math.log1p(-longer)
            each = [steps[ids[:i]][token] for i, token in enumerate(ids)]
            logprobs[text] = sum(each) + rest
        mass = math.fsum(map(math.exp, logprobs.values()))
        return Choices(logprobs, mass=mass, usage=usage)


def word_tree(tokenizer: Any, wanted: Texts) -> WordTree:
    """The tree of some short answers: bare where a chat template ends the prompt, after a space
    behind a plain cue.

    Raises:
        CarbError: the tokenizer gives them the same tokens.
    """
    context = _prompt_text(tokenizer, Prompt((_ASKING,), cue="\n\nAnswer:"))
    before = _ids(tokenizer, context)
    space = " "
    if tokenizer.chat_template:
        space = ""
    words = []
    for text in wanted:
        whole = _ids(tokenizer, f"{context}{space}{text}")
        answer = whole[len(before) :]
        if not answer or whole[: len(before)] != before:
            # The border is merged away, and the answer's own tokens are the best there is.
            answer = tokenizer(text, add_special_tokens=False)["input_ids"]
        words.append(tuple(answer))
    if len(set(words)) != len(words) or not all(words):
        raise CarbError(
            f"This model's tokenizer does not tell {', '.join(wanted)} apart; use read=generate."
        )
    lead = words[0][: common_prefix(words)]
    endings = {}
    after: dict[Ids, set[int]] = {}
    for text, word in zip(wanted, words, strict=True):
        ending = word[len(lead) :]
        endings[text] = ending
        for index, token in enumerate(ending):
            after.setdefault(ending[:index], set()).add(token)
    in_order = {path: tuple(sorted(after[path])) for path in sorted(after)}
    return WordTree(lead, endings, in_order)


def watched_ids(tokenizer: Any, watch: Watch | None) -> Ids:
    """The token of each watched word behind its context; none without a watch.

    Raises:
        CarbError: a word is not one token there.
    """
    if watch is None:
        return ()
    before = _ids(tokenizer, watch.after, start=False)
    token_ids = []
    for word in watch.words:
        ids = _ids(tokenizer, f"{watch.after} {word}", start=False)
        if ids[:-1] != before:
            raise CarbError(
                f"This tokenizer does not write '{word}' behind '{watch.after}' as one token of "
                f"its own ({tokenizer.convert_ids_to_tokens(ids)}), so that its probability cannot "
                "be read there."
            )
        token_ids.append(ids[-1])
    return tuple(token_ids)


def watched_choices(
    tokenizer: Any,
    watch: Watch | None,
    ids: Sequence[int],
    values_at: Callable[[int], Sequence[float]],
) -> Choices | None:
    """How probable the watched words were where the last of them was written; ``None`` where none
    was. ``values_at`` gives their log-probabilities at a token's index."""
    if watch is None:
        return None
    words = set(watched_ids(tokenizer, watch))
    for index in reversed(range(len(ids))):
        if ids[index] not in words:
            continue
        before = str(tokenizer.decode(ids[:index]))
        if before.rstrip().endswith(watch.after):
            return Choices(dict(zip(watch.words, values_at(index), strict=True)))
    return None


def guarded(tokenizer: Any, text: str) -> str:
    """The text with every control token of the tokenizer broken up by a space.

    A candidate that holds ``<|im_end|>`` could otherwise end the user's turn and speak for the
    judge.
    """
    return _controls(tokenizer).sub(broken_up, text)


H = TypeVar("H", bound=Hashable)


def groups_of(keys: Sequence[H | None]) -> list[list[int]]:
    """Indices by key, in order of first appearance; ``None`` is a group of its own each time."""
    groups: dict[object, list[int]] = {}
    for index, key in enumerate(keys):
        name = (index, None) if key is None else key
        groups.setdefault(name, []).append(index)
    return list(groups.values())


def _prompt_text(tokenizer: Any, prompt: Prompt) -> str:
    if tokenizer.chat_template:
        return _templated(tokenizer, prompt.messages, add_generation_prompt=True)
    messages = (message(one.role, guarded(tokenizer, one.content)) for one in prompt.messages)
    return plain_text(Prompt(tuple(messages), cue=prompt.cue))


def _templated(tokenizer: Any, messages: Sequence[Message], **given: bool) -> str:
    """A conversation as the chat template renders it, without control tokens of its own.

    Raises:
        ValueError: the template leaves out a turn or some of it, or changes its text, so that a
            score would be that of another text.
    """
    turns = chat(messages, partial(guarded, tokenizer))
    text = _rendered(tokenizer, turns, **given)
    written = unthought(text)
    contents = []
    for turn in turns:
        content = unthought(turn["content"])
        if content not in written:  # a template may leave thoughts out
            content = unthought(without_thinking(turn["content"])) or content
        contents.append(content)
    for turn, content in zip(turns, contents, strict=True):
        times = sum(other.count(content) for other in contents)
        if content and written.count(content) < times:
            raise ValueError(
                f"the chat template leaves out the turn of the {turn['role']}, or changes it; put "
                "its text into the question, or give another chat_template="
            )
    return text


def _around_answer(tokenizer: Any) -> tuple[str, str]:
    """The text of a chat template before and behind an answer to a short question."""
    mark = "quiet"
    text = _rendered(tokenizer, chat([_ASKING, message("assistant", mark)]))
    before, _, behind = text.rpartition(mark)
    return before, behind


def warn_of_open_turn(tokenizer: Any) -> None:
    """Say so where a chat template begins another turn of the assistant behind an answer, whether
    or not one is asked for. A reward model was perhaps trained without it."""
    with suppress(TemplateError, ValueError):  # each row will name the fault
        before, behind = _around_answer(tokenizer)
        begun = before.rpartition(_ASKING.content)[2].replace(str(tokenizer.eos_token), "")
        if re.search(r"\w\w", begun) and begun.strip() in behind:
            _log.warning(
                "The chat template begins another turn of the assistant behind each answer, where "
                "the score is then read. If the model was trained without it, give another "
                "chat_template=."
            )


def _rendered(tokenizer: Any, turns: Sequence[Mapping[str, str]], **given: Any) -> str:
    try:
        return str(tokenizer.apply_chat_template(turns, tokenize=False, **given))
    except TEMPLATE_FAULTS as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"the chat template fails with {reason}") from None


def _ids(tokenizer: Any, text: str, *, start: bool = True) -> list[int]:
    """Token ids; a chat template has its own special tokens, plain text gets the model's start
    token."""
    ids = list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
    first = tokenizer.bos_token_id
    if first is None or tokenizer.chat_template or not start:
        return ids
    return [first, *ids]


def _end_of_turn(tokenizer: Any) -> list[int]:
    """The token that a chat template puts behind an assistant's turn; where it puts none, the end
    of text."""
    behind = _ids(tokenizer, _around_answer(tokenizer)[1])
    added = getattr(tokenizer, "added_tokens_decoder", {})
    specials = {*tokenizer.all_special_ids, *added}
    for number, token in enumerate(behind, 1):
        if token in specials:
            return behind[:number]
    end = tokenizer.eos_token_id
    if end is not None:
        return [end]
    return []


def _control_tokens(tokenizer: Any) -> set[str]:
    """Tokens that say who speaks, or that a turn ends: all special ones, and added ones that the
    chat template writes. Published tokenizers do not mark all of theirs as special."""
    special = {str(token) for token in tokenizer.all_special_tokens}
    written = template_text(tokenizer) + rendered_turns(tokenizer)
    for added in getattr(tokenizer, "added_tokens_decoder", {}).values():
        text = str(added.content)
        is_word = text.strip().isalnum()
        if added.special or (text in written and not is_word):
            special.add(text)
    return {text for text in special if len(text) > 1 and not text.isspace()}


def template_text(tokenizer: Any) -> str:
    """The chat template, or all of them; empty where there is none."""
    template = tokenizer.chat_template or ""
    if isinstance(template, dict):
        return "\n".join(template.values())
    return str(template)


def rendered_turns(tokenizer: Any, **variables: str) -> str:
    """The chat template's text around turns: it may put a control token together from the role's
    name."""
    if not tokenizer.chat_template:
        return ""
    rendered = []
    orders = (("user", "assistant"), ("system", "user"), ("user", "assistant", "user"))
    for roles, begun in product(orders, (True, False)):
        turns = [{"role": role, "content": "x"} for role in roles]
        # A template may take no turn of the system.
        with suppress(TemplateError, ValueError):
            text = _rendered(tokenizer, turns, add_generation_prompt=begun, **variables)
            rendered.append(text)
    return "".join(rendered)


_PATTERNS: WeakKeyDictionary[Any, tuple[str, re.Pattern[str]]] = WeakKeyDictionary()


def _controls(tokenizer: Any) -> re.Pattern[str]:
    template = str(tokenizer.chat_template)
    known = _PATTERNS.get(tokenizer)
    if known is None or known[0] != template:
        longest_first = sorted(_control_tokens(tokenizer), key=lambda token: (-len(token), token))
        pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        known = _PATTERNS[tokenizer] = (template, pattern)
    return known[1]
