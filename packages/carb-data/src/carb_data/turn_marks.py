"""Turns of a conversation that a table joins in one text: ``[Kunde] … [Berater] …``."""

import re
from collections.abc import Sequence

from carb_data.keys import Options, parted, without_letters
from carb_data.packaged import resource
from carb_data.values import UnreadError

_HEADINGS = resource("headings")
_SPEAKER = "|".join(_HEADINGS["speakers"])
_LABEL = "|".join(_HEADINGS["labels"])
_WORD = rf"(?:{_SPEAKER}|{_LABEL})"
_OPENING = re.compile(
    r"\s*(<[|｜][^<>|｜\n]{1,30}[|｜]>|<(?:start|end)_of_turn>|\[/?[^\W\d_][^\]\n]{0,29}\]"
    r"|【[^】\n]{1,30}】"
    r"|#{2,4} ?[^\n:：]{1,30}[:：]"
    rf"|</?{_WORD}>:?|\**{_WORD}\**\s*[:：]\**)",
    re.IGNORECASE,
)
"""A mark of a role: between brackets any word, and before a colon a known one."""
_TURN = re.compile(rf"(?:\A|\n){_OPENING.pattern}", re.IGNORECASE)
_OPEN = re.compile(f"(?:{_OPENING.pattern})+", re.IGNORECASE)
"""A last line of marks alone, behind which an answer is due."""
_SPEAKS = re.compile(rf"<[|｜]|<(?:start|end)_|\W*(?:{_SPEAKER})\W*\Z", re.IGNORECASE)
_CONTROL = r"(?:<[|｜]\w[^<>|｜\n]{0,30}[|｜]>|<(?:start|end)_of_turn>|\[/?INST\]|</s>)"
_TEMPLATE = re.compile(rf"\A{_CONTROL}|{_CONTROL}\Z")
"""A token of a model's template around a text."""
_EDGES = frozenset("<[>]")
"""The first and last characters of such tokens."""
_REPEATED = 15
"""Characters of a question with which answers do not all begin by chance."""
_KNOWN = re.compile(rf"\W*{_WORD}\W*", re.IGNORECASE)
_LABELLED = re.compile(rf"(?:{_LABEL})\s*[:：]", re.IGNORECASE)
_REMEDY = "write the turns as messages of the user and the assistant, or take the marks off"


_SHORT = 200
"""Characters of the longest answers among which marks are looked for."""
_MARKED = re.compile(
    r"\A\s*(?:(?:assistant|chosen|rejected|(?:(?:in)?correct|right|wrong|best) answer)\s*[:：]"
    r"|[✓✔✅☑✗✘❌☒★►▶⇒→👉＊]|[\[(][xX✓✔*][)\]](?=\s\w)|=>|->|>>|[+=○◯×](?=\s*[^\W\d_]{2})"
    r"|<(?:b|u|em|mark|strong)>(?=.*>\Z)"
    r"|(?:__|\*{1,2})(?![a-z]\b(?![).:]))(?=[\w\"'(¿¡][^*]*\**\Z))"
    r"|&(?=#?\w{2,8};)|(?:[✓✔✅☑✗✘❌]\ufe0f?|\s[+√]|(?<=\w{3})\s?\*{1,2}"
    r"|(?:[(\[（【]|<-+|←|\s[-–—=])\s*(?:the )?(?:right(?= )|ans|answer|key|lösung|ответ|答案|答え"
    r"|답|เฉลย|đáp án|الجواب|(?:in)?correct|richtig|falsch|correct[ao]|верно|неверно|правильно"
    r"|正解|正确|正確|错误|정답|오답|ถูก|ถูกต้อง|ผิด|đúng|sai|صحيح|صحيحة|خطأ|wrong)"
    r"(?: answer| one)?\s*[)\]）】]?|\|[01])\Z",
    re.IGNORECASE | re.DOTALL,
)
"""What marks an answer among others, in quizzes and by accident."""
_IN_MARKS = re.compile("[✓✔✅☑✗✘❌☒★►▶⇒→←👉＊√>○◯×:：(（[【<=+*_&|–—-]")
"""Characters without which there is no such mark: to look for one takes twenty times as long."""


def refuse_marks(answers: Sequence[str]) -> None:
    """Refuse short answers of which some have a mark that others lack: ``*``, ``(correct)``, or a
    character as HTML writes it.

    Raises:
        UnreadError: with the mark.
    """
    if max(map(len, answers), default=0) > _SHORT or not _IN_MARKS.search("".join(answers)):
        return
    marks = {"".join(_MARKED.findall(answer)[:1]) for answer in filter(None, answers)}
    if len(marks) > 1:
        reason = (
            f"not all have the mark '{max(marks)}', which may tell the right one; take such marks "
            "off, and write characters as they are (& for &amp;)"
        )
        raise UnreadError(("options", reason))


def refuse_turns(prompt: object, answers: Sequence[str]) -> None:
    """Refuse answers that all begin with a role or with the question, a question of several turns,
    and texts between tokens of a model's template; also letters of answers that the question lacks.

    ``Assistant:`` is a role. ``Answer:`` and ``[Your Name]`` are written by policies: they are
    part of an answer, unless each answer holds a whole conversation. ``Q:`` and ``A:`` may stand
    before examples in a question.

    Raises:
        UnreadError: with the mark.
    """
    refuse_marks(answers)
    asked = str(prompt)
    _refuse_letters(asked, answers)
    repeats = len(asked) >= _REPEATED and answers[0].startswith(asked)
    if not repeats and not _may_open("".join((asked, *answers))):
        return
    mark = _shared_opening(answers)
    asks = _OPENING.match(asked)
    speaks = asks and _SPEAKS.match(asks[1])
    if mark:
        is_role = speaks or _SPEAKS.match(mark)
        if is_role or all(_is_talk(answer, prompt) for answer in answers):
            raise UnreadError(("chosen", f"all answers begin with the role '{mark}'; {_REMEDY}"))
    _refuse_template("chosen", answers)
    if not isinstance(prompt, str):
        return
    if repeats and all(answer.startswith(prompt) for answer in answers):
        raise UnreadError(("chosen", "all answers begin with the question; take it off"))
    marks = []
    if "\n" in prompt:
        marks = _marks(prompt)
    if len(marks) > 1:
        *_, last = prompt.rstrip().split("\n")
        labelled = _LABELLED.fullmatch(last.strip()) and not speaks
        due = _OPEN.fullmatch(last)
        comes_again = asks and len({*marks}) < len(marks)
        if not labelled and (comes_again or due):
            reason = f"holds turns of several roles ('{marks[0]}', '{marks[1]}'); {_REMEDY}"
            raise UnreadError(("prompt", reason))
    _refuse_template("prompt", [prompt])


def _refuse_letters(asked: str, answers: Sequence[str]) -> None:
    if max(map(len, answers)) > _SHORT or not (len(answers) > 2 or parted(answers[0])[0]):
        return  # of two answers, one alone has no letter of options
    lettered = without_letters(Options(tuple(sorted(answers))))
    if lettered and not any(answer in asked for answer in answers):
        raise UnreadError(("options", "carry letters or numbers of their own; take them off"))


def _may_open(text: str) -> bool:
    """Whether it has a character without which there is no mark of a role; a loop takes longer."""
    return "<" in text or "[" in text or "【" in text or ":" in text or "：" in text


def _refuse_template(field: str, texts: Sequence[str]) -> None:
    first = texts[0]
    if _EDGES.isdisjoint((first[0], first[-1])):
        return
    marks = [match[0] for match in map(_TEMPLATE.search, texts) if match]
    if len(marks) == len(texts):
        reason = f"begins or ends with '{marks[0]}', a mark of a model's template; {_REMEDY}"
        raise UnreadError((field, reason))


def _shared_opening(answers: Sequence[str]) -> str:
    """The mark with which all answers begin; empty where there is none."""
    openings = {match and match[1] for match in map(_OPENING.match, answers)}
    if len(openings) > 1:
        return ""
    return openings.pop() or ""


def _marks(text: str) -> list[str]:
    """The marks at the beginnings of a text's lines."""
    return [match[1] for match in _TURN.finditer(text)]


def _is_talk(answer: str, prompt: object) -> bool:
    """Whether a text holds several turns: of known words, or with the question itself."""
    others = _marks(answer)[1:]
    if any(map(_KNOWN.fullmatch, others)):
        return True
    asked = isinstance(prompt, str) and prompt in answer
    return asked and bool(others)
