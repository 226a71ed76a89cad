"""The report as one self-contained HTML file."""

from __future__ import annotations

from importlib import resources
from typing import Any

from jinja2 import Environment

from carb_cli.display import percent


def render(content: dict[str, Any]) -> str:
    """The page; every text in it is escaped."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["percent"] = percent
    template = (resources.files("carb_cli") / "report" / "page.html.jinja").read_text(encoding="utf-8")
    return environment.from_string(template).render(content)
