"""Think-as-Locals on a real chat model; skipped where it has not been converted yet (``tests/small_models.py``)."""

from __future__ import annotations

import pytest

from tal_rlvr import render_prompt
from tal_rlvr.judge_rewards import VerdictRow
from tal_rlvr.verdict_logprobs import ModelVerdicts
from tal_rlvr.verdict_tokens import encode_prompt, make_prompt, verdict_tokens

pytest.importorskip("torch", reason="needs tal-rlvr[train]")

import torch

from small_models import cache_folder

FOLDERS = {name: cache_folder() / name for name in ("smollm2-135m", "gemma3-270m")}


@pytest.fixture(scope="module", params=list(FOLDERS))
def loaded(request):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = FOLDERS[request.param]
    if not folder.is_dir():
        pytest.skip(f"run: python tests/small_models.py {request.param}")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), tokenizer


pytestmark = pytest.mark.real


def test_the_example_in_the_help_of_carb_train_can_learn(smollm, tmp_path):
    """With the model that its preset is for, every prompt that it reads fits, and so does every warm-up target."""
    from carb_cli.commands.train import train
    from tal_rlvr import load_config
    from tal_rlvr.training_setup import checked_parts
    from tal_rlvr.training_stages import TrainingRun
    from tal_rlvr.warmup import tokenised

    words = next(line for line in train.__doc__.splitlines() if "--config" in line and "carb train" in line).split()
    given = dict(zip(words[2:-1:2], words[3::2], strict=True))
    assert given["--data"] == "carb-seed"
    mix = {"sources": [{"form": "carb", "path": given["--data"]}]}
    config = load_config(given["--config"], {"model": str(smollm), "out": str(tmp_path), "mix": mix})
    run = TrainingRun(config)
    parts, lengths = run.fit(checked_parts(config)[0])
    assert lengths.train_pairs_fit == lengths.train_pairs > 1000
    targets = [len(tokenised(run.tokenizer, [], text)["input_ids"]) for _, text in run._targets(parts.train)]
    assert len(targets) == 320
    assert max(targets) <= config.max_new_tokens


def rows_for(tokenizer):
    pairs = [("rice with fish", "bread"), ("tea", "a long answer about coffee and its history"), ("喝茶", "咖啡")]
    tokens = verdict_tokens(tokenizer)
    rows = []
    for pair in pairs:
        messages = render_prompt("What is usual for breakfast?", pair, "japanese")
        prompt = tuple(encode_prompt(tokenizer, make_prompt(tokenizer, messages, chat=bool(tokenizer.chat_template))))
        z = tuple(tokenizer("Criteria:\n- habit | usual | weight 2 | meets A", add_special_tokens=False)["input_ids"])
        rows += [VerdictRow(prompt, tokens.marker), VerdictRow(prompt, (*z, *tokens.line))]
    return tokens, rows


def test_verdict_log_probabilities_do_not_depend_on_neighbours_or_shared_prompts(loaded):
    model, tokenizer = loaded
    tokens, rows = rows_for(tokenizer)
    together = ModelVerdicts(model, tokens)(rows)
    for row, value in zip(rows, together, strict=True):
        (alone,) = ModelVerdicts(model, tokens, share_prefix=False)([row])
        assert value == pytest.approx(alone, abs=2e-4)
