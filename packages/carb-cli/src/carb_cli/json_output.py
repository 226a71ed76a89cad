"""Output with ``--json``."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any


def counts(values: Iterable[str]) -> dict[str, int]:
    """How often each value is there, in the order of the values."""
    return dict(sorted(Counter(values).items()))


def print_json(content: Any) -> None:
    """Print a value as JSON on stdout, nothing else; characters that stdout cannot show are
    escaped."""
    plain = (sys.stdout.encoding or "utf-8").lower().replace("-", "") != "utf8"
    sys.stdout.write(json.dumps(content, ensure_ascii=plain, indent=2, allow_nan=False) + "\n")


def csp_hash(content: str) -> str:
    """How a Content-Security-Policy names an inline style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode("ascii")
