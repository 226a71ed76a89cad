"""Teach a small model to use criteria that it is given, before ``study.py`` trains it to
write them.

    python studies/open_book/start.py --model PATH/smollm2-135m --out runs/verdicts --whole 0
    python studies/open_book/start.py --model runs/verdicts --out runs/follows --steps 25 --seed 1
    python studies/open_book/start.py --model PATH/qwen2.5-1.5b --steps 0 --read held

Targets of whole judgements do not teach it: their verdict repeats the letter before it, which
R_appr masks. Here the criteria are masked as R_appr masks them, they state the fact of either
place, and the verdict's letter alone is learned. Each step shows two answers with both criteria in
both orders, so only a reader of the criteria can be right, and nothing about the place is taught.
Three steps of four leave the facts and the question out, which costs half. Whole judgements, of
either place by lot, keep the model able to write.

A third of the training topics is kept aside and read at the end: verdicts that are right without
criteria, behind the right fact, and behind it by the sum of the log-odds of both orders, which is
what R_appr pays.
"""

# ruff: noqa: T201 - a script, which prints

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from outcomes import Row, add_dtype, as_pair, honest
from study import by_chance, prepare, prompts, targets, whole_mirrors
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, AutoTokenizer

from carb_metrics import mean_interval
from carb_scorers.models.shared_prefix import padded
from tal_rlvr.held_out import item_means
from tal_rlvr.judge_prompts import GENERAL, render_prompt
from tal_rlvr.judge_rewards import VerdictRow
from tal_rlvr.preferences import both_orders
from tal_rlvr.trainer import training_rows
from tal_rlvr.verdict_logprobs import verdict_logprobs
from tal_rlvr.verdict_tokens import encode_prompt, make_prompt, reasoning_ids, verdict_tokens
from tal_rlvr.warmup import tokenised


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="folder of the base model")
    parser.add_argument("--out", type=Path, default=Path("runs/follows"))
    parser.add_argument("--steps", type=int, default=80, help="0: the model is read as it comes")
    parser.add_argument(
        "--whole", type=int, default=2, help="whole judgements a step; 0 teaches the verdict alone"
    )
    parser.add_argument(
        "--wrong", type=float, default=0.5, help="share of whole judgements with the other fact"
    )
    parser.add_argument("--rate", type=float, default=2e-4, help="learning rate")
    parser.add_argument(
        "--read", choices=["kept", "held"], default="kept", help="topics to read; held: the study's"
    )
    parser.add_argument(
        "--longest",
        type=int,
        default=360,
        help="characters of a question with both answers, at most",
    )
    parser.add_argument("--seed", type=int, default=0)
    add_dtype(parser)
    given = parser.parse_args()
    rows, held = prepare(SimpleNamespace(longest=given.longest, mirrors=1, out=given.out))
    topics = sorted({row["source_item"] for row in rows}, key=by_chance)
    topics = topics[: len(topics) // 3]
    kept = whole_mirrors([row for row in rows if row["source_item"] in topics], 3)
    torch.manual_seed(given.seed)
    reader = Reader(given)
    if given.steps:
        reader.learn([row for row in rows if row["source_item"] not in topics], given)
        reader.model.to(reader.dtype).save_pretrained(given.out)
        reader.tokenizer.save_pretrained(given.out)
    reader.tell(held if given.read == "held" else kept)
    return 0


class Reader:
    """A model whose verdict behind given criteria is learned and read."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(given.model)
        self.dtype = getattr(torch, given.dtype)
        own = torch.float32 if given.steps else self.dtype
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = (
            AutoModelForCausalLM.from_pretrained(given.model, dtype=own).to(self.device).eval()
        )
        self.tokens = verdict_tokens(self.tokenizer)
        self.prompts = prompts(given)

    def asked(self, row: Row) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The right verdict and the prompt, in both orders."""
        for shown in both_orders(as_pair(row)):
            (made,) = training_rows([shown], self.tokenizer, self.prompts)
            yield shown.label, tuple(encode_prompt(self.tokenizer, made["prompt"]))

    def criteria(self, fact: str, own: str, other: str) -> tuple[int, ...]:
        """A fact and the answer that says the same, masked, up to the verdict's letter."""
        ids = self.tokenizer(honest(fact, own, other, "A"), add_special_tokens=False)["input_ids"]
        return reasoning_ids(self.tokenizer, ids, self.tokens, mask=True)

    def examples(self, row: Row) -> Iterator[tuple[list[int], int]]:
        """Both facts in both orders, each with the token of the verdict that follows from it."""
        right = self.criteria(row["fact"], row["chosen"], row["rejected"])
        wrong = self.criteria(row["other_fact"], row["rejected"], row["chosen"])
        for label, prompt in self.asked(row):
            letters = (
                (self.tokens.a, self.tokens.b) if label == "A" else (self.tokens.b, self.tokens.a)
            )
            yield from zip(([*prompt, *right], [*prompt, *wrong]), letters, strict=True)

    def learn(self, rows: Sequence[Row], given: argparse.Namespace) -> None:
        """Train all weights but the embeddings on the verdict's letter."""
        draw, begun = random.Random(given.seed), time.process_time()
        mirrors = whole_mirrors(rows)[::2]
        drawn = (row for _ in range(2 * given.steps) for row in draw.sample(mirrors, len(mirrors)))
        whole = targets(rows, given.seed, given.wrong)
        written = (
            row for _ in range(given.steps * given.whole) for row in draw.sample(whole, len(whole))
        )
        self.model.train().get_input_embeddings().weight.requires_grad_(False)
        weights = [one for one in self.model.parameters() if one.requires_grad]
        optimizer = torch.optim.AdamW(weights, lr=given.rate, weight_decay=0.0)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min(1.0, (step + 1) / 10)
        )
        for step in range(1, given.steps + 1):
            if step % 4 == 0:
                batch = list(self.examples(next(drawn)))
            else:
                batch = [
                    one
                    for _ in range(2)
                    for one in self.examples({**next(drawn), "prompt": "Which?"})
                ]
            loss, right = self.loss(batch)
            form = self.form_loss([next(written) for _ in range(given.whole)])
            (loss + form).backward()
            torch.nn.utils.clip_grad_norm_(weights, 1.0, error_if_nonfinite=True)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            print(
                f"{step} loss {loss:.3f} right {right:.2f} form {form:.3f} "
                f"{time.process_time() - begun:.0f} s",
                file=sys.stderr,
            )
        self.model.eval()

    def mixed(self) -> Any:
        """Products in the dtype of the run; the weights that are learned stay in float32."""
        return torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.dtype == torch.bfloat16
        )

    def loss(self, batch: Sequence[tuple[list[int], int]]) -> tuple[Any, float]:
        """The cross-entropy of the letters, and the share whose letter is the likelier one."""
        ids, mask = padded([own for own, _ in batch], self.device)
        places = (mask.cumsum(1) - 1).clamp(min=0)
        with self.mixed():
            found = self.model(
                input_ids=ids, attention_mask=mask, position_ids=places, logits_to_keep=1
            )
        logits, wanted = (
            found.logits[:, -1].float(),
            torch.tensor([letter for _, letter in batch], device=self.device),
        )
        picked_a = logits[:, self.tokens.a] > logits[:, self.tokens.b]
        return cross_entropy(logits, wanted), float(
            (picked_a == (wanted == self.tokens.a)).float().mean()
        )

    def form_loss(self, rows: Sequence[Row]) -> Any:
        """The mean cross-entropy of the tokens of whole judgements."""
        total = torch.zeros((), device=self.device)
        for row in rows:
            folder = self.prompts.folder()
            asked = render_prompt(
                row["prompt"], (row["first"], row["second"]), GENERAL, folder=folder
            )
            prompt = encode_prompt(self.tokenizer, make_prompt(self.tokenizer, asked, chat=False))
            made = tokenised(self.tokenizer, prompt, row["judgement"])
            ids, learned = torch.tensor(
                [made["input_ids"], made["completion_mask"]], device=self.device
            ).split(1)
            with self.mixed():
                total = total + self.model(input_ids=ids, labels=ids.where(learned == 1, -100)).loss
        return total / max(1, len(rows))

    def tell(self, rows: Sequence[Row]) -> None:
        """Print the shares of right verdicts, with 95% intervals over topics."""
        verdicts = partial(verdict_logprobs, self.model, tokens=self.tokens)
        right: dict[str, list[tuple[str, float]]] = defaultdict(list)
        for row in rows:
            behind = {
                "without criteria": self.tokens.marker,
                "criteria given": self.criteria(row["fact"], row["chosen"], row["rejected"]),
            }
            asked = list(self.asked(row))
            for name, text in behind.items():
                found = verdicts([VerdictRow(prompt, text) for _, prompt in asked])
                odds = [
                    (a - b) if label == "A" else (b - a)
                    for (a, b), (label, _) in zip(found, asked, strict=True)
                ]
                right[name] += [(row["source_item"], float(value > 0)) for value in odds]
                right[f"{name}, both orders"].append((row["source_item"], float(sum(odds) > 0)))
        for name, values in right.items():
            share = mean_interval(item_means(values))
            print(
                f"{name}: right in {share.estimate:.3f} [{share.low:.3f}, {share.high:.3f}] "
                f"of {len(values)}"
            )


if __name__ == "__main__":
    sys.exit(main())
