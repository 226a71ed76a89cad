"""The report as one self-contained HTML file.

Charts are drawn when the page is made, as SVG in it, and the tables are plain HTML, so that the page says all it has
to say without a script. A small script of our own, named by its hash in the Content-Security-Policy, adds sorting,
filters and the page of each set; the policy allows nothing else, no evaluation of strings and no request. Vega's own
bundle would have added 0.8 MB and needs ``unsafe-eval`` or an interpreter.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.metadata import version
from typing import Any

from jinja2 import Environment, FunctionLoader, Template
from markupsafe import Markup

from carb_cli.display import number, p_value, percent, safe
from carb_cli.labels import labels
from carb_cli.report.content import Runs
from carb_cli.report.figures import inline, place_chance, place_rows, reach
from carb_cli.report.model import Report
from carb_cli.report.payload import TEXT_BUDGET, Payload, payload
from carb_cli.report.sections import sections
from carb_cli.report.shown import JudgeTexts

SCRIPTS = ("sort.js", "base.js", "address.js", "leaderboard.js", "set.js", "sets.js", "start.js")


def render(
    report: Report,
    runs: Runs,
    written: Mapping[str, JudgeTexts] | None = None,
    *,
    budget: int = TEXT_BUDGET,
    only: str | None = None,
) -> str:
    """The page. Every text in it that is not ours is escaped.

    Args:
        report: the content of the page.
        runs: the runs that the report was made from.
        written: what judges wrote, by scorer.
        budget: bytes of the page that the texts of the sets may take.
        only: the one section to show below the first screen; null for all.
    """
    data = payload(report, runs, written, budget=budget)
    return page(
        "page.html.jinja",
        SCRIPTS,
        report=report,
        short=labels(report.scorers),
        level=f"{100 * report.confidence:.4g}%",
        chart=place_rows(report),
        chance=place_chance(report),
        reach=reach(report),
        sections=sections(report, only),
        figures=inline(report),
        failure_note=failure_note(data),
        payload=Markup(data.encoded),  # noqa: S704 - base64
    )


def page(name: str, scripts: Sequence[str], /, **fields: object) -> str:
    """A page of this package: its template with the style, the scripts, and what the policy calls them."""
    style, script = asset("style.css"), "".join(map(asset, scripts))
    return template(name).render(
        **fields,
        style=Markup(style),  # noqa: S704 - our own files
        script=Markup(script),  # noqa: S704 - our own files
        style_hash=csp_hash(style),
        script_hash=csp_hash(script),
        version=version("carb-cli"),
    )


def template(name: str) -> Template:
    """A template of this package; it is compiled once."""
    return _environment().get_template(name)


@cache
def _environment() -> Environment:
    made = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=plain, loader=FunctionLoader(asset)
    )
    made.filters |= {"percent": percent, "number": number, "p": p_value, "shell": shlex.join}
    return made


def plain(value: Any) -> Any:
    """What a template prints: texts of others without control characters and bidirectional overrides."""
    return safe(value) if type(value) is str else value


def failure_note(data: Payload) -> str:
    """How many failures there are, and how much of the sets is in the file."""
    said = f"{data.failures:,} of {data.sets:,} sets are not won by every scorer."
    if data.embedded < data.sets:
        said += (
            f" The texts of {data.embedded:,} sets are in this file, those first that no model wins; the others are "
            f"listed without texts (carb report --texts MEGABYTES takes in more)."
        )
    return said


def asset(name: str) -> str:
    """A file of this package."""
    return (resources.files("carb_cli") / "report" / "web" / name).read_text(encoding="utf-8")


def csp_hash(content: str) -> str:
    """How a Content-Security-Policy names an inline style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode("ascii")
