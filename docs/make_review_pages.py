"""Makes the reviewers' instructions in ten languages, and the pictures of the review, from the page itself.

Usage: python docs/make_review_pages.py [--no-pictures]
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
IMAGES, PAGES = DOCS / "images", DOCS / "review"
PHONE = {"width": 360, "height": 740}

sys.path.insert(0, str(DOCS.parent / "tests"))


def instructions(language: str) -> str:
    """The reviewers' instructions as a page, with the words of the review page."""
    from carb_cli.review.languages import texts

    words = texts(language)
    steps = [f"{number}. {words[f'guide_{number}']}" for number in range(1, 8)]
    consent = [words[f"consent_{number}"] for number in range(1, 4)]
    body = "\n".join([f"# {words['help']}", "", *steps, "", f"## {words['consent_title']}", ""])
    text = body + "\n\n".join(consent) + "\n"
    note = "<!-- Made by `python docs/make_review_pages.py` from the words of the review page. -->\n\n"
    return note + (f'<div dir="rtl" lang="{language}" markdown="1">\n\n{text}\n</div>\n' if language == "ar" else text)


def pictures() -> None:
    """A phone in Thai, one in Arabic, and the organiser's board halfway through."""
    from playwright.sync_api import sync_playwright

    from browsers import FLAGS, HOW, chromium
    from review_server import Client, Server, event

    path = chromium()
    if path is None:
        sys.exit(f"no Chromium found; {HOW}")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        for culture in ("thai", "arabic"):
            server = Server(Path(folder) / f"{culture}.reviews", "--reviewers", "5", cultures=(culture,))
            page = browser.new_context(viewport=PHONE, device_scale_factor=2).new_page()
            _answer_one(page, server.links[0])
            page.screenshot(path=IMAGES / f"review-phone-{culture}.png")
            if culture == "thai":
                rng = random.Random(1)
                for place, link in enumerate(server.links[1:]):
                    client = Client(link)
                    client.enter()
                    for item in client.items(44)[: 44 - 9 * place]:
                        client.call("api/events", {"events": [event(item, rng.randrange(4))]})
                board = browser.new_context(viewport={"width": 800, "height": 460}).new_page()
                board.goto(server.said["board"])
                board.locator("html[data-ready]").wait_for(state="attached")
                board.screenshot(path=IMAGES / "review-board.png")
            server.stop()
        browser.close()


def _answer_one(page: Any, link: str) -> None:
    """Agree, and fill in a part of the first item."""
    page.goto(link)
    page.locator("input[name=agree]").check()
    page.locator("button[type=submit]").click()
    cards = page.locator("fieldset[data-token]")
    cards.first.wait_for()
    cards.nth(0).locator("input[value=best]").check()
    cards.nth(1).locator("input[value=wrong]").check()
    page.evaluate("scrollTo(0, 0)")


def main() -> None:
    from carb_cli.review.languages import LANGUAGES

    PAGES.mkdir(exist_ok=True)
    for language in LANGUAGES:
        path = PAGES / f"instructions-{language}.md"
        path.write_text(instructions(language), encoding="utf-8")
        print(path)
    if "--no-pictures" not in sys.argv:
        pictures()


if __name__ == "__main__":
    main()
