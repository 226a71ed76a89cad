"""Multiple choice: options in a fixed order, and reading which one an answer picks."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence

LETTERS = string.ascii_uppercase

_ANSWER = "|".join(
    unicodedata.normalize(
        "NFKC",
        "përgjigj الإجابة الاجابة الجواب إجابة جواب պատասխան cavab erantzun адказ উত্তর отговор 答案 选项 "
        "選項 odgovor одговор antwoord vastus vastaus réponse reponse პასუხ antwort lösung απάντηση תשובה "
        "उत्तर जवाब जवाफ válasz megoldás jawaban risposta 答え 正解 解答 回答 жауап жауаб 답 atsakym jawapan "
        "ഉത്തരം پاسخ odpowied resposta ответ respuesta opción opção opzione вариант คำตอบ เฉลย sagot "
        "பதில் விடை సమాధానం జవాబు cevap cevab yanıt відповід javob жавоб đáp.án trả.lời",
    ).split()
)
"""Beginnings of "answer" in the languages of INCLUDE, in lower case."""


def with_options(question: str, options: Sequence[str]) -> str:
    """A question followed by its lettered options, one a line."""
    return "\n".join([question.strip(), *(f"{LETTERS[n]}. {text.strip()}" for n, text in enumerate(options))])


def read_choice(text: str, options: Sequence[str]) -> int | None:
    """Which option an answer picks: its place, or null where it picks none, or several.

    Read in this order, the first that is there: a letter in double brackets; ``"answer_choice": "B"``, the form that
    BLEnD asks for; "answer is B" or "Answer: B", in any language of INCLUDE; a letter at the start, with a mark or
    nothing behind it; the text of an option alone on its line; the text of exactly one option anywhere.

    Args:
        text: the answer; nothing in it is executed.
        options: the texts of the options, at most 26.
    """
    letters = LETTERS[: len(options)]
    # One space or line break at a time: long runs of them would cost the rules below time without telling anything.
    text = unicodedata.normalize("NFKC", text)  # letters and colons of full width
    text = re.sub(r"\s{2,}", lambda run: "\n" if "\n" in run[0] else " ", text.strip())
    rules = (
        rf"\[\[([{letters}])\]\]",
        rf"""["']?answer_choice["']?\s*:\s*["']?([{letters}])\b""",
        rf"(?i:answer|option|choice)(?:\s+(?i:is|would be))?\s*[:=]?\s*[*(\"']*([{letters}])(?![\w'])(?!\s+[a-z])",
        rf"(?i:{_ANSWER})[^\n.!?。A-Z]{{0,40}}?(?<![A-Za-z0-9])([{letters}])(?![A-Za-z0-9'])(?!\s+[a-z])",
        rf"\A[\s*(\"']*([{letters}])(?=[.):,*\"'\n]|\s*\Z)",
    )
    for rule in rules:
        found = set(re.findall(rule, text))
        if found:
            return letters.index(found.pop()) if len(found) == 1 else None
    plain = [_plain(option) for option in options]
    lines = {_plain(line) for line in text.splitlines()}
    alone = [place for place, option in enumerate(plain) if option and option in lines]
    if len(alone) == 1:
        return alone[0]
    inside = _plain(text)
    there = [place for place, option in enumerate(plain) if option and _within(option, inside)]
    longest = [p for p in there if not any(plain[p] != plain[q] and _within(plain[p], plain[q]) for q in there)]
    return longest[0] if len(longest) == 1 else None


def _within(option: str, text: str) -> bool:
    if option.isascii():
        return re.search(rf"(?<!\w){re.escape(option)}(?!\w)", text) is not None
    return option in text


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", unicodedata.normalize("NFKC", text).strip().strip(".。\"'“”").casefold())
