"""Which language a row of a data set is in."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["language_tag"]

_SCRIPTS = [
    ("ja", re.compile("[ぁ-ゖァ-ヺ]")),
    ("ko", re.compile("[가-힣]")),
    ("zh", re.compile("[一-鿿]")),
    ("ar", re.compile("[ء-ي]")),
    ("th", re.compile("[ก-ฮ]")),
    ("ru", re.compile("[а-яё]", re.IGNORECASE)),
]
_LANGUAGES = {
    name: tag
    for tag, names in {
        "ar": "arabic arb", "cs": "czech ces", "de": "german deu", "el": "greek ell", "en": "english eng",
        "es": "spanish spa", "fa": "persian farsi pes", "fr": "french fra", "he": "hebrew heb", "hi": "hindi hin",
        "id": "indonesian ind", "it": "italian ita", "ja": "japanese jpn", "ko": "korean kor", "nl": "dutch nld",
        "pl": "polish pol", "pt": "portuguese por", "ro": "romanian ron", "ru": "russian rus", "sv": "swedish swe",
        "th": "thai tha", "tr": "turkish tur", "uk": "ukrainian ukr", "vi": "vietnamese vie", "zh": "chinese zho",
        "zh-Hant": "zho_hant",
    }.items()
    for name in names.split()
}  # fmt: skip
"""Names as HelpSteer3 has them, and the letters before the script in codes as M-RewardBench has them; it has Chinese
in both scripts, and a row's id there is told from others by its language alone."""


def language_tag(named: Any, given: str | None, text: str) -> str:
    """A BCP 47 tag for a tag, a name ("chinese") or a code of FLORES ("zho_Hans"); English for code."""
    if named:
        tag = str(named).strip().lower()
        if re.fullmatch(r"[a-z]{2}(-[a-z0-9]+)*", tag):
            return str(named).strip()
        return _LANGUAGES.get(tag) or _LANGUAGES.get(tag.partition("_")[0]) or given or "en"
    return given or next((tag for tag, script in _SCRIPTS if script.search(text)), "en")
