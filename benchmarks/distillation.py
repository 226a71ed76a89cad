"""The registered test of ``docs/experiments/distillation.md``: a judge's preferences against labels.

``python benchmarks/distillation.py states --out STATES`` scores the sets with the teacher and keeps the student's
states; an interrupted call goes on. ``run --states STATES --file RAW.csv`` trains and evaluates the heads of all arms
and seeds, and ``analyse --file RAW.csv`` prints the registered analysis as Markdown.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import sys
import time
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1] / "tests"), str(Path(__file__).parent)]

ARMS = ("teacher", "labels", "shuffled")
SEEDS = 10
STEPS = 300
PAIRS = 8
"""Pairs in a step."""
RATE = 1e-3
DECAY = 0.01
BANK = "carb-seed@2"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    maker = commands.add_parser("states")
    maker.add_argument("--out", type=Path, required=True)
    runner = commands.add_parser("run")
    runner.add_argument("--states", type=Path, required=True)
    runner.add_argument("--file", type=Path, required=True)
    analyser = commands.add_parser("analyse")
    analyser.add_argument("--file", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.command == "states":
        make_states(arguments.out)
    elif arguments.command == "run":
        run(arguments.states, arguments.file)
    else:
        print(analyse(arguments.file))


def make_states(out: Path) -> None:
    """``sets.jsonl`` (what is right, and the teacher's scores) and ``states.npz`` (one state for each response)."""
    import numpy as np
    import torch
    from references import short_families
    from transformers import AutoModel, AutoTokenizer

    from carb_data.waiting import wait_for
    from carb_scorers import Candidate, ScoreRequest, open_scorer
    from carb_scorers.models import Prompt
    from carb_scorers.models.tokens import conversation_ids
    from carb_scorers.references import read_references
    from small_models import model_folder

    out.mkdir(parents=True, exist_ok=True)
    sets = short_families()
    requests = [
        ScoreRequest(
            request_id=item.id,
            prompt=item.prompt_text,
            candidates=tuple(Candidate(id=r.id, text=r.text) for r in item.responses),
            culture=item.culture,
            language=item.language,
        )
        for item in sets
    ]
    references, _ = read_references("references", {"references": BANK})
    assert references is not None
    student = model_folder("smollm2-135m")
    tokenizer = AutoTokenizer.from_pretrained(student)
    body = AutoModel.from_pretrained(student, dtype=torch.float32).eval()
    kept = dict(np.load(out / "states.npz")) if (out / "states.npz").is_file() else {}
    for number, request in enumerate(requests):
        if request.request_id in kept:
            continue
        prompt = Prompt(({"role": "user", "content": references.shown(request).prompt},))
        rows = []
        for candidate in request.candidates:
            ids = torch.tensor([conversation_ids(tokenizer, prompt, candidate.text)])
            with torch.no_grad():
                rows.append(body(input_ids=ids, use_cache=False).last_hidden_state[0, -1].numpy())
        kept[request.request_id] = np.stack(rows)
        if number % 20 == 19 or request is requests[-1]:
            np.savez(out / "states.npz", **kept)
            print(time.strftime("%H:%M:%S"), "states", len(kept), flush=True)
    scorer = open_scorer(f"implicit:{model_folder('gemma3-270m')}?ref=none&references={BANK}")
    file = out / "sets.jsonl"
    done = len(file.read_text().splitlines()) if file.is_file() else 0
    with file.open("a", encoding="utf-8") as opened:
        for item, request in list(zip(sets, requests, strict=True))[done:]:
            (result,) = wait_for(scorer.score, [request])
            names = [response.id for response in item.responses]
            line = {"id": item.id, "family": item.family, "right": names.index(item.chosen.id)}
            opened.write(json.dumps({**line, "scores": [result.scores[name] for name in names]}) + "\n")
            opened.flush()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    print("teacher right:", sum(is_right(line["scores"], line["right"]) for line in lines), "of", len(lines))


def run(states: Path, file: Path) -> None:
    """One line for each seed, arm and held-out set."""
    import numpy as np

    known = np.load(states / "states.npz")
    sets = [json.loads(line) for line in (states / "sets.jsonl").read_text().splitlines()]
    families = sorted({entry["family"] for entry in sets})
    lines = ["seed,arm,item_id,family,right"]
    for seed in range(SEEDS):
        drawn = random.Random(f"{seed}\0halves").sample(families, len(families))
        half = set(drawn[: len(drawn) // 2])
        for held_out in (half, set(families) - half):
            train = [entry for entry in sets if entry["family"] not in held_out]
            test = [entry for entry in sets if entry["family"] in held_out]
            rows = np.concatenate([known[entry["id"]] for entry in train])
            centre, spread = rows.mean(0), rows.std(0) + 1e-6
            for arm in ARMS:
                pairs = [pair for entry in train for pair in preferences(entry, arm, seed)]
                gaps = np.stack([(known[id_][a] - known[id_][b]) / spread for id_, a, b, _ in pairs])
                head = fit(gaps, [p for *_, p in pairs], seed)
                for entry in test:
                    scores = ((known[entry["id"]] - centre) / spread) @ head
                    right = int(is_right(scores.tolist(), entry["right"]))
                    lines.append(f"{seed},{arm},{entry['id']},{entry['family']},{right}")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def preferences(entry: dict[str, Any], arm: str, seed: int) -> list[tuple[str, int, int, float]]:
    """``(set, one response, another, probability that the one is better)`` for each pair that an arm trains on."""
    from scipy.special import expit

    places = range(len(entry["scores"]))
    if arm == "teacher":
        scores = entry["scores"]
        return [(entry["id"], a, b, float(expit(scores[a] - scores[b]))) for a, b in combinations(places, 2)]
    best = entry["right"] if arm == "labels" else random.Random(f"{seed}\0{entry['id']}").choice(places)
    return [(entry["id"], best, other, 1.0) for other in places if other != best]


def fit(gaps: Any, wanted: Sequence[float], seed: int) -> Any:
    """The head's weights; the loss is that of ``tal_rlvr.train_bradley_terry``."""
    import torch

    rows, targets = torch.tensor(gaps), torch.tensor(wanted)
    head = torch.zeros(rows.shape[1], requires_grad=True)
    optimizer = torch.optim.AdamW([head], lr=RATE, weight_decay=DECAY)
    generator = torch.Generator().manual_seed(seed)
    order: list[int] = []
    for _ in range(STEPS):
        while len(order) < PAIRS:
            order += torch.randperm(len(rows), generator=generator).tolist()
        batch, order = order[:PAIRS], order[PAIRS:]
        loss = torch.nn.functional.binary_cross_entropy_with_logits(rows[batch] @ head, targets[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return head.detach().numpy()


def is_right(scores: Sequence[float], right: int) -> bool:
    """Whether the right response has the highest score, alone."""
    return all(scores[right] > score for place, score in enumerate(scores) if place != right)


def analyse(file: Path) -> str:
    """Every arm against chance, and the differences of arms, over seeds and families."""
    from tal_rlvr.seeds import crossed_interval

    with file.open(encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    seeds = sorted({row["seed"] for row in rows}, key=int)
    families = sorted({row["family"] for row in rows})
    right: dict[tuple[str, str, str], list[int]] = {}
    for row in rows:
        right.setdefault((row["arm"], row["seed"], row["family"]), []).append(int(row["right"]))

    def table(arm: str) -> list[list[float]]:
        return [[mean(right[arm, seed, family]) for family in families] for seed in seeds]

    values = {arm: table(arm) for arm in ARMS}
    chance = [[0.25] * len(families)] * len(seeds)
    lines = [f"{len(seeds)} seeds, {len(families)} families", "", "| accuracy | mean | 95% interval |", "|---|---|---|"]
    for arm in ARMS:
        value, low, high, _ = crossed_interval(values[arm])
        lines.append(f"| {arm} | {value:.3f} | [{low:.3f}, {high:.3f}] |")
    lines += ["", "| difference | mean | 95% interval | p |", "|---|---|---|---|"]
    asked = [("teacher", "labels"), ("teacher", "shuffled"), ("labels", "shuffled"), *((arm, "0.25") for arm in ARMS)]
    for arm, other in asked:
        pairs = zip(values[arm], values.get(other, chance), strict=True)
        value, low, high, p = crossed_interval([[a - b for a, b in zip(*pair, strict=True)] for pair in pairs])
        lines.append(f"| {arm} − {other} | {value:+.3f} | [{low:+.3f}, {high:+.3f}] | {p:.3f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
