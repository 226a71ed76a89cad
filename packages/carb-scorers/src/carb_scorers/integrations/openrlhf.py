"""Reads the requests of OpenRLHF's remote reward client: the question, and the response to it.

OpenRLHF sends a prompt as its policy read it and a query, which is the decoded prompt with the
response (``openrlhf/utils/agent.py``). With ``--data.apply_chat_template`` the prompt is rendered
by the policy's chat template, with ``--data.input_template`` by a format. A reward model has a
template of its own, so the question must be taken out again.
"""

import re
import unicodedata
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import resources
from itertools import chain, islice, pairwise

from pydantic import ValidationError

from carb_data import CarbError, Frozen, read_file
from carb_scorers.models.marks import (
    control_pattern,
    has_tokens,
    opened_thought,
    thought_marks,
    unthought,
)
from carb_scorers.models.source import hf_library, model_source
from carb_scorers.questions import Question, Turns, as_messages, conversation_of

__all__ = ["policy_of"]

Pattern = re.Pattern[str]
Shape = tuple[tuple[str, ...], Pattern]
"""Roles, and a template's text around their turns, which are the groups."""
_BEFORE = re.compile(rf"\A(?:{control_pattern().pattern}|\s|\ufffd)+")
"""Also what is left of a letter that was cut."""
_USER = re.compile(rf"(?:{control_pattern().pattern})\s*(?:user\s*)?\Z")
_WORD = r"[^\W\d_][^\s:：#<>\[\]*|{}().,;!?。？！،؟、，]{0,23}"
_WORDS = rf"{_WORD}(?:[^\S\n]{_WORD}){{0,2}}[^\S\n]?"
_ROLE = (
    rf"(?:[*<\[|]{{0,2}}{_WORDS}[*>\]|]{{0,2}}[:：]\*{{0,2}}|\#{{2,4}}[^\S\n]?{_WORDS}(?=\n|\Z))"
)
"""Marks of a turn without control tokens: words before a colon, or as a heading."""
_FIRST_ROLE = re.compile(rf"(?:\A|\n)[^\S\n]*{_ROLE}\s*\S")
_LAST_ROLE = re.compile(rf"(?:\A|\s){_ROLE}\s*\Z")
_SHORTEST_END = 8
"""Characters besides spaces that the end of a prompt that was cut must share with a query."""
_LONGEST = 128
"""Characters of the longest control token, at most."""
_MOST_TURNS = 16


class Family(Frozen):
    """How the chat templates of a family of models mark turns."""

    name: str
    header: str
    """Pattern of what begins a turn; its group is the role."""
    end: str = ""
    """Pattern of what ends a turn."""
    leading: str = ""
    """Role of a text before the first header; none stands there where it is empty."""

    @cached_property
    def patterns(self) -> tuple[Pattern, Pattern]:
        """The header's pattern, and that of the end of a turn."""
        header = self.header.replace("<words>", TEMPLATES.word_pattern)
        return re.compile(header), re.compile(rf"(?:{self.end})\s*\Z")


class Templates(Frozen):
    """The content of ``policy_templates.toml``."""

    starts: tuple[str, ...]
    """Patterns of the tokens that a tokenizer adds before a text."""
    default_systems: tuple[str, ...]
    dates: str
    system_within: str
    roles: dict[str, str]
    words: dict[str, str]
    """Names of roles that are words, for which ``<words>`` stands in a header."""
    families: tuple[Family, ...]

    def role(self, name: str) -> str:
        """The role that a template calls so."""
        return self.roles.get(name) or self.words.get(name, name)

    @property
    def word_pattern(self) -> str:
        """Any word of a role; a longer one is tried before one that begins it."""
        words = {"user", "assistant", "system", *self.words}
        return "|".join(sorted(words, key=len, reverse=True))


TEMPLATES = read_file(
    Templates,
    resources.files("carb_scorers") / "resources" / "policy_templates.toml",
    "policy templates",
)
_BEGINNING = re.compile(rf"\A(?:{'|'.join(TEMPLATES.starts)}|\s)+")
_DEFAULT_SYSTEM = re.compile(rf"\A\s*(?:{'|'.join(TEMPLATES.default_systems)})\s*\Z")
_DATES = re.compile(TEMPLATES.dates)
_MARK = rf"\n[^\w\s]{{0,4}}\s?(?:{TEMPLATES.word_pattern})"
_KNOWN_FIRST = re.compile(rf"{_MARK}\s*[^\w\s]", re.IGNORECASE)
_KNOWN_LAST = re.compile(rf"{_MARK}[^\w\n]{{0,6}}\Z", re.IGNORECASE)
"""Known words of roles, inside any marks."""
_MESSAGES = re.compile(r"""\s*\[?\s*\{\s*["'](?:role|from|messages|conversations)["']\s*:""")
"""Messages as a text of JSON or Python."""
_SYSTEM_WITHIN = re.compile(TEMPLATES.system_within, re.DOTALL)


class Policy:
    """Undoes the templates of the families that are known."""

    def question(self, prompt: str) -> Question:
        """The question in a prompt as a policy reads it.

        Raises:
            CarbError: the prompt has control tokens, and no known family wrote it.
        """
        for family in TEMPLATES.families:
            turns = _turns(prompt, family)
            asked = None
            if turns is not None:
                asked = _asked(turns)
            if asked is not None:
                return asked
        plain = _BEGINNING.sub("", prompt)
        if has_tokens(plain):
            raise CarbError(
                "has control tokens of a chat template that is none of the "
                f"{len(TEMPLATES.families)} known families. Start the server with "
                "--policy-template MODEL, the policy's folder or hub id, or with "
                "--policy-template '{}' where they are words of the question"
            )
        if _begins_an_answer(plain):
            raise CarbError(
                "begins and ends with words that seem to mark turns of an unknown format. "
                "Start the server with --policy-template FORMAT, for example 'User: {}\\nBot:', or "
                "with --policy-template '{}' where they are words of the question"
            )
        return plain


def is_chat(text: str) -> bool:
    """Whether a text is a rendered chat, or messages as a text."""
    return has_tokens(text) or _MESSAGES.match(text) is not None


def asked_in(prompt: str) -> Question:
    """The question in a text, which may be a chat as the template of a known family renders it.

    Raises:
        CarbError: it is a chat of another form.
    """
    if not is_chat(prompt):
        return prompt
    try:
        return Policy().question(prompt)
    except CarbError:
        raise CarbError(
            "A prompt is a chat as a text, in no form that is known. Give its question alone, or "
            "a list of messages."
        ) from None


def _begins_an_answer(prompt: str) -> bool:
    """Whether a line begins with words that may mark a turn, and others end the prompt.

    Of 197,509 texts of public data sets 30 do by chance, most of them written by models.
    """
    text = f"\n{prompt.rstrip()}"
    tail = max(0, len(text) - _LONGEST)
    for first, last in ((_FIRST_ROLE, _LAST_ROLE), (_KNOWN_FIRST, _KNOWN_LAST)):
        end = last.search(text, tail)
        if end is not None and first.search(text[: end.start() + 1]):
            return True
    return _MESSAGES.match(prompt) is not None or opened_thought(prompt, "") is not None


def _turns(prompt: str, family: Family) -> Turns | None:
    """The turns of a prompt that a family's template rendered, up to where the answer begins."""
    header, end = family.patterns
    text = _BEGINNING.sub("", prompt)
    headers = list(header.finditer(text))
    before = text
    if headers:
        before = text[: headers[0].start()]
    if not headers or (before.strip() and not family.leading):
        return None
    turns = []
    if before.strip():
        turns = [(family.leading, end.sub("", before))]
    for begin, following in pairwise(headers):
        content = text[begin.end() : following.start()]
        if end.search(content) is None:
            return None
        turns.append((TEMPLATES.role(begin[1].casefold()), end.sub("", content)))
    last = headers[-1]
    answers = TEMPLATES.role(last[1].casefold()) == "assistant"
    # a template may begin a thought there, or leave one empty
    if answers and not unthought(text[last.end() :]):
        return turns
    return None


def _asked(turns: Turns) -> Question | None:
    """A conversation without the template's additions; null if it is none."""
    kept: list[tuple[str, str]] = []
    for role, text in chain.from_iterable(_system_apart(*turn) for turn in turns):
        content = text.strip()
        if role == "system":
            content = _DATES.sub("", content).strip()
            if not content or _DEFAULT_SYSTEM.match(content):
                continue
        if has_tokens(content):
            return None
        kept.append((role, content))
    if len(kept) == 1 and kept[0][0] == "user":
        return kept[0][1]
    try:
        return conversation_of(kept)
    except ValidationError:
        return None


def _system_apart(role: str, text: str) -> Turns:
    """A turn; that of the system which Llama 2 and Mistral write within the user's stands first."""
    match = None
    if role == "user":
        match = _SYSTEM_WITHIN.match(text)
    if match is None:
        return [(role, text)]
    return [("system", match[1]), (role, text[match.end() :])]


class PolicyTemplate(Policy):
    """Undoes one chat template, by its marks around turns.

    Args:
        render: the prompt that the template makes of messages.
    """

    def __init__(self, render: Callable[[list[dict[str, str]]], str]) -> None:
        self._render = render
        shapes = map(self._shape, _role_orders())
        self._shapes = [shape for shape in shapes if shape is not None]
        if not self._shapes:
            raise CarbError("the chat template renders no question")

    def question(self, prompt: str) -> Question:
        """The question in a prompt that the template rendered.

        Raises:
            CarbError: the template did not render it.
        """
        for roles, around in self._shapes:
            match = around.fullmatch(prompt)
            if match is None or any(map(has_tokens, match.groups())):
                continue
            turns = list(zip(roles, match.groups(), strict=True))
            rendered = self._render(as_messages(turns))
            if _undated(rendered) != _undated(prompt):
                continue
            if len(turns) == 1:
                return match[1]
            return conversation_of(turns)
        raise CarbError("was not rendered by the chat template that --policy-template names")

    def _shape(self, roles: tuple[str, ...]) -> Shape | None:
        """The text before, between and behind turns of these roles."""
        names = [f"carbturn{number}x" for number in range(len(roles))]
        try:
            turns = list(zip(roles, names, strict=True))
            text = self._render(as_messages(turns))
        except Exception:  # a template raises what it likes where it takes no such roles
            return None
        if any(text.count(name) != 1 for name in names):
            return None
        first, *others, last = map(_dated_pattern, re.split("|".join(names), text))
        # each ends at the first border behind it, so that the time is linear
        between = "".join(f"(?>(.*?){border})" for border in others)
        return roles, re.compile(f"{first}{between}(.*?){last}", re.DOTALL)


@dataclass(frozen=True)
class PolicyFormat(Policy):
    """Undoes a format such as ``User: {}\\nAssistant: ``."""

    format: str

    def question(self, prompt: str) -> Question:
        """The question in a prompt that the format made.

        Raises:
            CarbError: the format did not make it.
        """
        before, _, behind = self.format.partition("{}")
        if not (prompt.startswith(before) and prompt.endswith(behind)):
            raise CarbError("was not made by the format that --policy-template gives")
        return prompt[len(before) : len(prompt) - len(behind)]


def policy_of(given: str | None) -> Policy:
    """The inverse of a policy's template.

    Args:
        given: the folder or hub id of a model with a chat template, or a format with ``{}`` for
            the question; null for the families that are known.

    Raises:
        CarbError: there is no such model, or it has no chat template.
    """
    if given is None:
        return Policy()
    if "{}" in given:
        return PolicyFormat(given)
    transformers = hf_library("transformers")
    source = model_source(given)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise CarbError(f"--policy-template {given}: no tokenizer can be read: {error}") from None
    if not tokenizer.chat_template:
        raise CarbError(f"--policy-template {given}: this model has no chat template.")

    def render(messages: list[dict[str, str]]) -> str:
        return str(
            tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        )

    return PolicyTemplate(render)


def _role_orders() -> Iterator[tuple[str, ...]]:
    for more in range(_MOST_TURNS // 2):
        turns = ("user", *("assistant", "user") * more)
        yield turns
        yield ("system", *turns)


_DATE = r"\d{1,2} [A-Z][a-z]+ \d{4}|\d{4}-\d{2}-\d{2}"


def _dated_pattern(text: str) -> str:
    """The pattern of a text on any day, since a template may write the day on which it is used."""
    return f"(?:{_DATE})".join(map(re.escape, re.split(_DATE, text)))


def _undated(text: str) -> str:
    return re.sub(_DATE, "", text)


def response_in(query: str, prompt: str) -> str:
    """The response in a query.

    The query begins with its prompt, or with an end of it where OpenRLHF has cut the prompt at
    the left. Both are compared without the control tokens before them. A tokenizer may change the
    Unicode form or spaces, so that they are compared in NFC or NFKC and without spaces where need
    be.

    Raises:
        CarbError: the query begins with neither.
    """
    composed, plain = (partial(unicodedata.normalize, name) for name in ("NFC", "NFKC"))
    for form in (str, composed, plain):
        whole = _BEFORE.sub("", form(query))
        asked = _BEFORE.sub("", form(prompt))
        if whole.startswith(asked):
            return whole[len(asked) :]
    length = _behind(whole, asked)
    if length is None:
        raise CarbError("does not begin with its prompt")
    return whole[length:].removeprefix(asked[len(asked.rstrip()) :])


def is_whole(text: str, question: Question) -> bool:
    """Whether a text is a rendered conversation: the question is a turn of it, with more behind.
    A thought may quote the question. A tokenizer may have changed its spaces and Unicode form."""
    asked = _folded(question if isinstance(question, str) else question[-1].content)
    if len(asked) < _SHORTEST_END:
        return False
    unmarked = thought_marks()[0].sub("", text)
    before, _, behind = _folded(unmarked).partition(asked)
    end = _BEFORE.match(behind)
    if end is None or end[0] == behind:
        return False
    return has_tokens(end[0]) and _USER.search(before) is not None


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def _behind(query: str, prompt: str) -> int | None:
    """Where the response begins in a query: behind the longest end of the prompt with which the
    query begins, spaces aside."""
    asked = "".join(prompt.split())
    shared = _overlap("".join(query.split())[: len(asked)], asked)
    if shared < min(_SHORTEST_END, len(asked)):
        return None
    return next(islice(re.finditer(r"\S", query), shared - 1, None)).end()


def _overlap(query: str, prompt: str) -> int:
    """The length of the longest end of ``prompt`` with which ``query`` begins.

    It is found in linear time, by the borders of Knuth, Morris and Pratt.
    """
    borders = array("l", [0]) * len(query)
    length = 0
    for index in range(1, len(query)):
        while length and query[index] != query[length]:
            length = borders[length - 1]
        length += query[index] == query[length]
        borders[index] = length
    length = 0
    for letter in prompt if query else "":
        while length and (length == len(query) or letter != query[length]):
            length = borders[length - 1]
        length += letter == query[length]
    return length
