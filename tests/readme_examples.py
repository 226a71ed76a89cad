"""Code blocks of a README, for tests that run them."""

from __future__ import annotations

import re
from pathlib import Path

SCORERS = Path(__file__).parents[1] / "packages" / "carb-scorers" / "README.md"


def example(word: str, path: Path = SCORERS) -> str:
    """The one Python block that holds ``word``."""
    blocks = re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    (found,) = [block for block in blocks if word in block]
    return found
