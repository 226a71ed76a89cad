"""The reference results: which sets are scored, what is kept of the runs, and the page that is made
from it.

Usage: python docs/make_found.py sets FOLDER      writes the sets of carb-seed that are scored
       python docs/make_found.py rows RUN...      keeps scores and records of runs in docs/found,
       without any text python docs/make_found.py                  makes the tables and pictures of
       docs/found.md from docs/found
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import polars as pl

from carb_cli.probing import probing_families
from carb_cli.runs import dataset_of
from carb_data import BonSet, Dataset, ScoreTable, load
from carb_data.models import Provenance, Response
from carb_data.table import COLUMNS
from carb_metrics import bon_accuracy, family_accuracy
from carb_metrics.rows import FamilyRow, Interval
from carb_scorers.run import RunRecord

DOCS = Path(__file__).parent
ROWS = DOCS / "found"
PAGE = DOCS / "found.md"
FAMILIES = 2
"""Short families of each language and group, those with the fewest characters; one of them with
open book."""
ENGLISH = 10
"""Short English families about customs: the facts are in English."""
HARD = 40
"""Sets of the published sample that no attack solves, those with the fewest characters."""
KNOWLEDGE = ("word", "law", "date")
BY_KIND = ("custom", "norm", "formula", "word", "date")
"""Kinds with two families or more among those that are scored."""
SETS = ("set", "source", "family", "culture", "domain", "language", "kind", "place", "right")
SCORES = ("data", "model", "way", "set", "A", "B", "C", "D")
MODELS = {
    "smollm2-135m": "SmolLM2 135M Instruct",
    "gemma3-270m": "Gemma 3 270M",
    "qwen2.5-1.5b": "Qwen2.5-Coder 1.5B",
}
COLOURS = ("#0072b2", "#d55e00", "#009e73")


def sets(folder: Path) -> None:
    """Write the sets; those of the published sample where ``sample.jsonl`` and ``hard.jsonl`` are
    in the folder."""
    seed = load("carb-seed@3")
    families = whole_families(seed)
    groups: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for name, found in families.items():
        if found[0].place == "named" and (
            found[0].kind in KNOWLEDGE or f"{name}+implied" in families
        ):
            groups[found[0].language, found[0].kind not in KNOWLEDGE].append(name)
    closed, book = [], []
    for (_, culture), names in sorted(groups.items()):
        closed += [
            one for name in names[:FAMILIES] for one in (name, f"{name}+implied") if one in families
        ]
        book += names[:1] if culture else []
    folder.mkdir(parents=True, exist_ok=True)
    Dataset(item for name in closed for item in families[name]).save(folder / "seed.jsonl")
    Dataset(item for name in book for item in families[name]).save(folder / "book.jsonl")
    named = (
        one for one in families.values() if one[0].place == "named" and one[0].kind not in KNOWLEDGE
    )
    english = [one for one in named if one[0].language == "en"][:ENGLISH]
    Dataset(item for one in english for item in one).save(folder / "english.jsonl")
    probing_families(seed).save(folder / "ways.jsonl")
    if (folder / "sample.jsonl").is_file() and (folder / "hard.jsonl").is_file():
        cells: dict[tuple[str, str], BonSet] = {}
        for item in shortest(load(folder / "sample.jsonl")):
            cells.setdefault((item.language, item.domain), item)
        Dataset(cells.values()).save(folder / "sample-short.jsonl")
        Dataset(shortest(load(folder / "hard.jsonl"))[:HARD]).save(folder / "hard-short.jsonl")


def shortest(dataset: Dataset) -> list[BonSet]:
    return sorted(dataset, key=lambda item: (characters([item]), item.id))


def whole_families(dataset: Dataset) -> dict[str, list[BonSet]]:
    """Short families in which each answer is right once, those with the fewest characters first."""
    families: dict[str, list[BonSet]] = defaultdict(list)
    for item in dataset.without_perturbed():
        if item.family is not None and item.form == "short":
            families[item.family].append(item)
    kept = [
        f for f in families.values() if len({item.chosen.text for item in f}) == len(f[0].responses)
    ]
    return {
        found[0].family or "": found
        for found in sorted(kept, key=lambda f: (characters(f), f[0].family))
    }


def characters(family: Sequence[BonSet]) -> int:
    return sum(
        len(text)
        for item in family
        for text in (item.prompt_text, *(one.text for one in item.responses))
    )


def rows(folders: Iterable[Path]) -> None:
    """Keep ids, labels and scores: an answer is a letter, the same one in all sets of a family.

    What is kept of data that no run scored stays.
    """
    about: dict[str, tuple[str, ...]] = {}
    scores: list[tuple[str, ...]] = []
    records = []
    for folder in folders:
        record = RunRecord.read(folder)
        dataset = dataset_of(folder)
        data = Path(record.dataset.names[0]).stem
        letters = dict(letters_of(dataset))
        for item in dataset:
            right = letters[item.id, item.chosen.id]
            described = (
                item.culture,
                item.domain,
                item.language,
                item.kind or "",
                item.place or "",
                right,
            )
            about[item.id] = (
                item.id,
                item.provenance.source_id or "",
                item.family or "",
                *described,
            )
        frame = ScoreTable.load(folder / "scores.parquet").frame
        for scorer in record.scorers:
            spec = scorer.spec
            model = Path(spec.model or "").name
            way = str(spec.parameters.get("mode", "likelihood")) + (
                " open" if "facts" in spec.parameters else ""
            )
            found: dict[str, dict[str, str]] = defaultdict(dict)
            for row in frame.filter(frame["scorer"] == spec.name).iter_rows(named=True):
                score = "" if row["score"] is None else f"{row['score']:.9g}"
                found[row["item_id"]][letters[row["item_id"], row["response_id"]]] = score
            scores += [
                (data, model, way, name, *(one[key] for key in sorted(one)))
                for name, one in found.items()
            ]
            kept = {
                "data": data,
                "model": model,
                "way": way,
                "created": f"{record.created:%Y-%m-%d}",
            }
            kept |= record.model_dump(
                mode="json", include={"command", "dataset", "python", "versions", "machine"}
            )
            records.append(
                kept
                | scorer.model_dump(mode="json", include={"spec", "items", "errors", "label_mass"})
            )
    again, before = {record["data"] for record in records}, Found()
    scores += [tuple(row.values()) for row in before.scores if row["data"] not in again]
    about = {name: tuple(row.values()) for name, row in before.about.items()} | about
    records += [one for one in before.records if one["data"] not in again]
    write(ROWS / "sets.csv", SETS, sorted(about[name] for name in {row[3] for row in scores}))
    write(ROWS / "scores.csv", SCORES, sorted(scores))
    lines = (json.dumps(record, ensure_ascii=False) for record in sorted(records, key=str))
    (ROWS / "runs.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def letters_of(dataset: Dataset) -> Iterator[tuple[tuple[str, str], str]]:
    """The letter of each response, by the ids of set and response."""
    texts: dict[str, list[str]] = defaultdict(list)
    for item in dataset:
        known = texts[item.family or item.id]
        for one in item.responses:
            if one.text not in known:
                known.append(one.text)
            yield (item.id, one.id), "ABCD"[known.index(one.text)]


def write(path: Path, columns: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([columns, *lines])


class Found:
    """The kept rows as the metrics want them: sets whose texts are letters, and tables of
    scores."""

    def __init__(self) -> None:
        with (ROWS / "sets.csv").open(encoding="utf-8", newline="") as file:
            self.about = {row["set"]: row for row in csv.DictReader(file)}
        with (ROWS / "scores.csv").open(encoding="utf-8", newline="") as file:
            self.scores = list(csv.DictReader(file))
        self.records = [
            json.loads(line)
            for line in (ROWS / "runs.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        self.sets = {name: bare_set(row) for name, row in self.about.items()}

    def table(
        self, data: str, model: str, way: str, names: Iterable[str]
    ) -> tuple[ScoreTable, Dataset]:
        """The scores of one model on some of the sets of a data set, and these sets."""
        wanted = set(names)
        mine = [
            r
            for r in self.scores
            if (r["data"], r["model"], r["way"]) == (data, model, way) and r["set"] in wanted
        ]
        return table_of(mine, self.sets), Dataset(self.sets[row["set"]] for row in mine)

    def names(self, what: str) -> list[str]:
        """The sets of one part: ``named``, ``implied``, ``knowledge``, those of one kind, or all of
        them."""
        if what in BY_KIND:
            return [name for name, row in self.about.items() if row["kind"] == what]
        if what == "knowledge":
            return [name for name, row in self.about.items() if row["kind"] in KNOWLEDGE]
        if what == "all":
            return [*self.about]
        return [
            n
            for n, row in self.about.items()
            if row["place"] == what and row["kind"] not in KNOWLEDGE
        ]

    def families(self, data: str, model: str, way: str, what: str) -> FamilyRow | None:
        """The readings of one model on one part; null where it was not run there."""
        table, dataset = self.table(data, model, way, self.names(what))
        report = family_accuracy(table, dataset) if len(dataset) else None
        return None if report is None else report.rows[0]


def bare_set(row: dict[str, str]) -> BonSet:
    right = row["right"]
    answers = tuple(
        Response(
            id=a, text=a, role="chosen" if a == right else "rejected", language=row["language"]
        )
        for a in "ABCD"
    )
    origin = Provenance(
        source="found", source_id=row["source"] or None, license="none", method="generated"
    )
    return BonSet(
        id=row["set"],
        culture=row["culture"],
        domain=row["domain"],
        language=row["language"],
        prompt="?",
        responses=answers,
        provenance=origin,
        family=row["family"] or None,
    )


def table_of(lines: Sequence[dict[str, str]], known: dict[str, BonSet]) -> ScoreTable:
    cells = [
        {
            "scorer": line["model"],
            "item_id": line["set"],
            "response_id": answer.id,
            "role": str(answer.role),
            "culture": known[line["set"]].culture,
            "domain": str(known[line["set"]].domain),
            "language": answer.language,
            "perturbation": None,
            "original": None,
            "score": float(line[answer.id]) if line[answer.id] else None,
        }
        for line in lines
        for answer in known[line["set"]].responses
    ]
    return ScoreTable(pl.DataFrame(cells, schema=COLUMNS))


def shown(value: Interval, scale: float = 1.0, digits: int = 2) -> str:
    """A number with its interval."""
    if value.estimate is None or value.low is None or value.high is None:
        return "–"
    numbers = (
        f"{round(scale * x, digits) + 0.0:.{digits}f}"
        for x in (value.estimate, value.low, value.high)
    )
    middle, low, high = (number.replace("-", "−") for number in numbers)
    return f"{middle} [{low}, {high}]"


Part = tuple[str, str, str, str]
"""Data, way of asking, which sets, and what the page calls it."""
PLACES: tuple[Part, ...] = (
    ("seed", "likelihood", "named", "customs, place named"),
    ("seed", "likelihood", "implied", "customs, place implied"),
    ("seed", "likelihood", "knowledge", "country knowledge"),
    ("blend", "likelihood", "all", "BLEnD"),
    ("english", "likelihood", "all", "English customs"),
    ("english", "likelihood open", "all", "English customs, open book"),
    ("book", "likelihood open", "all", "ten languages, open book"),
)
KINDS: tuple[Part, ...] = tuple(("seed", "likelihood", kind, kind) for kind in BY_KIND)
WAYS: tuple[Part, ...] = tuple(
    ("ways", way, "all", way) for way in ("listwise", "pairwise", "likelihood")
)


def readings(found: Found, parts: Sequence[Part]) -> Iterator[tuple[str, dict[str, FamilyRow]]]:
    """What each model that was run on a part does there."""
    for data, way, what, name in parts:
        every = ((model, found.families(data, model, way, what)) for model in MODELS)
        yield name, {model: one for model, one in every if one is not None}


def table(found: Found, parts: Sequence[Part]) -> str:
    lines = [
        "| sets | model | families | place win % | row % |",
        "|---|---|---|---|---|",
    ]
    for name, every in readings(found, parts):
        for model, one in every.items():
            numbers = f"{shown(one.place_win, 100, 1)} | {shown(one.row, 100, 1)}"
            lines.append(f"| {name} | {MODELS[model]} | {one.families} | {numbers} |")
    return "\n".join(lines)


def sample(found: Found) -> str:
    """Accuracy on the published sample, and on the sets of it that no attack solves."""
    lines = ["| model | sets | whole % | hard sets | hard % |", "|---|---|---|---|---|"]
    for model, title in MODELS.items():
        cells = []
        for data in ("sample-short", "hard-short"):
            table, dataset = found.table(data, model, "likelihood", found.names("all"))
            one = bon_accuracy(table.with_items(dataset)).overall if len(dataset) else None
            if one is not None:
                of = Interval(estimate=one.accuracy, low=one.low, high=one.high)
                cells += [str(one.n), shown(of, 100, 1)]
        if len(cells) == 4:
            lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def chart(title: str, groups: Sequence[tuple[str, dict[str, FamilyRow]]]) -> str:
    """Dots with their intervals, from 25 to 100%, a group for each part and a colour for each
    model."""
    left, wide, line = 240, 460, 16
    named = [model for model in MODELS if any(model in values for _, values in groups)]

    def across(value: float) -> float:
        return left + wide * (min(max(value, 0.25), 1.0) - 0.25) / 0.75

    marks, top = [], 78
    for name, values in groups:
        marks.append(
            f'<text x="{left - 12}" y="{top + line * len(values) / 2}" '
            f'text-anchor="end">{name}</text>'
        )
        for model, one in values.items():
            colour = COLOURS[[*MODELS].index(model)]
            value = one.place_win
            limits = (value.estimate, value.low, value.high)
            x, low, high = (across(0.5 if v is None else v) for v in limits)
            marks.append(
                f'<path d="M{low:.1f} {top}H{high:.1f}" stroke="{colour}" stroke-width="2"/>'
            )
            marks.append(f'<circle cx="{x:.1f}" cy="{top}" r="4.5" fill="{colour}"/>')
            top += line
        top += line
    axis = []
    for percent in (25, 50, 75, 100):
        x = across(percent / 100)
        axis.append(f'<path d="M{x:.1f} 62V{top}" stroke="#{"555" if percent == 50 else "ddd"}"/>')
        axis.append(f'<text x="{x:.1f}" y="{top + 16}" text-anchor="middle">{percent}</text>')
    for number, model in enumerate(named):
        x, colour = 20 + 225 * number, COLOURS[[*MODELS].index(model)]
        axis.append(
            f'<circle cx="{x}" cy="44" r="5" fill="{colour}"/>'
            f'<text x="{x + 11}" y="49">{MODELS[model]}</text>'
        )
    size = f'viewBox="0 0 {left + wide + 20} {top + 30}" font-family="sans-serif" font-size="13"'
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    head = f'<text x="14" y="22" font-weight="bold">{title}</text>'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
            ground,
            head,
            *axis,
            *marks,
            "</svg>",
            "",
        ]
    )


def made() -> dict[Path, str]:
    """The page and its pictures, as the kept rows have them."""
    found = Found()
    page = PAGE.read_text(encoding="utf-8")
    tables = {
        "places": table(found, PLACES),
        "kinds": table(found, KINDS),
        "ways": table(found, WAYS),
        "sample": sample(found),
    }
    for name, text in tables.items():
        head, end = f"<!-- found: {name} -->\n", "<!-- end -->"
        before, _, rest = page.partition(head)
        page = f"{before}{head}{text}\n{end}{rest.partition(end)[2]}"
    charts = {
        "found-places.svg": chart(
            "Place effect; 0 for a model that does not read the place", [*readings(found, PLACES)]
        ),
        "found-ways.svg": chart("Place effect by the way of asking", [*readings(found, WAYS)]),
    }
    return {PAGE: page} | {DOCS / "images" / name: text for name, text in charts.items()}


def unfounded(page: str) -> set[str]:
    """Numbers with a decimal point that the text of the page says and no table of it holds."""
    number = re.compile(r"(?<![\w.])−?\d+\.\d+(?![\w.])")
    tables = "\n".join(re.findall(r"^\|.*", page, flags=re.MULTILINE))
    text = re.sub(r"^\|[^\n]*|^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    return {*number.findall(text)} - {*number.findall(tables)}


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["sets"]:
        sets(Path(arguments[1]))
    elif arguments[:1] == ["rows"]:
        rows(map(Path, arguments[1:]))
    else:
        for path, text in made().items():
            path.write_text(text, encoding="utf-8")
            print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
