"""The language model of some thousand weights of tal-rlvr's tests, for tests in other
environments."""

from __future__ import annotations

import runpy
from pathlib import Path

CONFTEST = Path(__file__).parent.parent / "packages" / "tal-rlvr" / "tests" / "conftest.py"


def make_tiny(folder: Path) -> Path:
    """Save the model and its tokenizer into a new folder."""
    runpy.run_path(str(CONFTEST))["save_tiny"](folder)
    return folder
