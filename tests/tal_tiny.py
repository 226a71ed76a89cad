"""The language model of some thousand weights of tal-rlvr's tests, for tests in other environments."""

from __future__ import annotations

import importlib.util
from pathlib import Path

CONFTEST = Path(__file__).parent.parent / "packages" / "tal-rlvr" / "tests" / "conftest.py"


def make_tiny(folder: Path) -> Path:
    """Save the model and its tokenizer into a new folder."""
    spec = importlib.util.spec_from_file_location("tal_conftest", CONFTEST)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.save_tiny(folder)
    return folder
