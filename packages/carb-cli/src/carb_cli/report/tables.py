"""The leaderboard as Markdown, as LaTeX, and as evaluation results of Hugging Face model cards."""

from __future__ import annotations

import json
from typing import Any

from carb_cli.display import interval, percent, safe
from carb_cli.labels import labels
from carb_cli.report.model import DatasetPart, Report, ScorerPart
from carb_metrics.showing import latex_escape, markdown_escape


def human(data: DatasetPart) -> str:
    """The human line behind the chance level; nothing where the data set was not reviewed."""
    line = data.human
    if line is None:
        return ""
    of_all = " on the whole reviewed data set" if data.human_whole else ""
    return f", human line {percent(line.share)}% [{interval(line.low, line.high)}]{of_all}"


def markdown_table(report: Report) -> str:
    """Scorers by overall accuracy with interval, and by domain."""
    short = labels(report.scorers)
    domains = list(report.dataset.domains)
    level = f"{100 * report.confidence:.4g}%"
    data = report.dataset
    head = (
        f"{_md(', '.join(data.names))}: {data.sets:,} sets, chance {percent(data.chance)}%{human(data)}. Accuracy in "
        f"percent with its {level} interval. Fingerprint `{data.fingerprint[:16]}`."
    )
    lines = [
        head,
        "",
        "| rank | scorer | accuracy | " + " | ".join(domains) + " | ties | errors |",
        "|---|---|---|" + "---|" * len(domains) + "---|---|",
    ]
    for name, part in report.scorers.items():
        cells = [percent(part.by_domain[d].accuracy) if d in part.by_domain else "–" for d in domains]
        row = [
            part.rank.text,
            _md(short[name]),
            _accuracy(part),
            *cells,
            str(part.overall.ties),
            str(part.overall.errors),
        ]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def latex_table(report: Report) -> str:
    """A ``tabular`` for booktabs: scorers by domain and overall with interval."""
    short = labels(report.scorers)
    domains = list(report.dataset.domains)
    level = f"{100 * report.confidence:.4g}"
    rows = []
    for name, part in report.scorers.items():
        cells = [percent(part.by_domain[d].accuracy) if d in part.by_domain else "--" for d in domains]
        cell = part.overall
        interval = "" if cell.low is None else f" {{\\scriptsize [{percent(cell.low)}, {percent(cell.high)}]}}"
        rows.append(
            " & ".join([_tex(short[name]), *cells, percent(cell.accuracy).replace("–", "--") + interval]) + r" \\"
        )
    names = _tex(", ".join(report.dataset.names))
    return "\n".join(
        [
            f"% {names}: {report.dataset.sets} sets, fingerprint {report.dataset.fingerprint[:16]}; needs booktabs",
            r"\begin{tabular}{l" + "r" * len(domains) + "l}",
            r"\toprule",
            " & ".join(["Scorer", *map(_tex, domains), f"Accuracy [{level}\\%]"]) + r" \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def model_card(report: Report) -> str:
    """A ``model-index`` for each scorer that is a model, for the YAML header of its Hugging Face model card.

    The form is that of https://github.com/huggingface/hub-docs/blob/main/modelcard.md; strings are JSON strings,
    which YAML reads as they are.
    """
    parts = {name: part for name, part in report.scorers.items() if part.spec.kind != "baseline"}
    if not parts:
        return "# No scorer of this report is a model: surface baselines have no card.\n"
    return "".join(_card(name, part, report) for name, part in parts.items())


def _card(name: str, part: ScorerPart, report: Report) -> str:
    data = report.dataset
    metrics = [("Best-of-N accuracy", part.overall), *((f"accuracy, {d}", cell) for d, cell in part.by_domain.items())]
    lines = [
        f"# {safe(name)}",
        "model-index:",
        f"- name: {_yaml(labels([part.spec.model or name])[part.spec.model or name])}",
        "  results:",
        "  - task:",
        "      type: text-classification",
        '      name: "reward modelling, cultural Best-of-N"',
        "    dataset:",
        f"      name: {_yaml(', '.join(data.names))}",
        f"      type: {_yaml(data.names[0] if data.names else 'carb')}",
        f"      revision: {_yaml(data.fingerprint)}",
        "    metrics:",
    ]
    for label, cell in metrics:
        if cell.accuracy is None or cell.low is None or cell.high is None:
            continue
        lines += [
            "    - type: accuracy",
            f"      name: {_yaml(label)}",
            f"      value: {round(100 * cell.accuracy, 2)}",
            "      args:",
            f"        interval: [{round(100 * cell.low, 2)}, {round(100 * cell.high, 2)}]",
            f"        confidence: {report.confidence}",
            f"        sets: {cell.n}",
            f"        ties: {cell.ties}",
            f"        errors: {cell.errors}",
            f"        scorer: {_yaml(name)}",
        ]
    return "\n".join(lines) + "\n"


def _accuracy(part: ScorerPart) -> str:
    cell = part.overall
    return percent(cell.accuracy) + ("" if cell.low is None else f" [{percent(cell.low)}, {percent(cell.high)}]")


def _md(text: str) -> str:
    return markdown_escape(safe(text))


def _tex(text: str) -> str:
    return latex_escape(safe(text))


def _yaml(text: str) -> Any:
    return json.dumps(safe(text), ensure_ascii=False)
