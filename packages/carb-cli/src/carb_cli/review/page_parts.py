"""The parts of the page: its words in the ten languages of the benchmark, and the page as one
file for a disk."""

import json
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib import resources
from typing import Any

from carb_cli.json_output import csp_hash
from carb_cli.review.asking import ReviewItem
from carb_cli.review.regions import choices
from carb_data import cultures

_TAGS = "ar de en es ja ko ru th vi zh"
LANGUAGES = _TAGS.split()
MINUTES = 0.75
"""Planned time for one question, for each person."""
_PAGE = "web/review.html"
_SCRIPTS = ("parts.js", "device.js", "app.js")
_KIT = "people time consent pay say after file"


@cache
def part(name: str) -> str:
    """The text of a file of the page."""
    return (resources.files("carb_cli.review") / name).read_text("utf-8")


def texts(language: str) -> dict[str, str]:
    """The catalogue of a language, by key."""
    words: dict[str, str] = json.loads(part(f"texts/{language}.json"))
    return words


def language_of(culture: str) -> str:
    """The language of the page for a culture: the culture's own, or English where there is no
    catalogue of it."""
    language = cultures[culture].language.partition("-")[0]
    if language in LANGUAGES:
        return language
    return "en"


def page_with(language: str, **more: Any) -> str:
    """The page with its words.

    Args:
        language: the language in which it begins, which it speaks without JavaScript, too.
        more: what else its scripts find.
    """
    words = {name: texts(name) for name in LANGUAGES}
    data = json.dumps({"texts": words, "language": language} | more, ensure_ascii=False)
    direction = "ltr"
    if language == "ar":
        direction = "rtl"
    page = _with('<html lang="en">', f'<html lang="{language}" dir="{direction}">', part(_PAGE))
    page = _with("Review<", f"{escape(words[language]['title'])}<", page)
    page = _with("NOSCRIPT", escape(words[language]["noscript"]), page)
    return _with("{}", data.replace("<", "\\u003c"), page)


def single_file(items: Iterable[ReviewItem], fingerprint: str) -> str:
    """The page with everything inside.

    It has no key: the answers stand in an order made from their texts, and each device draws its
    own.

    Args:
        items: the items to ask.
        fingerprint: fingerprint of the data set, so that answers go back to the right one.
    """
    chosen = list(items)
    script = "\n".join(part(f"web/{name}") for name in _SCRIPTS)
    style = part("web/review.css")
    policy = (
        f"default-src 'none'; script-src '{csp_hash(script)}'; style-src '{csp_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    shown = [item.shown | {"shown": item.tokens} for item in chosen]
    language = language_of(chosen[0].set.culture)
    regions = choices({item.region for item in chosen})
    made = page_with(language, fingerprint=fingerprint, items=shown, regions=regions)
    meta = '<meta charset="utf-8" />'
    made = _with(
        meta, f'{meta}<meta http-equiv="Content-Security-Policy" content="{policy}">', made
    )
    made = _with('<link rel="stylesheet" href="review.css" />', f"<style>{style}</style>", made)
    for name in _SCRIPTS[:-1]:
        made = _with(f'<script src="{name}"></script>', "", made)
    return _with(f'<script src="{_SCRIPTS[-1]}"></script>', f"<script>{script}</script>", made)


def _with(old: str, new: str, page: str) -> str:
    """The page with one text replaced, which must be there once."""
    if page.count(old) != 1:
        raise ValueError(f"review.html must have {old} once")
    return page.replace(old, new)


def organisers_kit(language: str, questions: int) -> str:
    """One page for the organiser of a review: whom to ask, how long it takes, an invitation, and
    the next steps.

    Args:
        language: one of ``LANGUAGES``.
        questions: how many questions each person is asked.
    """
    words = texts(language)
    minutes = str(max(1, round(questions * MINUTES)))
    lines = [
        words[f"kit_{point}"].replace("{n}", str(questions)).replace("{minutes}", minutes)
        for point in _KIT.split()
    ]
    points = [f"<li>{escape(text)}</li>" for text in lines]
    title = escape(words["kit_title"])
    style = part("web/review.css")
    direction = "ltr"
    if language == "ar":
        direction = "rtl"
    return (
        f'<!doctype html>\n<html lang="{language}" dir="{direction}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{style}</style>"
        f"</head><body><h1>{title}</h1><ol>{''.join(points)}</ol></body></html>\n"
    )
