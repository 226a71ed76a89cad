"""Optimise a policy against any scorer with GRPO or DPO on TRL, and see whether it gets better or
only pleases it.

    python examples/optimise_policy.py --policy MODEL --data carb-seed --scorer classifier:PATH
    --out runs/policy \
        --judge judge:PATH --method grpo --steps 200

The prompts of ``--data`` are divided by source item; the policy is trained on one part and looked
at on the other, before and after. GRPO takes the scorer as a reward function (``as_trl_reward``).
DPO samples first, and prefers the best-scored answer of each prompt to the worst. ``--judge`` is a
scorer that is *not* trained against: a reward that rises while the judge's score falls is the sign
of overoptimisation (Gao, Schulman and Hilton 2023). ``report.json`` keeps the two looks, each
change with its 95% interval over the held-out prompts, KL(policy ‖ start) in nats per answer, and
the alarms; the policy is in ``OUT/model``. A change whose interval holds 0 is ``not shown``, and
raises no alarm: more prompts (``--looks``) narrow it.

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

from carb_data import in_language, load
from carb_metrics import paired_difference
from carb_scorers import as_trl_reward

NAMES = ("reward", "judge")
DPO_BATCH = 4
Look = dict[str, list[float | None]]
"""Each measure's mean over the answers to each held-out prompt; null where there is none."""
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
    items = [row["source_item"] for row in held_out[: given.looks]]
    changes = {name: change(before[name], after[name], items, name) for name in before}
    kl = divergence(policy, start, written, given.temperature)
    was, now = ({name: mean(values) for name, values in one.items()} for one in (before, after))
    report = {
        "method": given.method,
        "before": was,
        "after": now | {"kl": kl},
        "changes": changes,
        "alarms": alarms(was, now, changes, kl),
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
        names = ("culture", "language", "source_item")
        known = {name: getattr(item, name) for name in names}
        rows[item.prompt_text, item.culture] = {"prompt": prompt, **known}
    return list(rows.values())


def divided(rows: list[dict[str, Any]], share: float, seed: int) -> tuple[list[Any], list[Any]]:
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
        "num_return_sequences": given.generations,
    }
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
) -> tuple[Look, Any]:
    """What can be said of a policy's answers: their reward, the judge's score, and their form."""
    texts, written = sampled(model.eval(), tokenizer, rows, given)
    size = given.generations
    starts = range(0, len(texts), size)

    def by_prompt(values: list[Any]) -> list[float | None]:
        return [mean(values[start : start + size]) for start in starts]

    unknown = [None] * len(texts)
    found = {
        name: by_prompt(one(**columns(written)) if one else unknown)
        for name, one in zip(NAMES, scorers, strict=True)
    }
    languages = [row["language"] for row in written]
    right = [
        float(in_language(text, language)) if text else None
        for text, language in zip(texts, languages, strict=True)
    ]
    groups = [texts[start : start + size] for start in starts]
    found["length"] = by_prompt([float(len(text)) for text in texts])
    found["empty"] = by_prompt([float(not text) for text in texts])
    found["language"] = by_prompt(right)
    found["repetition"] = by_prompt([repetition(text) for text in texts])
    found["same"] = [
        1 - (len(set(group)) - 1) / (len(group) - 1) if len(group) > 1 else None for group in groups
    ]
    return found, written


def change(
    before: list[float | None], after: list[float | None], items: list[str], name: str
) -> dict[str, Any]:
    """The change of a measure over prompts, those of one source item as a cluster, and what it
    shows: ``rose``, ``fell``, or ``not shown`` where the 95% interval holds 0."""
    pairs = zip(after, before, items, strict=True)
    known = [(now, was, item) for now, was, item in pairs if now is not None and was is not None]
    told: dict[str, Any] = {"prompts": len(known), "shown": "not shown"}
    if len({item for _, _, item in known}) < 2:
        return told
    now, was, of = zip(*known, strict=True)
    paired = paired_difference(now, was, of, bounded=name not in (*NAMES, "length"))
    told |= paired.model_dump(include={"estimate", "low", "high"})
    if paired.low is not None and paired.low > 0:
        told["shown"] = "rose"
    if paired.high is not None and paired.high < 0:
        told["shown"] = "fell"
    return told


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


def alarms(
    before: Measures, after: Measures, changes: dict[str, dict[str, Any]], kl: float | None
) -> list[str]:
    """What moved further than its limit, and was shown to have moved."""
    told = []
    was, now = before["length"] or 0.0, after["length"] or 0.0
    longer = now / was if was else 1.0
    limit = LIMITS["length"]
    if changes["length"]["shown"] != "not shown" and not 1 / limit <= longer <= limit:
        told.append(f"length: answers are {longer:.2f} times as long as before")
    for name in ("language", "repetition", "same", "empty"):
        way = "fell" if name == "language" else "rose"
        moved = changes[name]
        if moved["shown"] == way and abs(moved["estimate"]) > LIMITS[name]:
            told.append(f"{name}: it {way} by {abs(moved['estimate']):.2f}")
    if kl and kl > LIMITS["kl"]:
        told.append(f"kl: {kl:.1f} nats per answer from where it started")
    if (changes["reward"]["shown"], changes["judge"]["shown"]) == ("rose", "fell"):
        rise = changes["reward"]["estimate"]
        told.append(f"overoptimised: the reward rose by {rise:.3g}, the judge's score fell")
    return told


if __name__ == "__main__":
    sys.exit(main())
