"""Optimise a policy against any scorer with GRPO or DPO on TRL, and see whether it gets better or
only pleases it.

    python examples/optimise_policy.py --policy MODEL --data carb-seed --scorer classifier:PATH
    --out runs/policy \
        --judge judge:PATH --method grpo --steps 200

The prompts of ``--data`` are divided by source item; the policy is trained on one part and looked
at on the other, before and after. GRPO takes the scorer as a reward function (``as_trl_reward``).
DPO samples first, and prefers the best-scored answer of each prompt to the worst. ``--judge`` is a
scorer that is *not* trained against: a reward that rises while the judge's score falls is the sign
of overoptimisation (Gao, Schulman and Hilton 2023). ``report.json`` keeps the two looks, KL(policy
‖ start) in nats per answer, and the alarms; the policy is in ``OUT/model``.

Needs ``tal-rlvr[train]``.
"""

# ruff: noqa: T201 - a script, which prints

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer

from carb_data import load
from carb_data.language import in_language
from carb_scorers import as_trl_reward

NAMES = ("reward", "judge")
DPO_BATCH = 4
Measures = dict[str, float | None]
LIMITS = {"length": 1.5, "language": 0.1, "repetition": 0.1, "same": 0.4, "empty": 0.1, "kl": 10.0}
"""How far a measure may move before there is an alarm: a factor for ``length``, nats for ``kl``,
else a share."""


def main() -> int:
    """Look, train, look again; exit code 1 where there is an alarm."""
    given = arguments()
    set_seed(given.seed)
    tokenizer = AutoTokenizer.from_pretrained(given.policy, padding_side="left")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    train, held_out = divided(rows_of(given, tokenizer), given.held_out, given.seed)
    reward, judge = (
        as_trl_reward(spec, seed=given.seed) if spec else None
        for spec in (given.scorer, given.judge)
    )
    start = load_policy(given.policy)
    before, _ = look(start, tokenizer, held_out[: given.looks], given, (reward, judge))
    trainer = (grpo if given.method == "grpo" else dpo)(given, tokenizer, train, reward)
    trainer.train()
    policy = trainer.accelerator.unwrap_model(trainer.model)
    after, written = look(policy, tokenizer, held_out[: given.looks], given, (reward, judge))
    after["kl"] = divergence(policy, start, written, given.temperature)
    report = {
        "method": given.method,
        "before": before,
        "after": after,
        "alarms": alarms(before, after),
    }
    policy.save_pretrained(given.out / "model")
    tokenizer.save_pretrained(given.out / "model")
    (given.out / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report, indent=1))
    return 1 if report["alarms"] else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--policy", required=True, help="folder or hub id of a causal language model"
    )
    parser.add_argument("--data", default="carb-seed", help="sets whose prompts are asked")
    parser.add_argument("--scorer", required=True, help="spec of the scorer that gives the reward")
    parser.add_argument("--judge", help="spec of a scorer that is only looked at")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--method", choices=["grpo", "dpo"], default="grpo")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--learning-rate", type=float, default=1e-6)
    parser.add_argument(
        "--beta",
        type=float,
        default=0.04,
        help="weight of the KL term in GRPO; 0.1 is usual in DPO",
    )
    parser.add_argument("--generations", type=int, default=8, help="samples of a prompt")
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument(
        "--held-out",
        type=float,
        default=0.3,
        help="share of source items that are never trained on",
    )
    parser.add_argument("--looks", type=int, default=64, help="held-out prompts in a look")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def rows_of(given: argparse.Namespace, tokenizer: Any) -> list[dict[str, Any]]:
    """A row for each prompt: a chat where the tokenizer has a template, else a text."""
    rows = {}
    for item in load(given.data):
        chat = [{"role": "user", "content": item.prompt_text}]
        prompt = chat if tokenizer.chat_template else f"{item.prompt_text}\n\nAnswer:"
        known = {
            "culture": item.culture,
            "language": item.language,
            "source_item": item.source_item,
        }
        rows[item.prompt_text, item.culture] = {"prompt": prompt, **known}
    return list(rows.values())


def divided(
    rows: list[dict[str, Any]], share: float, seed: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Training and held-out rows; those of one source item are on one side."""

    def place(row: dict[str, Any]) -> float:
        return (
            int(hashlib.sha256(f"{seed}\0{row['source_item']}".encode()).hexdigest()[:8], 16)
            / 16**8
        )

    parts = (
        [row for row in rows if place(row) >= share],
        [row for row in rows if place(row) < share],
    )
    return (
        parts
        if all(parts)
        else sys.exit(f"Give more prompts than {len(rows)}, or another --held-out.")
    )


def load_policy(name: str) -> Any:
    """The policy in float32, on the GPU where there is one."""
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)
    return model.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def settings(given: argparse.Namespace) -> dict[str, Any]:
    """What both of TRL's trainers take."""
    here = {"bf16": True} if torch.cuda.is_available() else {"use_cpu": True, "bf16": False}
    return here | {
        "output_dir": str(given.out / "checkpoints"),
        "max_steps": given.steps,
        "learning_rate": given.learning_rate,
        "beta": given.beta,
        "gradient_checkpointing": torch.cuda.is_available(),
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "seed": given.seed,
    }


def grpo(
    given: argparse.Namespace, tokenizer: Any, rows: list[dict[str, Any]], reward: Any
) -> GRPOTrainer:
    """GRPO as in Shao et al. 2024, arXiv 2402.03300, equation 3: TRL's own defaults differ."""
    config = GRPOConfig(
        loss_type="grpo",
        scale_rewards="group",
        use_bias_correction_kl=False,
        disable_dropout=True,
        num_generations=given.generations,
        per_device_train_batch_size=2 * given.generations,
        max_completion_length=given.max_new_tokens,
        temperature=given.temperature,
        **settings(given),
    )
    return GRPOTrainer(
        given.policy, reward, config, Dataset.from_list(rows), processing_class=tokenizer
    )


def dpo(
    given: argparse.Namespace, tokenizer: Any, rows: list[dict[str, Any]], reward: Any
) -> DPOTrainer:
    """DPO (Rafailov et al. 2023, equation 7) on the policy's own samples as the scorer ranks
    them."""
    wanted = min(len(rows), given.steps * DPO_BATCH)  # as many prompts as the steps take
    asked = random.Random(given.seed).sample(rows, wanted)
    _, written = sampled(load_policy(given.policy), tokenizer, asked, given)
    scores = reward(**columns(written))
    by_prompt: dict[str, list[tuple[float, dict[str, Any]]]] = defaultdict(list)
    for row, score in zip(written, scores, strict=True):
        if score is not None:
            by_prompt[str(row["prompt"])].append((score, row))
    pairs = []
    for group in by_prompt.values():
        (low, worst), (high, best) = (pick(group, key=lambda one: one[0]) for pick in (min, max))
        if high > low:
            pairs.append(
                {
                    "prompt": best["prompt"],
                    "chosen": best["completion"],
                    "rejected": worst["completion"],
                }
            )
    if not pairs:
        sys.exit(
            "The scorer prefers no sample to another of the same prompt; there is nothing "
            "to learn from."
        )
    config = DPOConfig(per_device_train_batch_size=DPO_BATCH, **settings(given))
    model = load_policy(given.policy)
    return DPOTrainer(
        model, args=config, train_dataset=Dataset.from_list(pairs), processing_class=tokenizer
    )


def sampled(
    model: Any, tokenizer: Any, rows: list[dict[str, Any]], given: argparse.Namespace
) -> tuple[list[str], Any]:
    """Answers to each row, ``generations`` of them, and rows with their completion and token
    ids."""
    texts, written = [], []
    how = {
        "do_sample": True,
        "temperature": given.temperature,
        "top_k": 0,
        "max_new_tokens": given.max_new_tokens,
    }
    how["num_return_sequences"] = given.generations
    for row in rows:
        prompt = row["prompt"]
        plain = isinstance(prompt, str)
        text = (
            prompt
            if plain
            else tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False)
        )
        ids = tokenizer(text, return_tensors="pt", add_special_tokens=plain)["input_ids"].to(
            model.device
        )
        with torch.no_grad():
            out = model.generate(
                ids, attention_mask=torch.ones_like(ids), pad_token_id=tokenizer.pad_token_id, **how
            )
        for answer in out[:, ids.shape[1] :].tolist():
            end = (
                answer.index(tokenizer.eos_token_id) + 1
                if tokenizer.eos_token_id in answer
                else len(answer)
            )
            text = tokenizer.decode(answer[:end], skip_special_tokens=True).strip()
            completion = text if plain else [{"role": "assistant", "content": text}]
            texts.append(text)
            written.append(
                {**row, "completion": completion, "ids": (ids[0].tolist(), answer[:end])}
            )
    return texts, written


def columns(written: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Samples as the reward function takes them."""
    names = {
        "prompts": "prompt",
        "completions": "completion",
        "culture": "culture",
        "language": "language",
    }
    return {name: [row[key] for row in written] for name, key in names.items()}


def look(
    model: Any, tokenizer: Any, rows: list[Any], given: argparse.Namespace, scorers: Any
) -> tuple[Measures, Any]:
    """What can be said of a policy's answers: their reward, the judge's score, and their form."""
    texts, written = sampled(model.eval(), tokenizer, rows, given)
    kept = [(text, row["language"]) for text, row in zip(texts, written, strict=True) if text]
    groups = [texts[n : n + given.generations] for n in range(0, len(texts), given.generations)]
    return {
        **{
            name: mean(one(**columns(written))) if one else None
            for name, one in zip(NAMES, scorers, strict=True)
        },
        "length": mean([float(len(text)) for text in texts]),
        "empty": mean([float(not text) for text in texts]),
        "language": mean([float(in_language(text, language)) for text, language in kept]),
        "repetition": mean([repetition(text) for text in texts]),
        "same": mean(
            [1 - (len(set(group)) - 1) / (len(group) - 1) for group in groups if len(group) > 1]
        ),
    }, written


def repetition(text: str) -> float | None:
    """Share of an answer's word triples (of characters, where it has no spaces) that it has used
    before."""
    units = text.split() if len(text.split()) > 3 else list(text)
    triples = [tuple(units[n : n + 3]) for n in range(len(units) - 2)]
    return 1 - len(set(triples)) / len(triples) if len(triples) > 1 else None


def mean(values: list[Any]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def divergence(
    policy: Any, start: Any, written: list[dict[str, Any]], temperature: float
) -> float | None:
    """KL(policy ‖ start), nats per answer: exact at each token (Amini, Vieira and Cotterell 2025,
    arXiv 2504.10637)."""
    found = []
    for row in written:
        prompt, answer = row["ids"]
        ids = torch.tensor([[*prompt, *answer]], device=policy.device)
        with torch.no_grad():
            logits = [
                model(input_ids=ids).logits[0, len(prompt) - 1 : -1].float()
                for model in (policy, start)
            ]
        own, other = (torch.log_softmax(one / temperature, dim=-1) for one in logits)
        found.append(float((own.exp() * (own - other)).sum()))
    return mean(found)


def alarms(before: Measures, after: Measures) -> list[str]:
    """What moved further than its limit."""
    told = []
    was, now = before["length"] or 0.0, after["length"] or 0.0
    if was and not 1 / LIMITS["length"] <= now / was <= LIMITS["length"]:
        told.append(f"length: answers are {now / was:.2f} times as long as before")
    for name, sign in (("language", -1), ("repetition", 1), ("same", 1), ("empty", 1)):
        if sign * ((after[name] or 0.0) - (before[name] or 0.0)) > LIMITS[name]:
            told.append(f"{name}: {before[name]} before, {after[name]:.2f} now")
    if (after["kl"] or 0.0) > LIMITS["kl"]:
        told.append(f"kl: {after['kl']:.1f} nats per answer from where it started")
    gains = {name: (after[name] or 0.0) - (before[name] or 0.0) for name in NAMES}
    if after["judge"] is not None and gains["reward"] > 0 > gains["judge"]:
        told.append(
            f"overoptimised: the reward rose by {gains['reward']:.3g}, the judge's score fell"
        )
    return told


if __name__ == "__main__":
    sys.exit(main())
