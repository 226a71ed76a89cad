"""The report as one self-contained HTML file.

The template draws the chart as SVG, and the tables are plain HTML. The page is complete without a
script. A small script of our own, named by its hash in the Content-Security-Policy, adds filters
and each set. The policy allows nothing else: no evaluation of strings, no request.
"""

import base64
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.metadata import version
from typing import Any

from jinja2 import Environment, FunctionLoader
from markupsafe import Markup

from carb_cli.display import number, p_value, percent, safe
from carb_cli.json_output import csp_hash
from carb_cli.report.content import Runs
from carb_cli.report.group_chart import panels
from carb_cli.report.heat_map import heat_map
from carb_cli.report.payload import payload
from carb_cli.report.report_json import Report
from carb_cli.report.sections import leaderboard, sections
from carb_cli.report.shown import JudgeTexts
from carb_cli.report.tables import marked_labels
from carb_metrics import Interval

SCRIPTS = "base.js address.js set.js heat.js sets.js"


def render(
    report: Report,
    runs: Runs,
    written: Mapping[str, JudgeTexts] | None = None,
    *,
    only: str | None = None,
) -> str:
    """The page. Every text in it that is not ours is escaped.

    Args:
        report: the content of the page.
        runs: the runs that the report was made from.
        written: what judges wrote, by scorer.
        only: the one section to show below the first screen; null for all.
    """
    data = payload(report, runs, written)
    return page(
        "page.html.jinja",
        SCRIPTS.split(),
        report=report,
        level=f"{100 * report.confidence:.4g}%",
        chart=chart_of(report),
        map=heat_map(report, runs),
        groups=Markup(group_figure(report)),  # noqa: S704 - an escaping template drew it
        board=leaderboard(report),
        sections=sections(report, only),
        data=data,
        payload=Markup(data.encoded),  # noqa: S704 - base64
    )


def chart_of(report: Report) -> dict[str, Any]:
    """The first chart, of what ranks: the place win rate and row accuracy of each scorer with their
    limits, or accuracy where families are too few."""
    marked = marked_labels(report)
    families = None
    if report.ranked_by == "place_win":
        families = report.families
    rows = []
    for name, part in report.scorers.items():
        win = Interval()
        share: Interval = part.overall
        if families is not None:
            win = families.of(name).place_win
            share = families.of(name).row
        named = {"name": marked[name], "whole": name, "model": name in report.models}
        rows.append(named | {"share": share, "win": win})
    chance = report.dataset.chance
    if families is not None:
        chance = families.rows[0].chance
    chart = {"rows": rows, "families": families is not None, "chance": chance}
    drawn = base64.b64encode(figure(chart).encode("utf-8")).decode("ascii")
    return chart | {"svg": f"data:image/svg+xml;base64,{drawn}"}


def figure(chart: Mapping[str, Any]) -> str:
    """The first chart as an SVG file."""
    return drawn("figure.svg.jinja", chart=chart)


def group_figure(report: Report) -> str:
    """Accuracy by group as an SVG file; empty where no column has two groups."""
    made = panels(report)
    chance = report.dataset.chance or 0.5
    if not made:
        return ""
    return drawn("groups.svg.jinja", panels=made, chance=chance)


def drawn(name: str, /, **fields: object) -> str:
    """A drawing of this package."""
    return _environment().get_template(name).render(**fields)


def page(name: str, scripts: Sequence[str], /, **fields: object) -> str:
    """A page of this package: its template with the style, the scripts, and their hashes for the
    policy."""
    style = asset("style.css")
    script = "".join(map(asset, scripts))
    return (
        _environment()
        .get_template(name)
        .render(
            **fields,
            style=Markup(style),  # noqa: S704 - our own files
            script=Markup(script),  # noqa: S704 - our own files
            style_hash=csp_hash(style),
            script_hash=csp_hash(script),
            version=version("carb-cli"),
        )
    )


@cache
def _environment() -> Environment:
    """The templates of this package; each is compiled once."""
    made = Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(asset),
        finalize=lambda value: (
            safe(value) if type(value) is str else value
        ),  # texts of others steer no line
    )
    made.filters |= {
        "count": "{:,}".format,
        "percent": percent,
        "number": number,
        "p": p_value,
        "shell": shlex.join,
    }
    return made


def asset(name: str) -> str:
    """A file of this package."""
    return (resources.files("carb_cli") / "report" / "web" / name).read_text(encoding="utf-8")
