"""The recipe for the judge in verl itself: its configuration, its reader of the data, its managers of rewards, and its
trainer up to where it asks for GPUs.

Runs where verl is installed: ``nox -s verl``.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verl", reason="needs verl, in an environment of its own; run nox -s verl")

import numpy as np
import polars as pl
import torch
import transformers
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from verl import DataProto
from verl import __file__ as verl_file
from verl.experimental.reward_loop import RewardLoopWorker, migrate_legacy_reward_impl
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config
from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

import tiny_models
from tal_rlvr import load_config
from tal_rlvr.judgement import write_judgement
from tal_rlvr.other_trainers import write_verl

pytestmark = [pytest.mark.verl, pytest.mark.filterwarnings("ignore")]


RECIPE = resources.files("tal_rlvr") / "launch" / "verl-judge.sh"


def recipe(model: Path, data: Path) -> Any:
    """verl's configuration with the settings of the recipe."""
    text = RECIPE.read_text(encoding="utf-8")
    command = text[text.index("exec python") :].replace("$model", str(model)).replace("$data", str(data))
    words = shlex.split(command.replace("\\\n", " ").replace('"$@"', ""))
    with initialize_config_dir(str(Path(verl_file).parent / "trainer" / "config"), version_base=None):
        return migrate_legacy_reward_impl(compose("ppo_trainer", words[4:]))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small policy with a tokenizer that gives every text back as it was."""
    return tiny_models.folder(tmp_path_factory.mktemp("models"), "llama", "CausalLM", chat=True, pad="<pad>")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = [
        {"prompt": f"q {n}", "chosen": f"rice {n}", "rejected": f"tea {n}", "source_item": f"s{n}"} for n in range(60)
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    mix = {"sources": [{"form": "preference", "path": str(tmp_path / "pairs.jsonl")}], "held_out": 0.3}
    write_verl(load_config("demo-cpu", {"model": "none", "out": str(tmp_path / "out"), "mix": mix}), tmp_path)
    return tmp_path


def test_every_setting_of_the_recipe_is_one_of_verl_s(model: Path, data: Path) -> None:
    config = recipe(model, data)  # hydra refuses a name that its schema lacks
    assert config.algorithm.adv_estimator == "grpo"
    OmegaConf.resolve(config.algorithm)
    assert omega_conf_to_dataclass(config.algorithm).adv_estimator == "grpo"


def test_verl_s_own_checks_find_nothing_in_the_recipe(model: Path, data: Path) -> None:
    config = recipe(model, data)
    assert (need_reference_policy(config), need_critic(config)) == (True, False)
    validate_config(config, use_reference_policy=True, use_critic=False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="would train")
def test_verl_s_trainer_takes_the_recipe_up_to_where_it_asks_for_gpus(model: Path, data: Path, tmp_path: Path) -> None:
    """The recipe as given: verl checks it, starts its queue, reads and filters both files, and counts the GPUs."""
    pytest.importorskip("transfer_queue", reason="verl's trainer needs it; run nox -s verl")
    # Its queue alone has eight processes that each ask Ray for a processor, and would wait for them for ever.
    on_a_cpu = ["trainer.logger=console", "ray_kwargs.ray_init.num_cpus=16"]
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = ["sh", str(RECIPE), str(model), str(data), *on_a_cpu]
    run = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    said = run.stdout + run.stderr
    rows = [len(pl.read_parquet(data / f"{name}.parquet")) for name in ("train", "held-out")]
    assert f"train dataset size: {rows[0]}, val dataset size: {rows[1]}" in said, said[-3000:]
    assert "Total available GPUs 0 is less than total desired GPUs 8" in said
    assert run.returncode != 0


def test_verl_reads_the_data_and_rewards_verdicts(model: Path, data: Path) -> None:
    config = recipe(model, data)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    options = OmegaConf.create({"cache_dir": str(data / "cache"), "filter_overlong_prompts_workers": None})
    rows = RLHFDataset(str(data / "train.parquet"), tokenizer, options)
    columns = collate_fn([rows[place] for place in range(4)])
    others = {key: value for key, value in columns.items() if isinstance(value, np.ndarray)}
    labels = [reward["ground_truth"] for reward in others["reward_model"]]
    said = ["A", "B", "A", "B"]
    texts = [write_judgement([("fact", "known", 3, v)], "It fits.", v) for v in said]
    answers = [tokenizer(text)["input_ids"] for text in texts]
    behind, pad = max(map(len, answers)), tokenizer.pad_token_id
    tensors = {
        "prompts": torch.full((4, 1), pad),
        "responses": torch.tensor([a + [pad] * (behind - len(a)) for a in answers]),
        "attention_mask": torch.tensor([[0] + [1] * len(a) + [0] * (behind - len(a)) for a in answers]),
    }

    async def work() -> list[dict[str, Any]]:
        return await RewardLoopWorker(config).compute_score_batch(DataProto.from_dict(tensors, non_tensors=others))

    found = asyncio.run(work())
    assert [one["reward_score"] for one in found] == [
        1.0 if a == b else -1.0 for a, b in zip(said, labels, strict=True)
    ]
    assert all(one["reward_extra_info"]["well_formed"] == 1.0 for one in found)
