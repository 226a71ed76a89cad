"""What masking changes of R_appr: kept outputs of verdicts.csv, read with and without it.

    python studies/open_book/masked.py --model PATH/smollm2-135m --pairs open-book.jsonl

``pairs.py --places 2 --languages en --named`` makes the pairs, at commit 8b15fa21 those of the
study. Every model may be the reader. It reads each output behind its question in both orders, as
training does, and once in the order shown.
"""

# ruff: noqa: T201 - a script, which prints

from __future__ import annotations

import argparse
import csv
import json
import random
import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from outcomes import as_pair
from study import PROMPT
from transformers import AutoModelForCausalLM, AutoTokenizer

from tal_rlvr.judge_prompts import PromptConfig
from tal_rlvr.judge_rewards import VerdictRow
from tal_rlvr.preferences import both_orders
from tal_rlvr.trainer import training_rows
from tal_rlvr.trl_rewards import CriteriaFunction, RewardConfig
from tal_rlvr.verdict_logprobs import verdict_logprobs
from tal_rlvr.verdict_tokens import verdict_tokens


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="folder of the reader")
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--outputs", type=int, default=15, help="of each topic")
    parser.add_argument("--topics", type=int, default=20)
    given = parser.parse_args()
    pairs = {row["id"]: row for row in map(json.loads, given.pairs.read_text().splitlines())}
    kept = sample(given)
    folder = given.pairs.parent / "masked-prompts"
    folder.mkdir(exist_ok=True)
    (folder / "general-en.jinja").write_text(PROMPT)
    tokenizer = AutoTokenizer.from_pretrained(given.model)
    model = AutoModelForCausalLM.from_pretrained(given.model, dtype="float32").eval()
    shown = [both_orders(as_pair(pairs[row["pair"]]))[row["label"] == "B"] for row in kept]
    rows = training_rows(shown, tokenizer, PromptConfig(style=str(folder), chat="no"))
    batch = {
        "prompts": [row["prompt"] for row in rows],
        "swapped_prompt": [row["swapped_prompt"] for row in rows],
        "responses": [row["responses"] for row in rows],
        "label": [row["label"] for row in rows],
        "completion_ids": [
            tokenizer(row["text"], add_special_tokens=False)["input_ids"] for row in kept
        ],
        "trainer_state": SimpleNamespace(global_step=0),
    }
    tokens = verdict_tokens(tokenizer)
    known: dict[VerdictRow, tuple[float, float]] = {}
    verdicts = partial(verdict_logprobs, model, tokens=tokens, budget=4096)

    def read(wanted: Sequence[VerdictRow]) -> list[tuple[float, float]]:
        new = [row for row in dict.fromkeys(wanted) if row not in known]
        known.update(zip(new, verdicts(new), strict=True))
        return [known[row] for row in wanted]

    found = {}
    for orders in (True, False):
        for mask in (True, False):
            settings = RewardConfig(mask=mask, both_orders=orders, copied=1, gate=False)
            function = CriteriaFunction(tokenizer, tokens, settings)
            function.provider = read
            found[orders, mask] = np.array(function(**batch))
            print(f"{len(kept)} outputs, mask {mask}, both orders {orders}", file=sys.stderr)
    right = np.array([row["verdict"] == row["label"] for row in kept])
    groups = [(row["pair"], row["label"]) for row in kept]
    for orders, name in ((True, "both orders"), (False, "one order")):
        masked, plain = found[orders, True], found[orders, False]
        total = [np.where(right, 1.0, -1.0) + value for value in (masked, plain)]
        print(
            f"{name}: {len(kept)} outputs; R_appr masked {masked.mean():+.3f}, not masked "
            f"{plain.mean():+.3f}; mean |difference| {np.abs(masked - plain).mean():.3f}; "
            f"sign changes {np.mean(np.sign(masked) != np.sign(plain)):.1%}; "
            f"r {np.corrcoef(masked, plain)[0, 1]:.3f}; "
            f"r of advantages {np.corrcoef(*(advantages(t, groups) for t in total))[0, 1]:.3f}"
        )
        for value, which in ((masked, "masked"), (plain, "not masked")):
            print(
                f"  {which}: right verdict {value[right].mean():+.3f}, wrong "
                f"{value[~right].mean():+.3f}; spread {value.std():.3f}"
            )


def sample(given: argparse.Namespace) -> list[dict[str, str]]:
    """Well-formed outputs of C and C+A, of one pair a topic in either order."""
    csv.field_size_limit(sys.maxsize)
    with (Path(__file__).parent / "verdicts.csv").open(encoding="utf-8", newline="") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if row["arm"] in ("C", "C+A") and row["well_formed"] == "1"
        ]
    draw = random.Random(0)
    topics: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        topics[row["topic"]].append(row)
    kept = []
    for topic in sorted(topics)[: given.topics]:
        pair = draw.choice(sorted({row["pair"] for row in topics[topic]}))
        own = [row for row in topics[topic] if row["pair"] == pair]
        kept += draw.sample(own, min(given.outputs, len(own)))
    return kept


def advantages(rewards: np.ndarray, groups: list[tuple[str, str]]) -> np.ndarray:
    """Each reward less its group's mean, over the group's spread, as training scales it."""
    found = np.zeros_like(rewards)
    for group in set(groups):
        own = np.array([one == group for one in groups])
        found[own] = (rewards[own] - rewards[own].mean()) / max(rewards[own].std(), 0.1)
    return found


if __name__ == "__main__":
    main()
