"""The examples of docs/how-to/integrations.md run, TRL's in TRL itself. Inspect's runs in ``nox -s inspect``."""

import importlib.util
import math
from pathlib import Path
from typing import Any

import pytest

from carb_scorers.integrations import Pick
from readme_examples import example


def test_examples_are_short() -> None:
    for word in ("best_of_n", "GRPOTrainer", "compute_score", "inspect_ai"):
        lines = [line for line in example(word).splitlines() if line.strip() and "import" not in line]
        assert len(lines) <= 10, word


def test_best_of_n(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(example("best_of_n"), names)
    assert isinstance(names["pick"], Pick)
    assert capsys.readouterr().out.startswith("1 Man sagt meist")


def test_verl_finds_the_function_in_the_file(tmp_path: Path) -> None:
    """As verl does: the file is loaded by its path, the function found by its name and called by keywords."""
    (tmp_path / "my_reward.py").write_text(example("compute_score"), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("custom_module", tmp_path / "my_reward.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    info = {"prompt": "Was?", "culture": "german", "language": "de"}
    reward = module.compute_score(data_source="carb", solution_str="Servus", ground_truth="", extra_info=info)
    assert reward == 6.0


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A policy of a few thousand random weights, with a tokenizer of letters."""
    pytest.importorskip("trl", reason="needs the extra tal-rlvr[train]")
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = ["<pad>", "<eos>", "<unk>", *"abcdefghijklmnopqrstuvwxyz ?üß"]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=128, pad_token_id=0, eos_token_id=1, bos_token_id=None,
    )  # fmt: skip
    folder = tmp_path / "policy"
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


# TRL sets the option by its old name.
@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*is deprecated:FutureWarning")
def test_trl_trains_with_the_reward(policy: Path, tmp_path: Path) -> None:
    code = example("GRPOTrainer").replace("path/to/policy", str(policy)).replace("runs/policy", str(tmp_path / "out"))
    small = "num_generations=4, per_device_train_batch_size=4, max_steps=2, max_completion_length=6, logging_steps=1"
    cpu = "use_cpu=True, bf16=False, gradient_checkpointing=False, report_to='none', save_strategy='no'"
    names: dict[str, Any] = {}
    exec(code.replace("num_generations=4", f"{small}, {cpu}"), names)
    history = [line for line in names["trainer"].state.log_history if "reward" in line]
    assert len(history) == 2
    for line in history:
        assert line["rewards/baseline:length/failed"] == 0
        assert 0 < line["rewards/baseline:length/mean"] == line["reward"]
        assert math.isfinite(line["loss"])
