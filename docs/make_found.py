"""Makes docs/found.md, its picture and docs/found/readings.csv from the scores in docs/found.

Usage: python docs/make_found.py

``keep_found.py`` writes the sets to score, and keeps what the runs scored.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import NormalDist, median
from typing import NamedTuple

import polars as pl

from carb_data import BonSet, Dataset, ScoreTable, load
from carb_data.models import Citation, Provenance, Response
from carb_data.table import COLUMNS
from carb_metrics import bon_accuracy, compare, family_accuracy
from carb_metrics.cells import Grouped
from carb_metrics.families import FamilyRow
from carb_metrics.interval import Interval

DOCS = Path(__file__).parent
KEPT = DOCS / "found"
PAGE = DOCS / "found.md"
READINGS = KEPT / "readings.csv"
PICTURE = DOCS / "images" / "found-places.svg"
SEED = "seed"
"""The short families of carb-seed; data of other names are other files."""
PLACE = "place"
"""Sets of ``SEED`` with the place's name in the place of the question."""
OTHER = "other"
"""Sets of ``SEED`` with the question of another family, about their own place."""
OVERLAP = "overlap"
PHRASE = "phrase"
KINDS = ("custom", "formula", "norm", "pragmatics", "taboo", "word")
PRACTICE = ("custom", "norm", "taboo")
"""Kinds of facts that few answers quote a phrase for."""
MODELS = {
    "smollm2-135m": "SmolLM2 135M Instruct",
    "gemma3-270m": "Gemma 3 270M",
    "qwen2.5-1.5b": "Qwen2.5-Coder 1.5B",
}
TITLES = MODELS | {
    OVERLAP: "words shared with the question",
    PHRASE: "language of the quoted phrase",
}
BOUNDS = {OVERLAP: "#bbb", PHRASE: "#555"}
"""Rules that know no custom, with their colours."""
LANGUAGES = {
    "ar": "Arabic",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "ja": "Japanese",
    "ko": "Korean",
    "ru": "Russian",
    "th": "Thai",
    "vi": "Vietnamese",
    "zh": "Chinese",
}
COLUMN_TITLES = {
    "smollm2-135m": "SmolLM2",
    "gemma3-270m": "Gemma",
    "qwen2.5-1.5b": "Qwen",
    OVERLAP: "shared words",
    PHRASE: "phrase's language",
}


class Part(NamedTuple):
    """What is read: data, way of asking, wording of the place, kinds of facts (all, if none), and
    other data with their way, whose sets alone are read."""

    data: str
    way: str = "likelihood"
    place: str | None = None
    kinds: tuple[str, ...] = ()
    beside: tuple[str, str] | None = None


PARTS = {
    "named": Part(SEED, place="named"),
    "practice named": Part(SEED, place="named", kinds=PRACTICE),
    "implied": Part(SEED, place="implied"),
    "practice implied": Part(SEED, place="implied", kinds=PRACTICE),
    "practice, place alone": Part(PLACE),
    "practice, other question": Part(OTHER),
    "asked by likelihood": Part(SEED, beside=(SEED, "listwise")),
    "asked by lists": Part(SEED, "listwise"),
    "asked by pairs": Part(SEED, "pairwise"),
    "asked with the fact": Part(SEED, "likelihood open", "named"),
    "blend": Part("blend"),
}
SAMPLES = (
    ("the shortest of each language and domain", "sample", (*LANGUAGES,)),
    ("all that no attack solves, by likelihood per token", "hard", (*LANGUAGES,)),
    ("all in English, by likelihood per token", "whole", ("en",)),
    ("all in {languages}, by likelihood per token", "whole", (*LANGUAGES,)),
)
"""Each line of the table of the published sample: its name, its data, its languages."""
GAINS = {PLACE: "the place's name alone", OTHER: "another family's question"}
COLOURS = dict(zip(MODELS, ("#0072b2", "#d55e00", "#009e73"), strict=True))
Row = dict[str, str]
Reading = tuple[str, FamilyRow]
"""A name of ``PARTS``, and what one model reads there."""


def short_families() -> list[BonSet]:
    """The sets of carb-seed that are scored: all short families, named and implied."""
    named = [item for item in load("carb-seed").without_perturbed() if item.form == "short"]
    return [item for item in named if item.family and item.language in LANGUAGES]


def text_key(item: BonSet) -> str:
    """A hash of the question and the answers, the only texts that a score depends on."""
    texts = [item.prompt_text, *(response.text for response in item.responses)]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def read_csv(name: str) -> list[Row]:
    with (KEPT / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class Kept:
    """The kept rows as the metrics want them: sets whose texts are letters, and tables of
    scores."""

    def __init__(self) -> None:
        self.rows = read_csv("sets.csv")
        self.sets = {(row["data"], row["set"], row["text"]): bare_set(row) for row in self.rows}
        self.scores = read_csv("scores.csv")

    def part(self, model: str, part: Part) -> tuple[ScoreTable, Dataset]:
        """What one model scored there, and the sets."""
        items: list[BonSet] = []
        cells: list[dict[str, object]] = []
        beside = {row["set"] for row in self.scores if (row["data"], row["way"]) == part.beside}
        for row in self.scores:
            item = self.sets[row["data"], row["set"], row["text"]]
            if (row["data"], row["model"], row["way"]) != (part.data, model, part.way):
                continue
            if part.beside and row["set"] not in beside:
                continue
            if part.place in (None, item.place) and (
                not part.kinds or str(item.kind) in part.kinds
            ):
                items.append(item)
                cells += cells_of(item, row)
        return ScoreTable(pl.DataFrame(cells, schema=COLUMNS)), Dataset(items)


def bare_set(row: Row) -> BonSet:
    answers = tuple(
        Response(
            id=letter,
            text=letter,
            role="chosen" if letter == row["right"] else "rejected",
            language=row["language"],
            source=Citation(fact=row[f"{letter}_fact"] or None),
        )
        for letter in "ABCD"
    )
    source = Provenance(
        source="found", source_id=row["source"] or None, license="none", method="generated"
    )
    return BonSet(
        id=row["set"],
        culture=row["culture"],
        domain=row["domain"],
        language=row["language"],
        prompt="?",
        responses=answers,
        provenance=source,
        family=row["family"] or None,
        kind=row["kind"] or None,
        place=row["place"] or None,
    )


def cells_of(item: BonSet, row: Row) -> Iterator[dict[str, object]]:
    for answer in item.responses:
        yield {
            "scorer": row["model"],
            "item_id": item.id,
            "response_id": answer.id,
            "role": str(answer.role),
            "culture": item.culture,
            "domain": str(item.domain),
            "language": answer.language,
            "perturbation": None,
            "original": None,
            "score": float(row[answer.id]) if row[answer.id] else None,
        }


def shown(value: Interval) -> str:
    """A share in percent with its interval."""
    if value.estimate is None or value.low is None or value.high is None:
        return "–"
    middle, low, high = (f"{100 * x:.1f}" for x in (value.estimate, value.low, value.high))
    return f"{middle} [{low}, {high}]"


def family_rows(kept: Kept, part: Part, by: str) -> list[FamilyRow]:
    """The readings of each model that was run there: of all families, and of each group."""
    rows: list[FamilyRow] = []
    for model in TITLES:
        scores, dataset = kept.part(model, part)
        report = family_accuracy(scores, dataset, by, blind=()) if len(dataset) else None
        rows += report.rows if report else ()
    return sorted(rows, key=lambda row: row.group or "")


def readings(kept: Kept) -> list[Reading]:
    """Every number of the page, and more: of all families, by language, and by kind of fact."""
    found: list[Reading] = []
    for name, part in PARTS.items():
        for by in ("language", "kind"):
            rows = family_rows(kept, part, by)
            found += [(name, row) for row in rows if row.group or by == "language"]
    return found


def reading_cells(name: str, row: FamilyRow) -> Row:
    cells = {"sets": name, "group": row.group or "", "model": row.scorer}
    cells["families"] = str(row.families)
    return cells | percents("place_win", row.place_win) | percents("row", row.row)


def question_gains(kept: Kept) -> Iterator[tuple[str, str, int, Interval]]:
    """What a set's own question adds to each control, in shares of the place win rate: control,
    model, families, difference."""
    for control in (PLACE, OTHER):
        for model in MODELS:
            scores, _ = kept.part(model, Part(control))
            whole, dataset = kept.part(model, Part(SEED, beside=(control, "likelihood")))
            if not len(scores):
                continue
            renamed = ScoreTable(scores.frame.with_columns(pl.lit(control).alias("scorer")))
            wins = compare(whole, renamed, dataset=dataset).place_win
            if wins:
                yield control, model, wins.families, wins.difference


def gain_cells(control: str, model: str, families: int, gain: Interval) -> Row:
    cells = {"sets": f"practice, gain over {control}", "group": "", "model": model}
    return cells | {"families": str(families)} | percents("place_win", gain)


def smallest_gain(control: str, model: str, families: int, gain: Interval) -> str:
    """The true gain that an interval of this width leaves out zero for in four cases of five."""
    assert gain.low is not None
    assert gain.high is not None
    limit, strength = NormalDist().inv_cdf(0.975), NormalDist().inv_cdf(0.8)
    error = (gain.high - gain.low) / 2 / limit
    points = 100 * error * (limit + strength)
    title = COLUMN_TITLES[model]
    return f"* {title}, {families} families, over {GAINS[control]}: {points:.1f} points."


def percents(name: str, value: Interval) -> Row:
    limits = {"estimate": value.estimate, "low": value.low, "high": value.high}
    return {
        f"{name}_{limit}": "" if number is None else f"{100 * number:.1f}"
        for limit, number in limits.items()
    }


def wide(rows: Sequence[tuple[str, str, str | None]], every: Sequence[Reading]) -> str:
    """A line for each ``(label, sets, group)``, a column for each model: the place win rate.

    The line counts the families of the model that was asked about most."""
    wanted = {(sets, group) for _, sets, group in rows}
    shown_rows = [(name, row) for name, row in every if (name, row.group) in wanted]
    models = [model for model in COLUMN_TITLES if any(r.scorer == model for _, r in shown_rows)]
    values = {(name, row.group, row.scorer): row for name, row in shown_rows}
    titles = " | ".join(COLUMN_TITLES[model] for model in models)
    lines = [f"| | families | {titles} |", "|---" * (2 + len(models)) + "|"]
    for label, sets, group in rows:
        cells = [values.get((sets, group, model)) for model in models]
        families = max((row.families for row in cells if row), default=0)
        if not families:
            continue
        numbers = (counted(row, families) if row else "–" for row in cells)
        lines.append(f"| {label} | {families} | {' | '.join(numbers)} |")
    return "\n".join(lines)


def counted(row: FamilyRow, families: int) -> str:
    """The place win rate, with its number of families where the line's is another."""
    value = shown(row.place_win)
    return value if row.families == families else f"{value} of {row.families}"


def kinds_table(every: Sequence[Reading]) -> str:
    """The only table of families: all of them, what people do, and each kind of fact."""
    kinds = sorted({row.group for name, row in every if name == "named" and row.group in KINDS})
    rows: list[tuple[str, str, str | None]] = [
        ("**all, place named**", "named", None),
        ("customs, norms, taboos", "practice named", None),
        ("… the place's name alone", "practice, place alone", None),
        ("… another family's question", "practice, other question", None),
        *((f"{kind} alone", "named", kind) for kind in kinds),
        ("**all, place implied**", "implied", None),
        ("customs, norms, taboos", "practice implied", None),
        ("**BLEnD**", "blend", None),
    ]
    return wide(rows, every)


def ways_table(every: Sequence[Reading]) -> str:
    """The same families asked in several ways."""
    ways = (
        ("likelihood of each answer", "asked by likelihood"),
        ("all answers at once, two orders", "asked by lists"),
        ("two answers at a time, two orders", "asked by pairs"),
        ("likelihood, the fact before the question", "asked with the fact"),
    )
    return wide([(label, name, None) for label, name in ways], every)


def sample(kept: Kept) -> str:
    """Accuracy on sets of the published sample."""
    titles = " | ".join(COLUMN_TITLES[model] for model in MODELS)
    lines = [f"| | sets | {titles} |", "|---" * (2 + len(MODELS)) + "|"]
    for name, data, languages in SAMPLES:
        results = [sample_result(kept, model, data, languages) for model in MODELS]
        most = max((result.overall.n for result in results if result), default=0)
        cells = " | ".join(sample_cell(result, most) for result in results)
        known = {item.language for item in kept.part("gemma3-270m", Part(data))[1]}
        label = name.format(languages=", ".join(sorted(known)))
        lines.append(f"| {label} | {most:,} | {cells} |")
    return "\n".join(lines)


def sample_result(kept: Kept, model: str, data: str, languages: Sequence[str]) -> Grouped | None:
    """What a model scored on the sets in some languages; None where it scored none."""
    scores, dataset = kept.part(model, Part(data))
    wanted = Dataset(item for item in dataset if item.language in languages)
    if not len(wanted):
        return None
    ids = [item.id for item in wanted]
    part = ScoreTable(scores.frame.filter(pl.col("item_id").is_in(ids)))
    return bon_accuracy(part.with_items(wanted))


def sample_cell(result: Grouped | None, most: int) -> str:
    """Accuracy, with its number of sets where the line's is another."""
    if result is None:
        return "–"
    row = result.overall
    return shown(row) if row.n == most else f"{shown(row)} of {row.n:,}"


def state(kept: Kept) -> str:
    """Which data the rows are of."""
    today = {text_key(item): item for item in short_families()}
    dataset = load("carb-seed")
    lines = [f"carb-seed 3, fingerprint `{dataset.fingerprint[:12]}`."]
    for model, title in MODELS.items():
        scored = {
            row["text"]
            for row in kept.scores
            if (row["data"], row["model"], row["way"]) == (SEED, model, "likelihood")
        }
        count = f"{len(scored & {*today}):,} of {len(today):,}"
        lines.append(f"{title}: {count} sets of short families.")
    return "\n".join(f"* {line}" for line in lines)


def cost_table() -> str:
    """Processor seconds a set: the median, the least and the most."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for row in read_csv("cost.csv"):
        seconds[row["model"]].append(float(row["seconds"]))
    models = [model for model in MODELS if model in seconds]
    lines = [f"| | {' | '.join(COLUMN_TITLES[model] for model in models)} |"]
    lines.append("|---" * (1 + len(models)) + "|")
    cells = (
        f"{median(seconds[model]):.1f} [{min(seconds[model]):.1f}, {max(seconds[model]):.1f}]"
        for model in models
    )
    label = "processor seconds a set, median [least, most], one at a time on two x86-64 cores"
    lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def picture(every: Sequence[Reading]) -> str:
    """Dots with intervals from 25 to 100%: a group a language, a colour a model; a grey bar for
    shared words."""
    rows = [row for name, row in every if name == "named" and row.group in LANGUAGES]
    left, width, step, top = 120, 560, 15, 78
    languages = sorted({row.group for row in rows})

    def across(share: float) -> float:
        return left + width * (min(max(share, 0.25), 1.0) - 0.25) / 0.75

    marks = []
    for language in languages:
        own = [row for row in rows if row.group == language]
        models = [row for row in own if row.scorer in MODELS]
        end = top + step * max(1, len(models))
        name = LANGUAGES[language]
        middle = (top + end - step) / 2 + 5
        marks.append(f'<text x="{left - 12}" y="{middle}" text-anchor="end">{name}</text>')
        for row in own:
            if row.scorer in BOUNDS and row.place_win.estimate is not None:
                x = across(row.place_win.estimate)
                colour = BOUNDS[row.scorer]
                marks.append(f'<path d="M{x:.1f} {top - 8}V{end - 4}" stroke="{colour}"')
                marks[-1] += ' stroke-width="3"/>'
        for row in models:
            marks += dot(row, top, across)
            top += step
        top = end + step
    axis = []
    for percent in (25, 50, 75, 100):
        x = across(percent / 100)
        colour = "#555" if percent == 50 else "#ddd"
        axis.append(f'<path d="M{x:.1f} 62V{top}" stroke="{colour}"/>')
        axis.append(f'<text x="{x:.1f}" y="{top + 16}" text-anchor="middle">{percent}</text>')
    named = [model for model in MODELS if any(row.scorer == model for row in rows)]
    for number, model in enumerate(named):
        x = 20 + 190 * number
        axis.append(f'<circle cx="{x}" cy="44" r="5" fill="{COLOURS[model]}"/>')
        axis.append(f'<text x="{x + 11}" y="49">{MODELS[model]}</text>')
    names = {OVERLAP: "shared words", PHRASE: "phrase's language"}
    for number, (bound, colour) in enumerate(BOUNDS.items()):
        x = 20 + 190 * len(named) + 120 * number
        axis.append(f'<path d="M{x} 38V52" stroke="{colour}" stroke-width="3"/>')
        axis.append(f'<text x="{x + 11}" y="49">{names[bound]}</text>')
    size = f'viewBox="0 0 {left + width + 20} {top + 30}" font-family="sans-serif" font-size="13"'
    title = "Place win rate in % of comparisons, place named; 50 without reading the place"
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="14" y="22" font-weight="bold">{title}</text>',
    ]
    return "\n".join([*head, *axis, *marks, "</svg>", ""])


def dot(row: FamilyRow, y: float, across: Callable[[float], float]) -> Iterator[str]:
    value, colour = row.place_win, COLOURS[row.scorer]
    if value.low is not None and value.high is not None:
        line = f"M{across(value.low):.1f} {y}H{across(value.high):.1f}"
        yield f'<path d="{line}" stroke="{colour}" stroke-width="2"/>'
    if value.estimate is not None:
        yield f'<circle cx="{across(value.estimate):.1f}" cy="{y}" r="4.5" fill="{colour}"/>'


def made() -> dict[Path, str]:
    """The page, its picture and all readings, as the kept rows have them."""
    kept = Kept()
    every = readings(kept)
    gains = [*question_gains(kept)]
    tables = {
        "state": state(kept),
        "kinds": kinds_table(every),
        "ways": ways_table(every),
        "sample": sample(kept),
        "cost": cost_table(),
        "gains": "\n".join(smallest_gain(*gain) for gain in gains),
    }
    page = PAGE.read_text(encoding="utf-8")
    for name, text in tables.items():
        head, end = f"<!-- found: {name} -->\n", "<!-- end -->"
        if head in page:
            before, _, rest = page.partition(head)
            page = f"{before}{head}{text}\n{end}{rest.partition(end)[2]}"
    lines = [reading_cells(name, row) for name, row in every]
    lines += [gain_cells(*gain) for gain in gains]
    table = io.StringIO()
    writer = csv.DictWriter(table, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return {PAGE: page, PICTURE: picture(every), READINGS: table.getvalue()}


def unfounded(page: str) -> set[str]:
    """What the text of the page says and nothing holds: an interval that is no reading, another
    number with a decimal point that stands in no made part of the page."""
    number = r"(?<![\w.])-?\d+\.\d+(?![\w.])"
    interval = rf"({number})(?:%|\spoints)?\s\[({number}),\s({number})\]"
    made_parts = r"^<!-- found: .*?^<!-- end -->$"
    tables = "\n".join(re.findall(made_parts, page, flags=re.MULTILINE | re.DOTALL))
    text = re.sub(rf"{made_parts}|^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    known = {match.groups() for match in re.finditer(interval, tables)}
    for line in read_csv(READINGS.name):
        for key in ("place_win", "row"):
            known.add((line[f"{key}_estimate"], line[f"{key}_low"], line[f"{key}_high"]))
    said = [(match.group(), match.groups()) for match in re.finditer(interval, text)]
    alone = {*re.findall(number, re.sub(interval, "", text))} - {*re.findall(number, tables)}
    return alone | {words for words, numbers in said if numbers not in known}


if __name__ == "__main__":
    for path, text in made().items():
        path.write_text(text, encoding="utf-8")
        print(path)
