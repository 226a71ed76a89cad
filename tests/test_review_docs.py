"""The reviewers' instructions say what the page says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from carb_cli.review.languages import LANGUAGES

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("language", LANGUAGES)
def test_instructions_are_those_of_the_page(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    from make_review_pages import instructions

    written = (DOCS / "review" / f"instructions-{language}.md").read_text(encoding="utf-8")
    assert written == instructions(language), "run `python docs/make_review_pages.py`"
    assert f"(review/instructions-{language}.md)" in (DOCS / "review.md").read_text(encoding="utf-8")
