"""Taking the explicit culture label out of a text (perturbation RC), by rule and without a model.

A rule removes the phrase around a label ("In Japan, ...", "the Japanese ...") and leaves a sentence that still reads
well; German, whose verb would lose its place, gets "hier". Where no rule fits, there is no text: better none than a
broken one.
"""

from __future__ import annotations

import re
from functools import cache

from carb_data.labels import label_pattern, names_culture

__all__ = ["remove_label"]

_RULES: dict[str, list[tuple[str, str]]] = {
    "ar": [
        (r"^(?:في|لدى|عند) (?:ال)?\0\w*،? ", ""),
        (r" (?:في|لدى) (?:ال)?\0\w*(?=[ ،.])", ""),
    ],
    "de": [
        (r"^(?:In|Im) (?:der )?\0\w*,? ", "Hier "),
        (r"(?<=\b(?:denn|aber|doch) )(?:in|im) (?:der )?\0\w*", "hier"),
        (r" (?:in|im) (?:der )?\0\w*(?=[ ,.;])", ""),
        (r"(?<= )\0(?:e|en|er|es)? (?=[A-ZÄÖÜ])", ""),
    ],
    "en": [
        (r"^(?:In|Among) (?:the )?\0(?: (?:usage|English|culture|society))?,? ", ""),
        (r",? (?:in|across|of) (?:the )?\0(?=[ ,.;:])", ""),
        (r"(?<= )\0 (?=[a-z])", ""),
        (r"^\0 (?=[a-z])", ""),
    ],
    "es": [
        (r"^(?:En|Entre) (?:el |la |los |las )?\0\w*,? ", ""),
        (r" (?:en|de) (?:el |la )?\0\w*(?=[ ,.;:])", ""),
    ],
    "ja": [
        (r"^\0(?:語|人)?(?:では|においては|だと)、?", ""),
        (r"\0の(?=\w)", ""),
    ],
    "ko": [
        (r"\0어?(?:에서는|에서|에는|에선|의)? ", ""),
    ],
    "ru": [
        (r"^(?:В|Во|У) \0\w*(?: языке| культуре)?,? ", ""),
        (r" (?:в|во) \0\w*(?: языке)?(?=[ ,.;:])", ""),
    ],
    "th": [
        (r"^(?:ใน|ที่)?(?:เมือง|ประเทศ|ภาษา|วัฒนธรรม)?\0(?:แล้ว)?\s?", ""),
        (r"(?:ใน|ของ|ที่)(?:เมือง|ประเทศ|ภาษา)?\0", ""),
        (r"(?<=คน)\0", ""),
        (r"(?<=ชาว)\0", ""),
    ],
    "vi": [
        (r"^(?:Ở|Tại|Trong) (?:tiếng |nước )?\0(?: Nam)?,? ", ""),
        (r"([Nn]gười) \0(?: Nam)? (?=được|trả)", r"\1 "),
        (r"^((?:Phần đông|Đa số|Phần lớn|Hầu hết)(?: [^ ]+)*?) người \0(?: Nam)?", r"\1"),
        (r"([Nn]gười) \0(?: Nam)?", r"\1 ta"),
        (r" (?:ở|tại|của) (?:nước )?\0(?: Nam)?", ""),
    ],
    "zh": [
        (r"(?:(?<=^)|(?<=在)|(?<=[，。；]))\0(?:里|中)?的", ""),
        (r"^在?\0(?:里|中|语里)?[，,]?", ""),
        (r"(?<=[，。；])在\0(?:里|中)?[，,]?", ""),
    ],
}


_HANGING = re.compile(r"^(?:[的地得之]|[のはがをにでも](?![぀-ゟ])|의 |에서 |에는 |ของ|'s\b)|(?:^|[\s，。；、,.;])的")
"""What cannot begin a text or a clause: the rest of a phrase of which the label was cut out."""


@cache
def _rules(language: str, culture_id: str) -> list[tuple[re.Pattern[str], str]]:
    label = f"(?:{label_pattern(culture_id).pattern})"
    return [(re.compile(rule.replace("\\0", label)), new) for rule, new in _RULES.get(language, ())]


def remove_label(text: str, culture_id: str, language: str) -> str | None:
    """``text`` without the explicit names of a culture, its countries, people and language.

    Args:
        text: a text that names the culture.
        culture_id: id of a registered culture.
        language: BCP 47 tag of the text; there are rules for the ten languages of the benchmark.

    Returns:
        The text, or None where no rule takes every label out, or where there is none.

    Raises:
        UnknownCultureError: no such culture is registered.
    """
    if not names_culture(text, culture_id):
        return None
    shorter = text
    for pattern, replacement in _rules(language.partition("-")[0].lower(), culture_id):
        shorter = pattern.sub(replacement, shorter)
    shorter = re.sub(r"^[\s,،、，:]+", "", shorter)
    shorter = re.sub(r" +(?=[,.;:،])", "", re.sub(r"  +", " ", shorter))
    if text[:1].isupper() and shorter:
        shorter = shorter[0].upper() + shorter[1:]
    if not shorter.strip() or shorter == text or names_culture(shorter, culture_id) or _HANGING.search(shorter):
        return None
    return shorter
