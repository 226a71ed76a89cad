"""Chromium for the browser tests, found and never downloaded, and what axe says of a page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
WATCHED = (
    "violations = []; addEventListener('securitypolicyviolation', (e) => "
    "violations.push(e.effectiveDirective))"
)
"""Notes in a page what its policy has refused."""
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
HOW = (
    "install one (Debian: apt-get install chromium) or name it in CARB_CHROMIUM; `nox -s "
    "browser` runs these tests"
)


def chromium() -> str | None:
    """The path of an installed Chromium."""
    named = os.environ.get("CARB_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def started(sync_api: Any) -> Iterator[Any]:
    """Chromium for the tests of a file, which are skipped where there is none."""
    path = chromium()
    if path is None:
        pytest.skip(f"no Chromium found; {HOW}")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


def axe_finds(page: Any, *where: str) -> list[Any]:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="needs axe-playwright-python"
    )
    found = axe.Axe().run(page, *where).response["violations"]
    return [(one["id"], [node["html"][:160] for node in one["nodes"][:3]]) for one in found]


def artefacts(default: Path) -> Path:
    """Where screenshots are kept: ``CARB_ARTEFACTS``, or a folder that the test run removes."""
    folder = Path(os.environ.get("CARB_ARTEFACTS", default))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
