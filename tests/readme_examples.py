"""Code blocks of pages, for tests that run them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCORERS = ROOT / "packages" / "carb-scorers" / "README.md"
INTEGRATIONS = ROOT / "docs" / "how-to" / "integrations.md"
TESTED = ROOT / "docs" / "tests-and-benchmarks" / "carb-scorers.md"


def example(word: str, path: Path = INTEGRATIONS) -> str:
    """The one Python block that holds ``word``."""
    blocks = re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    (found,) = [block for block in blocks if word in block]
    return found
