"""The words, names and marks that code looks up, in data files of this package."""

import json
from importlib import resources
from typing import Any


def resource(name: str) -> Any:
    """The content of ``resources/NAME.json``."""
    file = resources.files("carb_data") / "resources" / f"{name}.json"
    return json.loads(file.read_text("utf-8"))
