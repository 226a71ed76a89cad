"""Chromium for the browser tests: found, never downloaded."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
HOW = "install one (Debian: apt-get install chromium) or name it in CARB_CHROMIUM; `nox -s browser` runs these tests"


def chromium() -> str | None:
    """The path of an installed Chromium."""
    named = os.environ.get("CARB_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


def artefacts(default: Path) -> Path:
    """Where screenshots are kept: ``CARB_ARTEFACTS``, or a folder that the test run removes."""
    folder = Path(os.environ.get("CARB_ARTEFACTS", default))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
