"""The charts. Each takes plain rows and gives an Altair chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from carb_cli.figures.theme import ACCENT, CHANCE, FLOOR, SERIES, SOFT, TEXT, themed

Row = Mapping[str, Any]
WIDTH = 520
STEP = 22
PERCENT = alt.Axis(format=".0%", tickCount=6)


def _data(rows: Sequence[Row]) -> alt.Data:
    return alt.Data(values=[dict(row) for row in rows])


def _names(names: Sequence[str]) -> alt.Y:
    return alt.Y("name:N", sort=list(names), title=None, axis=alt.Axis(grid=False, ticks=False, domain=False))


def _intervals(base: alt.Chart, field: str, low: str, high: str, axis: alt.X, colour: Any) -> alt.LayerChart:
    line = base.mark_rule(strokeWidth=2.5, strokeCap="round").encode(x=axis, x2=f"{high}:Q", color=colour)
    line = line.encode(x=alt.X(f"{low}:Q", **{k: v for k, v in axis.to_dict().items() if k not in ("field", "type")}))
    point = base.mark_point(filled=True, size=60, opacity=1).encode(x=f"{field}:Q", color=colour)
    return alt.layer(line, point)


def _at(value: float, colour: str, dash: Sequence[int]) -> alt.Chart:
    rule = alt.Chart(alt.Data(values=[{"at": value}])).mark_rule(color=colour, strokeDash=list(dash), strokeWidth=1.5)
    return rule.encode(x="at:Q")


def leaderboard(rows: Sequence[Row], *, chance: float | None, floor: float | None) -> Any:
    """Accuracy with intervals, best first, with the lines of chance and of the best surface baseline.

    Args:
        rows: ``name``, ``accuracy``, ``low``, ``high``; shares.
    """
    axis = alt.X("low:Q", title="accuracy", scale=alt.Scale(domain=[0, 1]), axis=PERCENT)
    base = alt.Chart(_data(rows)).encode(y=_names([row["name"] for row in rows]))
    layers: list[Any] = []
    if chance is not None:
        layers.append(_at(chance, CHANCE, (2, 3)))
    if floor is not None:
        layers.append(_at(floor, FLOOR, (6, 3)))
    layers.append(_intervals(base, "accuracy", "low", "high", axis, alt.value(ACCENT)))
    return themed(alt.layer(*layers).properties(width=WIDTH, height={"step": STEP}))


def small_multiples(rows: Sequence[Row], *, chance: float | None, columns: int = 2) -> Any:
    """Accuracy with intervals of every scorer, one panel for each group.

    Args:
        rows: ``name``, ``group``, ``accuracy``, ``low``, ``high``.
    """
    names = list(dict.fromkeys(row["name"] for row in rows))
    axis = alt.X("low:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format=".0%", values=[0, 0.5, 1]))
    base = alt.Chart().encode(y=_names(names))  # without data of its own, so that each panel gets its part
    layers: list[Any] = []
    if chance is not None:
        rule = alt.Chart().mark_rule(color=CHANCE, strokeDash=[2, 3], strokeWidth=1.5)
        layers.append(rule.encode(x=alt.datum(chance)))
    layers.append(_intervals(base, "accuracy", "low", "high", axis, alt.value(ACCENT)))
    panel = alt.layer(*layers, data=_data(rows)).properties(width=190, height={"step": 18})
    return themed(panel.facet(facet=alt.Facet("group:N", title=None, sort=None), columns=columns))


def heat_map(rows: Sequence[Row], *, chance: float | None, x_title: str | None = None) -> Any:
    """Accuracy by scorer and group as colour and number; colours part at chance.

    Args:
        rows: ``name``, ``group``, ``accuracy`` (or null).
    """
    names, groups = ([*dict.fromkeys(row[key] for row in rows)] for key in ("name", "group"))
    middle = chance if chance is not None else 0.5
    shown = [{**row, "text": "–" if row["accuracy"] is None else f"{100 * row['accuracy']:.0f}",
              "dark": row["accuracy"] is not None and (row["accuracy"] > 0.72 or row["accuracy"] < middle * 0.25)}
             for row in rows]  # fmt: skip
    base = alt.Chart(_data(shown)).encode(
        x=alt.X("group:N", sort=groups, title=x_title, axis=alt.Axis(labelAngle=-40, ticks=False, domain=False)),
        y=_names(names),
    )
    scale = alt.Scale(domain=[0, middle, 1], range=["#b8541f", "#f4f3ef", "#1f5a94"], interpolate="rgb")
    cells = base.mark_rect().encode(
        color=alt.Color("accuracy:Q", scale=scale, title="accuracy", legend=alt.Legend(format=".0%"))
    )
    text = base.mark_text(fontSize=10).encode(
        text="text:N", color=alt.condition("datum.dark", alt.value("#ffffff"), alt.value("#1c1d1f"))
    )
    return themed(alt.layer(cells, text).properties(width={"step": 42}, height={"step": STEP}))


def matrix(rows: Sequence[Row], *, title: str) -> Any:
    """A square matrix of shares.

    Args:
        rows: ``a``, ``b``, ``value`` (0 to 1, or null).
    """
    names = list(dict.fromkeys(row["a"] for row in rows))
    shown = [{**row, "text": "" if row["value"] is None else f"{row['value']:.2f}",
              "dark": row["value"] is not None and row["value"] > 0.7} for row in rows]  # fmt: skip
    base = alt.Chart(_data(shown)).encode(
        x=alt.X("b:N", sort=names, title=None, axis=alt.Axis(labelAngle=0, ticks=False, domain=False)),
        y=alt.Y("a:N", sort=names, title=None, axis=alt.Axis(ticks=False, domain=False)),
    )
    scale = alt.Scale(domain=[0, 1], range=["#f4f3ef", "#1f5a94"], interpolate="rgb")
    cells = base.mark_rect().encode(color=alt.Color("value:Q", scale=scale, title=title))
    text = base.mark_text(fontSize=10).encode(
        text="text:N", color=alt.condition("datum.dark", alt.value("#ffffff"), alt.value("#1c1d1f"))
    )
    return themed(alt.layer(cells, text).properties(width={"step": 38}, height={"step": 28}))


def changes(rows: Sequence[Row], *, title: str, percent: bool) -> Any:
    """How much each kind of perturbation moves the scores.

    Args:
        rows: ``name``, ``kind`` (CC, RC, CL, RP), ``value``, ``low``, ``high``.
        title: title of the value axis.
        percent: whether values are shares.
    """
    names = list(dict.fromkeys(row["name"] for row in rows))
    axis = alt.X("low:Q", title=None, axis=alt.Axis(format=".0%" if percent else ".2~f", tickCount=4))
    colour = alt.condition("datum.kind == 'CC'", alt.value(ACCENT), alt.value(FLOOR))
    base = alt.Chart().encode(y=_names(names))
    panel = _intervals(base, "value", "low", "high", axis, colour)
    panel = alt.layer(*panel.layer, data=_data(rows)).properties(width=190, height={"step": 20})
    header = alt.Header(titleFontWeight="normal")
    return themed(panel.facet(column=alt.Column("kind:N", title=title, sort=["CC", "RC", "CL", "RP"], header=header)))


def regression(points: Sequence[Row], band: Sequence[Row], *, x_title: str, y_title: str) -> Any:
    """Points with names, the least-squares line, its confidence band and its prediction band.

    Args:
        points: rows with ``name``, ``x`` and ``y``; each is one dot.
        band: ``x``, ``y``, ``mean_low``, ``mean_high``, ``low``, ``high``, along the line; may be empty.
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


def correlations(rows: Sequence[Row], *, title: str) -> Any:
    """Correlations with intervals, one panel for each group, with a line at none.

    Args:
        rows: ``name``, ``group``, ``value``, ``low``, ``high`` (the last two may be null).
        title: title of the value axis.
    """
    axis = alt.X("low:Q", title=None, scale=alt.Scale(domain=[-1, 1]), axis=alt.Axis(values=[-1, -0.5, 0, 0.5, 1]))
    base = alt.Chart().encode(y=_names(list(dict.fromkeys(row["name"] for row in rows))))
    none = alt.Chart().mark_rule(color=CHANCE, strokeDash=[2, 3], strokeWidth=1.5).encode(x=alt.datum(0))
    panel = _intervals(base, "value", "low", "high", axis, alt.value(ACCENT))
    layers = alt.layer(none, *panel.layer, data=_data(rows)).properties(width=190, height={"step": STEP})
    header = alt.Header(titleFontWeight="normal")
    return themed(layers.facet(facet=alt.Facet("group:N", title=title, sort=None, header=header), columns=3))


def lines(rows: Sequence[Row], *, x_title: str, y_title: str) -> Any:
    """One line for each name.

    Args:
        rows: rows with ``name``, ``x`` and ``y``; each name is one line.
    """
    names = list(dict.fromkeys(row["name"] for row in rows))
    colour = alt.Color("name:N", sort=names, title=None, scale=alt.Scale(range=list(SERIES)))
    base = alt.Chart(_data(rows)).encode(x=alt.X("x:Q", title=x_title), y=alt.Y("y:Q", title=y_title), color=colour)
    return themed(alt.layer(base.mark_line(), base.mark_point(filled=True)).properties(width=WIDTH, height=300))
