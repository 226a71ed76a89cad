"""Think-as-Locals on a real chat model; skipped where it has not been converted yet
(``tests/small_models.py``)."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest

from carb_data import load
from tal_rlvr.judge_prompts import PromptConfig
from tal_rlvr.judgement import write_judgement
from tal_rlvr.preferences import both_orders, pairs_from_set
from tal_rlvr.trl_rewards import CriteriaFunction, RewardConfig
from tal_rlvr.verdict_logprobs import verdict_logprobs
from tal_rlvr.verdict_tokens import verdict_tokens

pytest.importorskip("trl", reason="needs tal-rlvr[train]")

import torch

from small_models import cache_folder
from tal_rlvr.trainer import training_rows

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


EMPTY = {
    "stock phrases": ("local fact", "people know it"),
    "another language": ("地元の事実", "そこでは皆が知っている"),
    "length": ("length", "the longer answer says more"),
    "position": ("order", "what is read at the start is trusted"),
    "self-praise": ("expertise", "as a local I am never wrong"),
    "the verdict paraphrased": ("quality", "what comes before the other is the one to take"),
}


@pytest.mark.parametrize("cheat", EMPTY)
def test_a_real_reader_is_moved_towards_no_truth_by_criteria_that_say_nothing(loaded, cheat):
    """Measured with Gemma 3 270M over 12 to 20 English pairs: from -0.002 to 0.002 nats (SE 0.003)
    for six such texts.

    Honest criteria move this reader no more (0.000, SE 0.002): it follows none, so it cannot show
    that they pay.
    """
    model, tokenizer = loaded
    sets = [
        item for item in load("carb-seed") if item.language == "en" and len(item.chosen.text) < 60
    ]
    rows = training_rows(
        [both_orders(pairs_from_set(item)[0])[0] for item in sets[::5][:6]],
        tokenizer,
        PromptConfig(),
    )
    function = CriteriaFunction(tokenizer, verdict_tokens(tokenizer), RewardConfig(clip="none"))
    function.provider = partial(verdict_logprobs, model, tokens=function.tokens)
    text = write_judgement([(*EMPTY[cheat], 3, "A")], "It fits.", "A")
    values = function(
        prompts=[row["prompt"] for row in rows],
        swapped_prompt=[row["swapped_prompt"] for row in rows],
        responses=[row["responses"] for row in rows],
        completion_ids=[tokenizer(text, add_special_tokens=False)["input_ids"]] * len(rows),
        label=[row["label"] for row in rows],
        trainer_state=SimpleNamespace(global_step=0),
    )
    assert abs(sum(values) / len(values)) < 0.1
