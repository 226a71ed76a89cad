"""What commands print with ``--json``, and the files that they write."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from carb_data.journal import write_whole


def counts(values: Iterable[str]) -> dict[str, int]:
    """How often each value is there, in the order of the values."""
    return dict(sorted(Counter(values).items()))


def print_json(content: Any) -> None:
    """Print a value as JSON on stdout, nothing else; characters that stdout cannot show are escaped."""
    plain = (sys.stdout.encoding or "utf-8").lower().replace("-", "") != "utf8"
    sys.stdout.write(json.dumps(content, ensure_ascii=plain, indent=2, allow_nan=False) + "\n")


def write(path: Path, content: str | bytes) -> Path:
    """Write a file, and the folders above it.

    Raises:
        CarbError: it cannot be written.
    """
    write_whole(path, content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)
    return path


def csp_hash(content: str) -> str:
    """How a Content-Security-Policy names an inline style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode("ascii")
