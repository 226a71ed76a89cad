"""Makes the pictures of the README and the docs from a real run, with a headless Chromium.

Usage: python docs/make_images.py [RUN]      (RUN defaults to runs/demo, which `nox -s demo` writes)
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT = 1180, 1000

sys.path.insert(0, str(ROOT / "tests"))


def main(run: Path) -> None:
    from playwright.sync_api import sync_playwright

    from browsers import FLAGS, HOW, chromium
    from carb_cli import main as carb
    from carb_cli.runs import dataset_of

    path = chromium()
    if path is None:
        sys.exit(f"no Chromium found; {HOW}")
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        page_file = Path(folder) / "report.html"
        if carb(["report", str(run), "--html", str(page_file)]):
            sys.exit(f"no report of {run}; make the run with `nox -s demo`, or name another")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
            for scheme, name in (("light", "report.png"), ("dark", "report-dark.png")):
                page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme)
                page.goto(page_file.as_uri())
                page.locator("html[data-ready]").wait_for(state="attached")
                page.screenshot(path=IMAGES / name)
                print(IMAGES / name)
            families = (item for item in dataset_of(run) if item.family and item.language == "en")
            shown = min(families, key=lambda item: sum(len(answer.text) for answer in item.responses)).id
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            page.goto(f"{page_file.as_uri()}#{urlencode({'set': shown})}")
            page.locator("#set-page[open]").wait_for()
            page.screenshot(path=IMAGES / "report-set.png")
            print(IMAGES / "report-set.png")
            browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "runs" / "demo")
