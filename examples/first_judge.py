"""A first training run that needs no download: it makes a judge of random weights, pairs, and a
configuration on the preset ``first-judge``, and starts ``carb train`` on them.

    python examples/first_judge.py runs/first

Each pair is a Thai dish and one from elsewhere. The warm-up teaches the form of a judgement, with
the wrong verdict in 35% of its targets. GRPO then has nothing but its rewards to tell which of them
are wrong. So the run shows that training works, and nothing about cultures.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed

from carb_cli import main as carb
from tal_rlvr.judge_prompts import PromptConfig, render_plain, render_prompt
from tal_rlvr.judgement import write_judgement

THAI = ("larb", "khaosoi", "tomyum", "somtam")
OTHERS = (
    ("brezel", "spaetzle", "labskaus", "stollen"),
    ("paella", "gazpacho", "tortilla", "cocido"),
    ("sushi", "ramen", "udon", "soba"),
)
END = "<|end|>"
Row = dict[str, str]

RUN = """preset = "first-judge"
model = "{folder}/model"
out = "{folder}/judge"
seed = {seed}

[mix]
sources = [{{form = "preference", path = "{folder}/pairs.jsonl"}}]

[warmup]
steps = {warmup}

[grpo]
max_steps = {steps}
"""


def pairs(rng: random.Random, count: int) -> list[Row]:
    """Questions that name a guest each, so that no two are the same."""
    rows = []
    for number in range(count):
        other = rng.choice(OTHERS)
        guest = "".join(rng.choice("bdgklmnprstz") + rng.choice("aeiou") for _ in range(4))
        rows.append(
            {
                "source_item": f"guest {number}",
                "prompt": f"A dish for {guest}?",
                "chosen": rng.choice(THAI),
                "rejected": rng.choice(other),
                "culture": "thai",
                "language": "en",
            }
        )
    return rows


def texts(rows: list[Row]) -> Iterator[str]:
    """What the judge will read and write, for its tokenizer."""
    folder = PromptConfig(style="compact").folder()
    for row in rows:
        shown = (row["chosen"], row["rejected"])
        for letter in ("A", "B"):
            yield render_plain(render_prompt(row["prompt"], shown, row["culture"], folder=folder))
            criterion = (f"{row['chosen']} = {letter}", "usual there", 3, letter)
            yield write_judgement([criterion], f"{letter} fits.", "A" if letter == "A" else "B")


def tokenizer(rows: list[Row]) -> PreTrainedTokenizerFast:
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(texts(rows), trainer)
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=END, pad_token=END)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--warmup", type=int, default=700, help="steps of the warm-up")
    parser.add_argument("--steps", type=int, default=40, help="steps of GRPO")
    options = parser.parse_args()
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    rows = pairs(random.Random(options.seed), 600)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "pairs.jsonl").write_text(lines, encoding="utf-8")
    tokens = tokenizer(rows)
    ends = dict.fromkeys(("eos_token_id", "bos_token_id", "pad_token_id"), tokens.eos_token_id)
    set_seed(options.seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokens),
            hidden_size=96,
            intermediate_size=192,
            num_hidden_layers=3,
            num_attention_heads=4,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            initializer_range=0.08,
            **ends,
        )
    )
    model.save_pretrained(folder / "model")
    tokens.save_pretrained(folder / "model")
    (folder / "run.toml").write_text(RUN.format(**vars(options)), encoding="utf-8")
    sys.exit(carb(["train", "--config", str(folder / "run.toml")]))


if __name__ == "__main__":
    main()
