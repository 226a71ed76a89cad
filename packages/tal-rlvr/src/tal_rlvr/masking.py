"""What criteria say beside the verdict: letters and statements of the verdict masked, and is there
content at all."""

from __future__ import annotations

import re
from functools import cache

from tal_rlvr.judge_prompts import example_fields
from tal_rlvr.verdict_reading import plain

MASK = "_"
"""What stands in place of a letter or a statement of the verdict."""

_ALPHABETIC = r"A-Za-z0-9À-ɏΑ-ωА-яЁё'’"
_LETTER = re.compile(
    # look-alikes are meant
    rf"(?<![{_ALPHABETIC}])(?:A+|B+|[À-ÅΑΒАБВᎪᏴⲀⲂᴀʙꓮꓐ])[\u0300-\u036f]*(?![{_ALPHABETIC}])"
    r"|(?<!\w)[αβабвأابกขאב가나](?!\w)"
)
"""A letter that names a response: alone, also between characters of Chinese or Japanese, also a
look-alike, and the first two of other alphabets."""
_SMALL = re.compile(
    r"(?i)\b(response|answer|option|candidate|verdict|meets|"
    r"choice|pick|picks|choose|prefer|number|no\.?|nr\.?)"
    r"([ \t:=\"'(]{0,4})\b(?:a|b|1|2|i|ii|one|two|first|second|alpha|beta)\b"
)
_GLUED = re.compile(r"\b([Rr]esponse|[Aa]nswer|[Oo]ption)[AB12]\b")
_END = r"(?=[ \t]*(?:[.,;:!?。！？、،؟)\]|]|$))"
_VERB = (
    r"(?=[ "
    r"\t]+(?:is|fits|meets|has|wins|works|matches|"
    r"reads|seems|sounds|better|best|right|correct|ist|passt|besser|"
    r"richtig|est|convient|meilleure?|es|mejor|correct[oa]|лучше|верн\w+|правильн\w+|đúng|tốt)\b)"
)
_LAST = re.compile(
    rf"(?i)(?<![\w.'’-])(?:[ab12]|ii?|one|two|alpha|beta){_END}|"
    rf"(?<![\w.'’-])(?:[12]|ii?|one|two|alpha|beta){_VERB}"
    r"|#[12]\b|(?<!\d)[12](?=[번番号號])"
)
"""A small letter, a number or its name at the end of a clause or before a judging verb."""
_MEETS = re.compile(r"(?i)(\bmeets[ \t:]{1,4})(?:A|B|both|neither)\b")
_WEIGHT = re.compile(r"(?i)(\bweight[ \t:]{1,4})[1-5]\b")
"""Where ``meets`` is masked, a weight says nothing but what a code makes of it."""
_COLUMNS = re.compile(r"([^|\n]*\|[^|\n]*\|)[^|\n]*\|[^|\n]*")
"""A criterion's line: name and reason, then the columns of weight and response, in whatever
words."""
_ORDINAL = (
    r"first|second|1st|2nd|erste[rnms]?|zweite[rnms]?|premier|première|"
    r"seconde|deuxième|primer[oa]?|segund[oa]"
    r"|перв\w{2,3}|втор\w{2,3}|thứ (?:nhất|hai)"
)
_ORDER = re.compile(
    r"(?i)\b(?:first|second|1st|2nd|former|latter|top|bottom|upper|lower|left|right|"
    r"earlier|later|initial|last)"
    r"(?=[ \t-]{1,3}(?:response|answer|option|candidate|one|text|choice)s?\b)|\b(?:latter|former)\b"
    r"|(?<=\bone )(?:above|below)\b|(?<=\bresponse )(?:above|below)\b"
    rf"|\b(?:{_ORDINAL})(?:{_END}|{_VERB})"
    r"|前者|后者|後者|第[一二12](?![月日天年季世届次届代])|[一二12](?:つ|番)目|(?:最初|後)の(?=[方回答選])|전자|후자"
    r"|(?<=[是选選为為])[甲乙一二](?![\u4e00-\u9fff])|[첫둘]째|(?:첫|두) ?번째"
    r"|\b(?:перв|втор)\w{2,4}(?=[ \t]+(?:ответ|вариант))|\b(?:erste|zweite)[rnms]?(?=[ \t]+Antwort)"
    r"|\b(?:primera|segunda)(?=[ \t]+respuesta)|(?<=respuesta )(?:1|2|uno|dos|primera|segunda)\b"
    r"|(?<=คำตอบ)(?:แรก|ที่สอง|ที่หนึ่ง|หลัง)|(?<=ข้อ)(?:แรก|หลัง|สอง|หนึ่ง|ที่สอง|ที่หนึ่ง|[12])"
    r"|(?<=trả lời )(?:đầu tiên|thứ nhất|thứ hai|1|2)\b|(?<=\bcâu )(?:đầu|sau|[12])\b"
    r"|(?<=الإجابة )(?:الأولى|الثانية)|\b(?:الأول|الثاني)(?= (?:أفضل|أصح|صحيح))"
)
_SIGN = re.compile(r"[←-↓⇐-⇓⬅-⬇➡▲▼◀▶△▽◁▷☜-☟👆-👉☝⏩-⏬🔼🔽🥇🥈]")
"""Arrows, pointing hands and medals."""
_VERDICT = re.compile(
    r"(?i)verdict|winner|winning|wins\b|\bwon\b|"
    r"(?:right|correct|better|best|preferred|superior|chosen|true)[ \t]+"
    r"(?:response|answer|option|choice|candidate|one)\b|label\b|judg[e]?ment is|ground truth"
    r"|裁决|裁決|判决|判定|정답|판정|вердикт|veredicto|ganador|gewinner|คำตัดสิน|phán quyết|الحكم"
)
_CLAUSE = re.compile(r"([.!?。！？|]+)")

_FORM_WORDS = """
a an and are as assessment be better best both by chosen correct criteria criterion former good he
i in is it its judge judgement latter meet meets n name neither none of on one option or preferred
pick reason response responses right she so that the there this to verdict want weight whichever
why win winner wins x y answer answers bad first second wrong
candidate na null nil todo tbd something anything etc
"""
_WORD = re.compile(r"[^\W_]+")
_EMPTY_WORDS = frozenset(_WORD.findall(_FORM_WORDS))


def mask_verdict(text: str) -> str:
    """The text with everything masked that names a response by its letter or place, or states the
    verdict.

    What is left is what the criteria say. Two texts that differ only in which letter they name
    become the same text.

    Args:
        text: the text z: the criteria and the assessment.

    Returns:
        The text with ``MASK`` in place of letters, of places such as "the first response", of
        arrows, of the values after ``meets`` and ``weight``, and of every clause that states a
        verdict ("the verdict is", "wins").
    """
    lines = []
    for line in plain(text).split("\n"):
        found = _COLUMNS.fullmatch(line)
        clauses = _CLAUSE.split(
            line if found is None else f"{found[1]} weight {MASK} | meets {MASK}"
        )
        masked = "".join(MASK if _VERDICT.search(clause) else clause for clause in clauses)
        masked = _MEETS.sub(rf"\1{MASK}", masked)
        masked = _SMALL.sub(rf"\1\2{MASK}", masked)
        masked = _GLUED.sub(rf"\1{MASK}", _WEIGHT.sub(rf"\1{MASK}", masked))
        for pattern in (_ORDER, _LAST, _SIGN, _LETTER):
            masked = pattern.sub(MASK, masked)
        lines.append(masked)
    return "\n".join(lines)


def has_content(text: str, *, letters: int = 2) -> bool:
    """Whether a criterion's name or reason still has words when verdicts and form words are masked.

    Args:
        text: a field of a criterion.
        letters: the smallest number of letters in words that are not form words; with 1 or less a
            digit counts as well.
    """
    masked = mask_verdict(text)
    if masked.strip().casefold() in _example_fields():
        return False
    words = [word for word in _WORD.findall(masked) if word.casefold() not in _EMPTY_WORDS]
    found = sum(c.isalpha() or (letters <= 1 and c.isalnum()) for word in words for c in word)
    return bool(found >= letters)


_example_fields = cache(example_fields)

GRAM = 24
"""Bytes of UTF-8 in a run that counts as copied: 24 Latin, 12 Cyrillic or Arabic, 8 Chinese or Thai
letters."""


def copied_share(text: str, response: str) -> float:
    """The share of a response that a text repeats word for word, from 0 to 1.

    Counted are runs of ``GRAM`` bytes of letters and digits, case and punctuation aside. A response
    of fewer than two such runs has a share of 0: a criterion cannot name a short answer's fact
    without its words.

    Args:
        text: what the judge wrote before its verdict.
        response: one of the two responses.
    """
    own, shown = _letters(response), _letters(text)
    if len(own) < 2 * GRAM:
        return 0.0
    grams = [own[place : place + GRAM] for place in range(len(own) - GRAM + 1)]
    known = {shown[place : place + GRAM] for place in range(len(shown) - GRAM + 1)}
    return sum(gram in known for gram in grams) / len(grams)


def _letters(text: str) -> bytes:
    return "".join(c for c in plain(text).casefold() if c.isalnum()).encode("utf-8", "replace")
