"""Writes the sets to score, and keeps what the runs scored, in docs/found.

Usage: python docs/keep_found.py sets FOLDER [MODEL]   writes the sets to score, a file a language;
                                        with MODEL only those that have no kept score of their text
       python docs/keep_found.py controls FOLDER [MODEL] the same for the named sets of customs,
                                        norms and taboos, with the place's name alone as the
                                        question, and with the question of another family
       python docs/keep_found.py rows RUN...           keeps scores and records of runs, without
                                                       any text
       python docs/keep_found.py phrases               keeps the scores of the quoted phrases'
                                                       languages
       python docs/keep_found.py cost MODEL_FOLDER...  keeps the processor seconds of 20 sets, one
                                                       at a time

``make_found.py`` makes the page from what is kept.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import polars as pl
from make_found import (
    KEPT,
    OTHER,
    PHRASE,
    PLACE,
    PRACTICE,
    SEED,
    Row,
    read_csv,
    short_families,
    text_key,
)

from carb_cli.runs import dataset_of
from carb_data import BonSet, Dataset, ScoreTable, cultures, require, seed_folders
from carb_data.family import Family, read_bank
from carb_data.models import cited
from carb_scorers import ScorerSpec, evaluate, open_scorer
from carb_scorers.run import RunRecord

LABELS = ("culture", "domain", "language", "kind", "place", "right")
FACTS = ("A_fact", "B_fact", "C_fact", "D_fact")
SETS = ("data", "set", "text", "source", "family", *LABELS, *FACTS)
SCORES = ("data", "model", "way", "set", "text", "A", "B", "C", "D")
COSTS = ("model", "set", "seconds")
OPENING = '“"„«「『‘'
CLOSING = '”"“»」』’'
QUOTED = re.compile(f"[{OPENING}]([^{CLOSING}]+)[{CLOSING}]")


def write_sets(folder: Path, model: str | None = None) -> None:
    kept = {row["text"] for row in read_csv("scores.csv") if row["model"] == model}
    folder.mkdir(parents=True, exist_ok=True)
    by_language: dict[str, list[BonSet]] = defaultdict(list)
    for item in short_families():
        if text_key(item) not in kept:
            by_language[item.language].append(item)
    for language, items in by_language.items():
        Dataset(items).save(folder / f"{SEED}-{language}.jsonl")
        print(language, len(items))


def control_sets() -> dict[str, list[BonSet]]:
    """The named sets of customs, norms and taboos with another prompt, by control.

    Whoever only associates a place's name with words of its answers wins here, too.
    """
    bank = read_bank(seed_folders()["carb-seed"], [])
    families = {line.content.id: line.content for line in bank.families}
    named = [item for item in short_families() if item.place == "named" and item.kind in PRACTICE]
    by_language: dict[str, set[str]] = defaultdict(set)
    for item in named:
        by_language[item.language].add(family_id(item))
    controls: dict[str, list[BonSet]] = {PLACE: [], OTHER: []}
    for item in named:
        family = families[family_id(item)]
        names = {
            place.name
            for place in family.places
            if family.question.replace("{place}", place.name) == item.prompt_text
        }
        if len(names) == 1:
            [name] = names
            strangers = (families[other] for other in by_language[item.language])
            question = other_question(family, strangers).replace("{place}", name)
            controls[PLACE].append(item.model_copy(update={"prompt": name.strip(" ,")}))
            controls[OTHER].append(item.model_copy(update={"prompt": question}))
    return controls


def family_id(item: BonSet) -> str:
    return item.id.partition("/")[0].partition("+")[0]


def other_question(family: Family, strangers: Iterable[Family]) -> str:
    """The question of a family of another topic; a hash of both ids decides which one."""

    def lot(other: Family) -> str:
        return hashlib.sha256(f"{family.id} {other.id}".encode()).hexdigest()

    return min((other for other in strangers if other.topic != family.topic), key=lot).question


def write_controls(folder: Path, model: str | None = None) -> None:
    scored = {(row["data"], row["text"]) for row in read_csv("scores.csv") if row["model"] == model}
    folder.mkdir(parents=True, exist_ok=True)
    for control, items in control_sets().items():
        items = [item for item in items if (control, text_key(item)) not in scored]
        if items:
            Dataset(items).save(folder / f"{control}-control.jsonl")
        print(control, len(items))


def write_csv(name: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
    with (KEPT / name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def keep(folders: Iterable[Path]) -> None:
    """Keep ids, labels and scores: an answer is a letter, the same one in all sets of a family.

    A later score of the same set, model and way takes the place of an earlier one. Of carb-seed
    only sets stay whose text is today's.
    """
    sets = {(row["data"], row["set"], row["text"]): row for row in read_csv("sets.csv")}
    scores = {score_key(row): row for row in read_csv("scores.csv")}
    records = [json.loads(line) for line in read_lines("runs.jsonl")]
    for folder in folders:
        record = RunRecord.read(folder)
        data = Path(record.dataset.names[0]).stem.partition("-")[0]
        dataset = dataset_of(folder)
        letters = dict(letters_of(dataset))
        described = {item.id: described_set(data, item, letters) for item in dataset}
        sets |= {(data, row["set"], row["text"]): row for row in described.values()}
        for row in kept_scores(folder, record, data, letters):
            row["text"] = described[row["set"]]["text"]
            scores[score_key(row)] = row
        records += kept_records(record, data)
    today = {text_key(item) for item in short_families()}
    today |= {text_key(item) for items in control_sets().values() for item in items}
    sets = {
        key: row
        for key, row in sets.items()
        if row["data"] not in (SEED, PLACE, OTHER) or row["text"] in today
    }
    scores = {key: row for key, row in scores.items() if (row["data"], *key[3:]) in sets}
    write_csv("sets.csv", SETS, (sets[key] for key in sorted(sets)))
    write_csv("scores.csv", SCORES, (scores[key] for key in sorted(scores)))
    lines = sorted({shortened(json.dumps(record, ensure_ascii=False)) for record in records})
    (KEPT / "runs.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def shortened(text: str) -> str:
    """A record with the last two parts of each absolute path, which say nothing of a machine."""
    return re.sub(r"(?<![\w.])/(?:[\w.-]+/)*(?=[\w.-]+/[\w.-]+)", "", text)


def keep_phrases() -> None:
    """Keep what a rule scores that knows only which language each place speaks: how likely the
    phrase that an answer quotes, or else its text, is in that language."""
    lingua = require("lingua", "carb-data[checks]")
    detector = lingua.LanguageDetectorBuilder.from_all_languages().build()
    scores = {score_key(row): row for row in read_csv("scores.csv") if row["model"] != PHRASE}
    items = short_families()
    letters = dict(letters_of(Dataset(items)))
    sets = {(row["data"], row["set"], row["text"]): row for row in read_csv("sets.csv")}
    for item in items:
        described = described_set(SEED, item, letters)
        sets[SEED, item.id, described["text"]] = described
        tag = cultures[item.culture].language.partition("-")[0]
        row = {"data": SEED, "model": PHRASE, "way": "likelihood", "set": item.id}
        row["text"] = described["text"]
        for response in item.responses:
            phrase = " ".join(QUOTED.findall(response.text)) or response.text
            found = detector.compute_language_confidence_values(phrase)
            chances = {one.language.iso_code_639_1.name.lower(): one.value for one in found}
            row[letters[item.id, response.id]] = f"{chances.get(tag, 0.0):.9g}"
        scores[score_key(row)] = row
    write_csv("sets.csv", SETS, (sets[key] for key in sorted(sets)))
    write_csv("scores.csv", SCORES, (scores[key] for key in sorted(scores)))


def keep_costs(folders: Iterable[Path]) -> None:
    """Keep the processor seconds of two named sets of each language, one set at a time."""
    by_language: dict[str, list[BonSet]] = defaultdict(list)
    for item in short_families():
        if item.place == "named":
            by_language[item.language].append(item)
    costs = {(row["model"], row["set"]): row for row in read_csv("cost.csv")}
    for folder in folders:
        dtype = "&dtype=bfloat16" if folder.name.startswith("qwen") else ""
        scorer = open_scorer(f"implicit:{folder}?ref=none{dtype}")
        warm_up, *_ = by_language["en"]
        evaluate([warm_up], scorer)
        for items in by_language.values():
            for item in sorted(items, key=text_key)[:2]:
                start = time.process_time()
                evaluate([item], scorer)
                seconds = f"{time.process_time() - start:.2f}"
                row = {"model": folder.name, "set": item.id, "seconds": seconds}
                costs[folder.name, item.id] = row
    write_csv("cost.csv", COSTS, (costs[key] for key in sorted(costs)))


def read_lines(name: str) -> list[str]:
    return (KEPT / name).read_text(encoding="utf-8").splitlines()


def score_key(row: Row) -> tuple[str, ...]:
    return row["data"], row["model"], row["way"], row["set"], row["text"]


def described_set(data: str, item: BonSet, letters: dict[tuple[str, str], str]) -> Row:
    row = {
        "data": data,
        "set": item.id,
        "text": text_key(item),
        "source": item.provenance.source_id or "",
        "family": item.family or "",
        "culture": item.culture,
        "domain": str(item.domain),
        "language": item.language,
        "kind": item.kind or "",
        "place": item.place or "",
        "right": letters[item.id, item.chosen.id],
    }
    for response in item.responses:
        row[f"{letters[item.id, response.id]}_fact"] = " ".join(cited([response]))
    return row


def kept_scores(
    folder: Path, record: RunRecord, data: str, letters: dict[tuple[str, str], str]
) -> Iterator[Row]:
    frame = ScoreTable.load(folder / "scores.parquet").frame
    for scorer in record.scorers:
        rows: dict[str, Row] = {}
        for cell in frame.filter(pl.col("scorer") == scorer.spec.name).iter_rows(named=True):
            name = cell["item_id"]
            row = rows.setdefault(name, {"data": data, **asked(scorer.spec), "set": name})
            score = "" if cell["score"] is None else f"{cell['score']:.9g}"
            row[letters[name, cell["response_id"]]] = score
        yield from rows.values()


def asked(spec: ScorerSpec) -> Row:
    """The model's folder, and the way in which it was asked."""
    model = Path(spec.model or "").name
    way = str(spec.parameters.get("mode", "likelihood"))
    return {"model": model, "way": way + (" open" if "facts" in spec.parameters else "")}


def kept_records(record: RunRecord, data: str) -> Iterator[dict[str, object]]:
    parts = {"command", "dataset", "python", "versions", "machine"}
    common = record.model_dump(mode="json", include=parts)
    for scorer in record.scorers:
        own = scorer.model_dump(mode="json", include={"spec", "items", "errors", "label_mass"})
        yield {"data": data, **asked(scorer.spec), "created": f"{record.created:%Y-%m-%d}"} | (
            common | own
        )


def letters_of(dataset: Dataset) -> Iterator[tuple[tuple[str, str], str]]:
    """The letter of each response, by the ids of set and response."""
    texts: dict[str, list[str]] = defaultdict(list)
    for item in dataset:
        known = texts[item.family or item.id]
        for response in item.responses:
            if response.text not in known:
                known.append(response.text)
            yield (item.id, response.id), "ABCD"[known.index(response.text)]


def main(arguments: Sequence[str]) -> None:
    commands = {
        "sets": lambda: write_sets(Path(arguments[1]), *arguments[2:3]),
        "controls": lambda: write_controls(Path(arguments[1]), *arguments[2:3]),
        "rows": lambda: keep(map(Path, arguments[1:])),
        "cost": lambda: keep_costs(map(Path, arguments[1:])),
        "phrases": keep_phrases,
    }
    if not arguments or arguments[0] not in commands:
        sys.exit(__doc__)
    commands[arguments[0]]()


if __name__ == "__main__":
    main(sys.argv[1:])
