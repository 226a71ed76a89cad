"""The report as one self-contained HTML file.

Charts are drawn when the page is made, as SVG in it, and the tables are plain HTML, so that the page says all it has
to say without a script. A small script of our own, named by its hash in the Content-Security-Policy, adds sorting,
filters and the page of each set; the policy allows nothing else, no evaluation of strings and no request. Vega's own
bundle would have added 0.8 MB and needs ``unsafe-eval`` or an interpreter.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.metadata import version
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FunctionLoader, Template
from markupsafe import Markup

from carb_cli.display import number, p_value, percent, safe
from carb_cli.labels import labels
from carb_cli.report.behaviour import accuracy_at, biased, calibrated
from carb_cli.report.content import Runs, best_of
from carb_cli.report.figures import KINDS, changes, group_label, group_names, small_multiples, validity
from carb_cli.report.model import Report
from carb_cli.report.payload import TEXT_BUDGET, Payload, payload
from carb_metrics import Cell

SECTIONS = (
    ("leaderboard-section", "Leaderboard"),
    ("families-section", "Families"),
    ("surface-section", "Above the surface?"),
    ("pairs-section", "Against each other"),
    ("judges-section", "Position and length"),
    ("calibration-section", "Calibration"),
    ("groups-section", "Cultures and domains"),
    ("perturbation-section", "Perturbations"),
    ("consistency-section", "Consistency"),
    ("validity-section", "Validity"),
    ("items-section", "Items"),
    ("failures", "Sets and failures"),
    ("methods-section", "Methods"),
)

SCRIPTS = ("sort.js", "base.js", "address.js", "leaderboard.js", "set.js", "sets.js", "start.js")
WIDEST = 12
"""Columns of groups that fit a page; with more groups, they are the rows and the scorers the columns."""
COLUMNS = 8
"""Scorers in one of these turned tables; with more scorers, further tables follow."""


def render(
    report: Report, runs: Runs, rationales: Mapping[str, Mapping[str, str]], *, budget: int = TEXT_BUDGET
) -> str:
    """The page. Every text in it that is not ours is escaped.

    Args:
        report: The content of the page.
        runs: The runs that the report was made from.
        rationales: The texts that judges wrote, by scorer and set id.
        budget: bytes of the page that the texts of the sets may take.
    """
    data = payload(report, runs.dataset, runs.scores, rationales, budget=budget)
    style, script = asset("style.css"), "".join(map(asset, SCRIPTS))
    parts, names = report.scorers.values(), list(report.scorers)
    items = {item.id: item for item in runs.dataset}
    perturbed = any(part.perturbation for part in parts)
    consistent = any(part.consistency is not None and part.consistency.n for part in parts)
    behaved = {
        "biased": biased(report),
        "calibrated": calibrated(report),
        "accuracy_at": accuracy_at,
    }
    empty = {
        "families-section": report.families is None,
        "pairs-section": len(report.scorers) < 2,
        "items-section": report.items is None,
        "judges-section": not behaved["biased"],
        "calibration-section": not behaved["calibrated"],
        "surface-section": report.floor is None or not report.floor.tests,
        "perturbation-section": not perturbed,
        "consistency-section": not consistent,
        "validity-section": report.validity is None,
    }
    return template("page.html.jinja").render(
        report=report,
        shade=_shade_of(report),
        short=labels(report.scorers),
        sections=[(anchor, title) for anchor, title in SECTIONS if not empty.get(anchor)],
        best=best_of(report),
        level=f"{100 * report.confidence:.4g}%",
        group_names=lambda key: group_names(report, key),
        group_label=group_label,
        family_domains=[]
        if report.families is None
        else list(dict.fromkeys(row.group for row in report.families.rows if row.group is not None)),
        perturbed=perturbed,
        kinds=[kind for kind in KINDS if any(kind in part.perturbation for part in report.scorers.values())],
        consistent=consistent,
        figures=_figures(report),
        widest=WIDEST,
        columns=COLUMNS,
        pairs={(pair.a, pair.b): pair for pair in report.pairs} if len(names) > 1 else {},
        wins={(a, b): data.wins[i][j] for i, a in enumerate(names) for j, b in enumerate(names)},
        questions={} if report.items is None else {row.item_id: items[row.item_id] for row in report.items.suspicious},
        link=link,
        **behaved,
        failure_note=failure_note(data),
        payload=Markup(data.encoded),  # noqa: S704 - base64
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
    made.filters |= {"percent": percent, "number": number, "p": p_value}
    return made


def plain(value: Any) -> Any:
    """What a template prints: texts of others without control characters and bidirectional overrides."""
    return safe(value) if type(value) is str else value


def link(**choices: str) -> str:
    """An address within the page that shows these choices, as ``web/address.js`` reads it."""
    return "#" + urlencode(choices, errors="replace")


def failure_note(data: Payload) -> str:
    """How many failures there are, and how much of the sets is in the file."""
    said = f"{data.failures:,} of {data.sets:,} sets are not won by every scorer."
    if data.embedded < data.sets:
        said += (
            f" The texts of {data.embedded:,} sets are in this file, those first that no model wins; the others are "
            f"listed without texts (carb report --texts MEGABYTES takes in more)."
        )
    if data.cut:
        were = "text was" if data.cut == 1 else "texts were"
        said += f" {data.cut:,} very long {were} cut, which is said where it happened."
    return said


def _figures(report: Report) -> dict[str, Markup]:
    found = {}
    if len(report.dataset.domains) > 1:
        found["domains-intervals"] = small_multiples(report, "by_domain", "domains-intervals")
    if any(part.perturbation for part in report.scorers.values()):
        found["perturbations"] = changes(report, "spread", "perturbations")
    if report.validity is not None:
        found["validity"] = validity(report)
    return {name: Markup(figure.inline()) for name, figure in found.items()}  # noqa: S704 - Vega escapes texts


def _shade_of(report: Report) -> Any:
    """Colour class of a cell: u1 to u10 above chance, d1 to d5 below, none where its interval holds chance.

    The shade follows the limit of the interval that is nearer to chance, so that few sets give a pale cell.
    """
    chance = report.dataset.chance if report.dataset.chance is not None else 0.5

    def shade(cell: Cell | None) -> str:
        if cell is None or cell.low is None or cell.high is None:
            return ""
        if cell.low > chance:
            return f"u{max(1, round(10 * (cell.low - chance) / (1 - chance)))}"
        if cell.high < chance:
            return f"d{max(1, round(5 * (chance - cell.high) / chance))}"
        return ""

    return shade


def asset(name: str) -> str:
    """A file of this package."""
    return (resources.files("carb_cli") / "report" / "web" / name).read_text(encoding="utf-8")


def csp_hash(content: str) -> str:
    """How a Content-Security-Policy names an inline style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode("ascii")
