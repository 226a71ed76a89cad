"""Makes the picture of the README from the demo's run, with a headless Chromium.

Usage: python docs/make_images.py [REPORT]      (defaults to runs/demo/report.html, which `nox -s
demo` writes)
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "report.png"
WIDTH, HEIGHT = 1180, 960

sys.path.insert(0, str(ROOT / "tests"))


def main(report: Path) -> None:
    from playwright.sync_api import sync_playwright

    from browsers import FLAGS, HOW, chromium

    path = chromium()
    if path is None:
        sys.exit(f"no Chromium found; {HOW}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(report.resolve().as_uri())
        page.locator("html[data-ready]").wait_for(state="attached")
        page.screenshot(path=PICTURE)
        browser.close()
    print(PICTURE)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "runs" / "demo" / "report.html")
