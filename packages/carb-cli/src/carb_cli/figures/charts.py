"""The charts. Each takes plain rows and gives an Altair chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from carb_cli.figures.theme import ACCENT, CHANCE, FLOOR, SOFT, TEXT, themed

Row = Mapping[str, Any]
WIDTH = 520
STEP = 22


def _data(rows: Sequence[Row]) -> alt.Data:
    return alt.Data(values=[dict(row) for row in rows])


def _names(rows: Sequence[Row]) -> alt.Y:
    names = list(dict.fromkeys(row["name"] for row in rows))
    return alt.Y("name:N", sort=names, title=None, axis=alt.Axis(grid=False, ticks=False, domain=False))


def _intervals(base: alt.Chart, axis: alt.X, colour: Any) -> alt.LayerChart:
    """A point at ``value`` on a line from ``low`` to ``high``."""
    line = base.mark_rule(strokeWidth=2.5, strokeCap="round").encode(x=axis, x2="high:Q", color=colour)
    return alt.layer(line, base.mark_point(filled=True, size=60, opacity=1).encode(x="value:Q", color=colour))


def _at(value: float) -> alt.Chart:
    """A dotted line where a scorer would be that does not read the question."""
    rule = alt.Chart(alt.Data(values=[{"at": value}])).mark_rule(color=CHANCE, strokeDash=[2, 3], strokeWidth=1.5)
    return rule.encode(x="at:Q")


def readings(rows: Sequence[Row], *, chance: float | None) -> Any:
    """Accuracy and, where rows have it, the place effect beside it, with intervals and the marks of chance.

    Args:
        rows: ``name``, ``model`` (false for a baseline), and ``share`` and ``effect``, each a value with its limits.
        chance: where the mark of the first panel is; null for none. That of the second is 0.
    """
    share = alt.X(
        "low:Q", title="right answer on top", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format=".0%", tickCount=6)
    )
    panels = [_panel(rows, "share", share, chance)]
    if any(row["effect"][0] is not None for row in rows):
        panels.append(_panel(rows, "effect", alt.X("low:Q", title="place effect", axis=alt.Axis(tickCount=6)), 0.0))
        panels[1] = panels[1].encode(alt.Y("name:N", sort=[row["name"] for row in rows], title=None, axis=None))
    return themed(alt.hconcat(*panels) if len(panels) > 1 else panels[0])


def _panel(rows: Sequence[Row], key: str, axis: alt.X, mark: float | None) -> Any:
    shown = [
        {"name": row["name"], "model": row["model"], "value": value, "low": low, "high": high}
        for row in rows
        for value, low, high in [row[key]]
        if value is not None
    ]
    base = alt.Chart(_data(shown)).encode(y=_names(rows))
    colour = alt.condition("datum.model", alt.value(ACCENT), alt.value(CHANCE))
    layers = [*([] if mark is None else [_at(mark)]), _intervals(base, axis, colour)]
    return alt.layer(*layers).properties(width=WIDTH // 2, height={"step": STEP})


def changes(rows: Sequence[Row], *, title: str) -> Any:
    """How much each kind of perturbation moves the scores.

    Args:
        rows: ``name``, ``kind`` (CC, RC, CL, RP), ``value``, ``low``, ``high``.
        title: title of the value axis.
    """
    axis = alt.X("low:Q", title=None, axis=alt.Axis(format=".2~f", tickCount=4))
    colour = alt.condition("datum.kind == 'CC'", alt.value(ACCENT), alt.value(FLOOR))
    panel = _intervals(alt.Chart().encode(y=_names(rows)), axis, colour)
    panel = alt.layer(*panel.layer, data=_data(rows)).properties(width=190, height={"step": 20})
    header = alt.Header(titleFontWeight="normal")
    return themed(panel.facet(column=alt.Column("kind:N", title=title, sort=["CC", "RC", "CL", "RP"], header=header)))


def regression(points: Sequence[Row], band: Sequence[Row], *, x_title: str, y_title: str) -> Any:
    """Points with names, the least-squares line, its confidence band and its prediction band.

    Args:
        points: rows with ``name``, ``x`` and ``y``; each is one dot.
        band: ``x``, ``y``, ``mean_low``, ``mean_high``, ``low``, ``high``, along the line; may be empty.
        x_title: title of the horizontal axis.
        y_title: title of the vertical axis.
    """
    x = alt.X("x:Q", title=x_title, scale=alt.Scale(zero=False, nice=True))
    y = alt.Y("y:Q", title=y_title, scale=alt.Scale(zero=False, nice=True))
    layers: list[Any] = []
    if band:
        line = alt.Chart(_data(band)).encode(x=x)
        if band[0].get("low") is not None:
            layers.append(line.mark_area(color=SOFT, opacity=0.18).encode(y="low:Q", y2="high:Q"))
            layers.append(line.mark_area(color=SOFT, opacity=0.45).encode(y="mean_low:Q", y2="mean_high:Q"))
        layers.append(line.mark_line(color=ACCENT, strokeWidth=2).encode(y="y:Q"))
    base = alt.Chart(_data(points)).encode(x=x, y=y)
    layers.append(base.mark_point(filled=True, size=55, color=FLOOR, opacity=1))
    layers.append(base.mark_text(align="left", dx=7, dy=-5, fontSize=10, color=TEXT, limit=150).encode(text="name:N"))
    return themed(alt.layer(*layers).properties(width=WIDTH, height=340))
