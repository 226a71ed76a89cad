"""The test of ``references=`` in ``docs/experiments/think-as-locals.md``.

``python benchmarks/references.py OUT`` writes ``OUT/sets.jsonl``, the English mirrored families of carb-seed@2 whose
answers are short, and ``OUT/others.jsonl``, the bank's facts without any of their topics.

``python benchmarks/references.py analyse --file docs/experiments/raw/references.csv`` prints the accuracy of every arm
and the registered differences as Markdown; ``collect --run RUN --file RAW.csv`` adds the arms of a run of ``carb run``.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

from carb_data import BonSet, Dataset, ScoreTable, load
from carb_data.dataset import SEED_2_FOLDER
from carb_data.facts import load_facts


def main() -> None:
    if len(sys.argv) == 2 and not sys.argv[1].startswith("-"):
        write(Path(sys.argv[1]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    collector = commands.add_parser("collect")
    collector.add_argument("--run", type=Path, required=True)
    collector.add_argument("--file", type=Path, required=True)
    analyser = commands.add_parser("analyse")
    analyser.add_argument("--file", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.command == "collect":
        collect(arguments.run, arguments.file)
    else:
        print(analyse(arguments.file))


def short_families() -> list[BonSet]:
    """The English sets of the second seed in mirrored families with short answers."""
    return [
        item
        for item in load("carb-seed@2")
        if item.language == "en" and item.family and (item.provenance.notes or "").startswith("short:")
    ]


def write(out: Path) -> None:
    sets = short_families()
    facts = {fact.id: fact for fact in load_facts(SEED_2_FOLDER)}
    named = {response.source.fact for item in sets for response in item.responses if response.source}
    tested = {facts[name].topic for name in named if name} | {item.topic for item in sets}
    others = [fact for fact in facts.values() if fact.topic not in tested]
    out.mkdir(parents=True, exist_ok=True)
    Dataset(sets).save(out / "sets.jsonl")
    (out / "others.jsonl").write_text("".join(f"{fact.model_dump_json()}\n" for fact in others), encoding="utf-8")
    print(
        f"{len(sets)} sets of {len({s.family for s in sets})} families; {len(others)} of {len(facts)} facts are others"
    )


def collect(run: Path, file: Path) -> None:
    """Add a line for each set and scorer of a run: a set is right where its right response scores highest, alone."""
    from carb_metrics.outcomes import set_outcomes

    families = {item.id: item.family for item in load(run / "dataset.parquet")}
    scores = ScoreTable.load(run / "scores.parquet")
    with file.open("a", encoding="utf-8", newline="") as opened:
        for row in set_outcomes(scores, "strict").iter_rows(named=True):
            opened.write(f"{row['item_id']},{families[row['item_id']]},{row['scorer']},{int(row['credit'])}\n")


def analyse(file: Path) -> str:
    """Accuracy of every arm, and each difference of two arms of one way to judge, over families."""
    from carb_metrics import paired_difference

    arms: dict[str, dict[str, float]] = {}
    families: dict[str, str] = {}
    with file.open(encoding="utf-8", newline="") as opened:
        for row in csv.DictReader(opened):
            arms.setdefault(row["arm"], {})[row["item_id"]] = float(row["right"])
            families[row["item_id"]] = row["family"]
    lines = ["| arm | right | sets | accuracy |", "|---|---|---|---|"]
    for arm, right in arms.items():
        lines.append(f"| {arm} | {sum(right.values()):.0f} | {len(right)} | {sum(right.values()) / len(right):.1%} |")
    lines += ["", "| difference | points | 95% interval | p | only the first | only the second |", "|---" * 6 + "|"]
    for one, other in (("all", "others"), ("all", "none"), ("others", "none")):
        for way in ("", "judge-"):
            first, second = arms.get(way + one), arms.get(way + other)
            if first is None or second is None:
                continue
            shared = [item for item in first if item in second]
            a, b = ([arm[item] for item in shared] for arm in (first, second))
            found = paired_difference(a, b, [families[item] for item in shared])
            won, lost = (sum(x > y for x, y in zip(*pair, strict=True)) for pair in ((a, b), (b, a)))
            points = f"{100 * found.estimate:+.1f}"
            interval = f"[{100 * found.low:+.1f}, {100 * found.high:+.1f}]"
            lines.append(f"| {way}{one} − {way}{other} | {points} | {interval} | {found.p:.4f} | {won} | {lost} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
