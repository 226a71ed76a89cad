"""The README's demo: surface baselines, and a language model closed and open book, on the English
families of carb-seed whose answers are shortest. No score decides which families are asked.

The open book is a control: it shows that reading the place is found where there is some.

Usage: python examples/demo.py MODEL_FOLDER OUT_FOLDER [FAMILIES]
"""

from __future__ import annotations

import shutil
import sys
from collections import defaultdict
from pathlib import Path

from carb_cli import main as carb
from carb_data import BonSet, Dataset, load

SEED = "carb-seed"
FAMILIES = 28
"""How many take three minutes of two cores: what costs is the probability of each token of each
answer."""
BASELINES = ["baseline:length", "baseline:language", "baseline:label"]


def shortest(sets: Dataset, count: int) -> Dataset:
    """The whole English families of named places whose answers are shortest."""
    families: dict[str, list[BonSet]] = defaultdict(list)
    for item in sets:
        if item.family and item.place != "implied" and item.language == "en":
            families[item.family].append(item)
    length = {}
    for name, items in families.items():
        answers = items[0].responses
        if len(items) == len(answers):
            length[name] = sum(len(answer.text.encode()) for answer in answers)
    chosen = sorted(length, key=lambda name: (length[name], name))[:count]
    return Dataset(item for name in chosen for item in families[name])


def main(model: str, out: Path, count: int = FAMILIES) -> int:
    sets = shortest(load(SEED), count)
    data = out / "sets.jsonl"
    out.mkdir(parents=True, exist_ok=True)
    if not data.is_file() or load(str(data)).fingerprint != sets.fingerprint:
        shutil.rmtree(out / "run", ignore_errors=True)
        sets.save(data)
    likelihood = f"implicit:{model}?ref=none"
    scorers = [*BASELINES, f"closed-book={likelihood}", f"open-book={likelihood}&facts={SEED}"]
    code = carb(["run", "--data", str(data), "--scorer", *scorers, "--out", str(out / "run")])
    return code or carb(["report", str(out / "run"), "--html", str(out / "report.html")])


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:4])))
