"""Output with ``--json``."""

import base64
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

from pydantic_core import to_jsonable_python

from carb_data import UNSPECIFIED


def counts(values: Iterable[object]) -> dict[str, int]:
    """How often each value is there, by its text, in the order of the texts."""
    times = Counter(values).items()
    named = {str(value or UNSPECIFIED): count for value, count in times}
    return dict(sorted(named.items()))


def digest(text: str) -> str:
    """The sha256 of any text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def print_json(content: Any) -> None:
    """Print a value, which may hold models, as JSON on stdout, nothing else; characters that stdout
    cannot show are escaped."""
    encoding = (sys.stdout.encoding or "utf-8").lower()
    plain = encoding.replace("-", "") != "utf8"
    text = json.dumps(
        content, ensure_ascii=plain, indent=2, allow_nan=False, default=to_jsonable_python
    )
    sys.stdout.write(f"{text}\n")


def csp_hash(content: str) -> str:
    """How a Content-Security-Policy names an inline style or script."""
    hashed = hashlib.sha256(content.encode()).digest()
    return "sha256-" + base64.b64encode(hashed).decode("ascii")
