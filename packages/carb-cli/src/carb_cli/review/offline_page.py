"""The review page as one file that works from a disk, without a server and without a network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from html import escape
from importlib import resources

from carb_cli.review.asked import ReviewItem
from carb_cli.review.page_words import LANGUAGES, language_of, texts

__all__ = ["organisers_kit", "single_file"]

MINUTES = 0.75
"""That a person takes for one question, as a plan."""
_KIT = ("people", "time", "consent", "pay", "say", "after", "file")


def single_file(items: Iterable[ReviewItem], fingerprint: str) -> str:
    """The page with everything inside.

    It has no key: the answers stand in an order made from their texts, and each device draws its own.

    Args:
        items: the items to ask.
        fingerprint: fingerprint of the data set, so that answers go back to the right one.
    """
    chosen = list(items)
    content = {
        "fingerprint": fingerprint,
        "language": language_of(chosen[0].culture),
        "items": [item.shown | {"shown": item.tokens} for item in chosen],
        "texts": {language: texts(language) for language in LANGUAGES},
    }
    pack = json.dumps(content, ensure_ascii=False).replace("<", "\\u003c").replace("\u2028", "\\u2028")
    script = f"{_part('device.js')}\n{_part('app.js').replace(_STRICT, '', 1)}"
    style = _part("review.css")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'; "
        "form-action 'none'"
    )
    page = _part("review.html")
    meta = '<meta charset="utf-8">'
    page = page.replace(meta, f'{meta}\n<meta http-equiv="Content-Security-Policy" content="{policy}">')
    page = page.replace('<link rel="stylesheet" href="review.css">', f"<style>{style}</style>")
    page = page.replace('<script src="device.js"></script>\n', "")
    data = f'<script type="application/json" id="pack">{pack}</script>'
    return page.replace('<script src="app.js"></script>', f"{data}\n<script>{script}</script>")


def organisers_kit(language: str, questions: int) -> str:
    """One page for the person who organises a review: whom to ask, how long it takes, what to say, what happens.

    Args:
        language: one of ``page_words.LANGUAGES``.
        questions: how many questions each person is asked.
    """
    words = texts(language)
    numbers = {"n": str(questions), "minutes": str(max(1, round(questions * MINUTES)))}
    points = []
    for part in _KIT:
        text = words[f"kit_{part}"]
        for name, value in numbers.items():
            text = text.replace(f"{{{name}}}", value)
        points.append(f"<li>{escape(text)}</li>")
    title = escape(words["kit_title"])
    direction = "rtl" if language == "ar" else "ltr"
    return (
        f'<!doctype html>\n<html lang="{language}" dir="{direction}"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{title}</title><style>{_part("review.css")}</style>'
        f"</head><body><h1>{title}</h1><ol>{''.join(points)}</ol></body></html>\n"
    )


_STRICT = '"use strict";\n'


def _part(name: str) -> str:
    return (resources.files("carb_cli.review") / "web" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
