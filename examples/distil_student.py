"""Distil a judge's preferences into a scalar reward model: a Bradley-Terry head that is as cheap as
a classifier.

    python examples/distil_student.py --teacher think:runs/judge/model --student MODEL --data
    carb-seed --out runs/rm python examples/distil_student.py --teacher labels --student MODEL
    --data carb-seed --out runs/rm

The teacher is any scorer; its scores of two answers s₁ and s₂ give the probability sigmoid((s₁ −
s₂) / temperature) that the first is better. ``labels`` takes the sets' own right answers instead,
with probability 1: then the loss is the usual one of reward modelling (Ouyang et al. 2022, arXiv
2203.02155, equation 1). ``carb run --scorer classifier:OUT`` scores with the student. Hold sets out
yourself (``carb data split``): this script trains on all of them.

Needs ``tal-rlvr[train]``.
"""

# ruff: noqa: T201 - a script, which prints

from __future__ import annotations

import argparse
import math
import sys
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, set_seed

from carb_data import Dataset, load
from carb_scorers import evaluate
from carb_scorers.models import Prompt, message
from carb_scorers.models.chat_tokens import conversation


class Preference(NamedTuple):
    """Two answers to a prompt."""

    prompt: str
    first: str
    second: str
    probability: float
    """That the first is better."""


def main() -> int:
    """Ask the teacher, train the student."""
    given = arguments()
    data = load(given.data)
    preferences = from_labels(data) if given.teacher == "labels" else from_teacher(data, given)
    print(f"{len(preferences)} preferences of {given.teacher}")
    tokenizer, student = opened(given.student)
    rows = encoded(tokenizer, preferences, given.max_length)
    if not rows:
        sys.exit(
            "No preference is left to learn from: raise --max-length, or take a teacher "
            "that can judge these sets."
        )
    set_seed(given.seed)
    losses = fit(student, rows, given)
    print(
        f"{len(rows)} of them short enough; loss {losses[0]:.3f} at first, {losses[-1]:.3f} "
        "at the end"
    )
    student.save_pretrained(given.out)
    tokenizer.save_pretrained(given.out)
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--teacher", required=True, help="spec of a scorer, or 'labels'")
    parser.add_argument(
        "--student", required=True, help="folder or hub id of a causal model or a classifier"
    )
    parser.add_argument("--data", default="carb-seed")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--temperature", type=float, default=1.0, help="of the teacher's scores")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=8, help="preferences in a step")
    parser.add_argument("--learning-rate", type=float, default=1e-5)
    parser.add_argument(
        "--max-length", type=int, default=1024, help="longest prompt and answer, in tokens"
    )
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def from_labels(data: Dataset) -> list[Preference]:
    """Each right answer over each wrong one of its set."""
    return [
        Preference(item.prompt_text, item.chosen.text, wrong.text, 1.0)
        for item in data
        for wrong in item.rejected
    ]


def from_teacher(data: Dataset, given: argparse.Namespace) -> list[Preference]:
    """Every two answers of a set, by the teacher's scores. What the teacher could not score is left
    out."""
    scores = {
        (row["item_id"], row["response_id"]): row["score"]
        for row in evaluate(data, [given.teacher]).frame.to_dicts()
    }
    found = []
    for item in data:
        known = [(scores.get((item.id, answer.id)), answer.text) for answer in item.responses]
        for (one, first), (other, second) in combinations(
            [pair for pair in known if pair[0] is not None], 2
        ):
            probability = 1 / (
                1 + math.exp(min(50.0, max(-50.0, (other - one) / given.temperature)))
            )
            found.append(Preference(item.prompt_text, first, second, probability))
    return found


def opened(name: str) -> tuple[Any, Any]:
    """Tokenizer, and the model with a head of one output."""
    tokenizer = AutoTokenizer.from_pretrained(name)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    student = AutoModelForSequenceClassification.from_pretrained(
        name, num_labels=1, dtype=torch.float32
    )
    student.config.pad_token_id = tokenizer.pad_token_id
    return tokenizer, student.to("cuda" if torch.cuda.is_available() else "cpu")


def encoded(
    tokenizer: Any, preferences: list[Preference], longest: int
) -> list[tuple[list[int], list[int], float]]:
    """Token ids of both answers, by the code that ``classifier:`` scores with; what is too long is
    left out."""
    rows = []
    for one in preferences:
        prompt = Prompt((message("user", one.prompt),))
        first, second = (
            list(conversation(tokenizer, prompt, text)[0]) for text in (one.first, one.second)
        )
        if max(len(first), len(second)) <= longest:
            rows.append((first, second, one.probability))
    return rows


def fit(
    student: Any, rows: list[tuple[list[int], list[int], float]], given: argparse.Namespace
) -> list[float]:
    """Minimise the cross-entropy between the teacher's probability and sigmoid(score₁ − score₂)."""
    optimizer = torch.optim.AdamW(student.parameters(), lr=given.learning_rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, given.steps)
    generator = torch.Generator().manual_seed(given.seed)
    losses: list[float] = []
    order: list[int] = []
    student.train()
    for _ in range(given.steps):
        while len(order) < given.batch_size:
            order += torch.randperm(len(rows), generator=generator).tolist()
        batch, order = [rows[n] for n in order[: given.batch_size]], order[given.batch_size :]
        scores = head(student, [ids for first, second, _ in batch for ids in (first, second)])
        target = torch.tensor([probability for _, _, probability in batch], device=scores.device)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            scores[0::2] - scores[1::2], target
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


def head(student: Any, rows: list[list[int]]) -> torch.Tensor:
    """The head's output at each row's last token, ``(rows,)``; padding on the left makes it the
    last column."""
    width = max(map(len, rows))
    pad = student.config.pad_token_id
    ids = torch.tensor(
        [[pad] * (width - len(row)) + list(row) for row in rows], device=student.device
    )
    mask = torch.tensor(
        [[0] * (width - len(row)) + [1] * len(row) for row in rows], device=student.device
    )
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    states = student.base_model(
        input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False
    )
    return student.score(states.last_hidden_state[:, -1])[:, 0]


if __name__ == "__main__":
    sys.exit(main())
