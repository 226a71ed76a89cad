"""Colours and type of all charts, and how they become files or part of a page."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

from carb_cli.output import write

ACCENT, SOFT, CHANCE, FLOOR = "#2f6fab", "#9dbfdd", "#7a7a7a", "#b8541f"
TEXT, GRID = "#1c1d1f", "#d9dadc"

_VARIABLES = {
    ACCENT: "var(--accent)",
    SOFT: "var(--soft)",
    CHANCE: "var(--chance)",
    FLOOR: "var(--floor)",
    GRID: "var(--grid)",
    TEXT: "currentColor",
}


def themed(chart: Any, title: str = "") -> Any:
    """The chart with the report's type and colours."""
    if title:
        chart = chart.properties(title=title)
    axis = {"labelColor": TEXT, "titleColor": TEXT, "gridColor": GRID, "domainColor": CHANCE, "tickColor": CHANCE}
    return chart.configure(
        background="transparent",
        font="Helvetica, Arial, sans-serif",
        view={"stroke": None},
        axis={**axis, "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "labelLimit": 280},
        header={"labelColor": TEXT, "titleColor": TEXT, "labelFontSize": 12, "labelFontWeight": "bold"},
        legend={"labelColor": TEXT, "titleColor": TEXT, "labelLimit": 280, "symbolStrokeWidth": 0},
        title={"color": TEXT, "fontSize": 13, "anchor": "start"},
        text={"color": TEXT},
    )


def to_svg(chart: Any) -> str:
    """The chart as an SVG file."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(chart.to_dict(), allowed_base_urls=[]))


def to_png(chart: Any) -> bytes:
    """The chart as a PNG file on white, three pixels a point."""
    import vl_convert

    specification = chart.to_dict()
    specification["config"]["background"] = "white"
    return bytes(vl_convert.vegalite_to_png(specification, scale=3, allowed_base_urls=[]))


def save(chart: Any, stem: Path) -> tuple[Path, Path]:
    """Write the chart as ``stem.svg`` and ``stem.png``.

    Raises:
        CarbError: the folder cannot be written.
    """
    return save_as(chart, stem.with_name(f"{stem.name}.svg")), save_as(chart, stem.with_name(f"{stem.name}.png"))


def save_as(chart: Any, path: Path) -> Path:
    """Write the chart as SVG or PNG, by the suffix of ``path``."""
    return write(path, to_png(chart) if path.suffix == ".png" else to_svg(chart))


def to_inline(chart: Any, label: str) -> str:
    """The chart as an element of a page: colours follow the page's variables, and a screen reader reads ``label``.

    The result is markup that Vega made, with every text in it escaped; it holds no script, style or link.
    """
    svg = to_svg(chart)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(f'"{colour}"', f'"{variable}"')
    svg = re.sub(r' aria-(?:roledescription|label|hidden)="[^"]*"| role="[^"]*"| font-family="[^"]*"', "", svg)
    head = f'<svg role="img" aria-label="{html.escape(label)}" class="chart"'
    return re.sub(r'^<svg xmlns="[^"]*" xmlns:xlink="[^"]*" version="[^"]*" class="marks"', lambda _: head, svg)
