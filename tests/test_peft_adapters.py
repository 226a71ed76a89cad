"""Adapters that peft saved score as peft's own classes do, or not at all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")
pytest.importorskip("peft", reason="needs the extra carb-scorers[peft]")

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

import tiny_models
from carb_data import CarbError
from carb_scorers import open_scorer
from tiny_models import TEXTS, request

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")

TARGETS = {"llama": ["q_proj", "v_proj"], "bert": ["query", "value"]}


@pytest.fixture
def language(base: Path, tmp_path: Path) -> Path:
    """A language model, whose configuration names two labels as any does."""
    return Path(
        shutil.copytree(tiny_models.folder(base, "llama", "CausalLM", chat=True), tmp_path / "base")
    )


def adapter(base: Path, folder: Path, head: str = "SequenceClassification", **given: Any) -> Path:
    """An adapter of random numbers that peft saved, with the tokenizer of its base."""
    labels = {"num_labels": 1} if head == "SequenceClassification" else {}
    model = getattr(transformers, f"AutoModelFor{head}").from_pretrained(base, **labels)
    targets = TARGETS[model.config.model_type]
    torch.manual_seed(1)
    config = peft.LoraConfig(r=4, target_modules=targets, init_lora_weights=False, **given)
    made = peft.get_peft_model(model, config)
    with torch.no_grad():
        for name, weights in made.named_parameters():
            if "modules_to_save" in name:
                weights.add_(torch.randn_like(weights))
    made.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(base).save_pretrained(folder)
    return folder


def scores(spec: str) -> list[float]:
    (result,) = anyio.run(open_scorer(spec).score, [request()])
    return [result.scores[str(key)] for key in range(len(TEXTS))]


@pytest.mark.parametrize("architecture", ["llama", "bert"])
@pytest.mark.parametrize("tokenizer", [True, False], ids=["tokenizer", "no tokenizer"])
def test_a_reward_model_scores_as_peft_does(
    base: Path, tmp_path: Path, architecture: str, tokenizer: bool
) -> None:
    kind = "CausalLM" if architecture == "llama" else "SequenceClassification"
    changes = {} if architecture == "llama" else {"num_labels": 3}
    below = tiny_models.folder(base, architecture, kind, pad="<pad>", **changes)
    if architecture == "bert":  # a head of three labels is below, and one of one label on top
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            below, num_labels=1, ignore_mismatched_sizes=True
        )
        below = tmp_path / "below"
        model.bert.save_pretrained(below)
        tiny_models.tokenizer(chat=False, encoder=True, typed=True, pad="<pad>").save_pretrained(
            below
        )
    folder = adapter(below, tmp_path / "adapter", task_type="SEQ_CLS")
    own = peft.AutoPeftModelForSequenceClassification.from_pretrained(folder, num_labels=1).eval()
    made = transformers.AutoTokenizer.from_pretrained(folder)
    if not tokenizer:
        for file in folder.glob("token*"):
            file.unlink()
    for key, score in enumerate(scores(f"classifier:{folder}")):
        end = "" if made.sep_token else "\n"
        given = made(f"What do people eat?{end}", TEXTS[key], return_tensors="pt")
        with torch.no_grad():
            assert score == pytest.approx(own(**given).logits[0, 0].item(), abs=1e-5)


def test_a_head_is_read_where_the_adapter_was_trained(language: Path, tmp_path: Path) -> None:
    """TRL writes the padding that it trains with into the model's configuration, which peft does
    not save; here it ends the turns, too."""
    config = json.loads((language / "config.json").read_text()) | {"pad_token_id": None}
    (language / "config.json").write_text(json.dumps(config))
    folder = adapter(language, tmp_path / "adapter", task_type="SEQ_CLS")
    made = transformers.AutoTokenizer.from_pretrained(folder)
    made.pad_token = "<|end|>"
    made.chat_template = tiny_models.CHAT.replace("<|end|>\n{% endfor", "<|end|>{% endfor")
    made.save_pretrained(folder)
    own = peft.AutoPeftModelForSequenceClassification.from_pretrained(folder, num_labels=1).eval()
    own.config.pad_token_id = made.pad_token_id
    for text, score in zip(TEXTS, scores(f"classifier:{folder}"), strict=True):
        turns = [
            {"role": "user", "content": "What do people eat?"},
            {"role": "assistant", "content": text},
        ]
        given = made.apply_chat_template(turns, return_dict=True, return_tensors="pt")
        with torch.no_grad():
            assert score == pytest.approx(own(**given).logits[0, 0].item(), abs=1e-5)


@pytest.mark.parametrize("labels", [1, 2])
def test_an_adapter_without_its_head_gives_no_score(
    language: Path, tmp_path: Path, labels: int
) -> None:
    """Its scores would differ at each load."""
    config = json.loads((language / "config.json").read_text())
    named = {str(i): f"LABEL_{i}" for i in range(labels)}
    config |= {"id2label": named, "label2id": {name: int(i) for i, name in named.items()}}
    (language / "config.json").write_text(json.dumps(config))
    folder = adapter(language, tmp_path / "adapter")
    for options in ("", "?objective=0"):
        with pytest.raises(CarbError, match=r"no weights for score\.weight.*random"):
            open_scorer(f"classifier:{folder}{options}")


def test_an_adapter_of_a_language_model_is_no_reward_model(language: Path, tmp_path: Path) -> None:
    folder = adapter(language, tmp_path / "adapter", "CausalLM", task_type="CAUSAL_LM")
    with pytest.raises(CarbError, match=r"no weights for score\.weight"):
        open_scorer(f"classifier:{folder}")
    below, above = scores(f"implicit:{language}"), scores(f"implicit:{folder}")
    merged = peft.AutoPeftModelForCausalLM.from_pretrained(folder).merge_and_unload()
    merged.save_pretrained(tmp_path / "merged")
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "merged")
    assert above == pytest.approx(scores(f"implicit:{tmp_path / 'merged'}"), abs=1e-4)
    assert above != pytest.approx(below, abs=0.1)


def test_weights_that_fit_nothing_in_the_base_are_refused(language: Path, tmp_path: Path) -> None:
    folder = adapter(language, tmp_path / "adapter", "CausalLM", task_type="CAUSAL_LM")
    file = folder / "adapter_model.safetensors"
    renamed = {
        name.replace(".model.model.", ".model.language_model.model."): weights
        for name, weights in load_file(file).items()
    }
    save_file(renamed, file, metadata={"format": "pt"})
    with pytest.raises(CarbError, match=r"no weights for .*lora_A"):
        open_scorer(f"implicit:{folder}")


@pytest.mark.parametrize(
    ("change", "unread"),
    [({"target_modules": ["q_proj"]}, "v_proj.lora_A"), ({"use_future": True}, "use_future")],
)
def test_what_peft_leaves_unread_is_refused(
    language: Path, tmp_path: Path, change: dict[str, Any], unread: str
) -> None:
    """A part of the weights was dropped in silence."""
    folder = adapter(language, tmp_path / "adapter", "CausalLM", task_type="CAUSAL_LM")
    file = folder / "adapter_config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps(config | {"newer": None, "newest": "auto"}))
    open_scorer(f"implicit:{folder}")
    file.write_text(json.dumps(config | change))
    with pytest.raises(CarbError, match=rf"peft does not read: .*{unread}"):
        open_scorer(f"implicit:{folder}")


def test_the_base_under_an_adapter_counts(language: Path, tmp_path: Path) -> None:
    """A base that was overwritten makes another model of it."""
    folder = adapter(language, tmp_path / "adapter", "CausalLM", task_type="CAUSAL_LM")
    before = open_scorer(f"implicit:{folder}").spec.revision
    assert open_scorer(f"implicit:{folder}").spec.revision == before
    file = language / "model.safetensors"
    weights = {name: values * 1.5 for name, values in load_file(file).items()}
    save_file(weights, file, metadata={"format": "pt"})
    assert open_scorer(f"implicit:{folder}").spec.revision != before


def test_an_adapter_on_an_adapter_says_what_to_merge(language: Path, tmp_path: Path) -> None:
    below = adapter(language, tmp_path / "below", task_type="SEQ_CLS")
    above = Path(shutil.copytree(below, tmp_path / "above"))
    config = json.loads((above / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = str(below)
    (above / "adapter_config.json").write_text(json.dumps(config))
    with pytest.raises(CarbError, match=rf"'{below}', which is an adapter.*merge_and_unload"):
        open_scorer(f"classifier:{above}")


def test_a_base_that_is_gone_is_named(language: Path, tmp_path: Path) -> None:
    folder = adapter(language, tmp_path / "adapter", task_type="SEQ_CLS")
    shutil.rmtree(language)
    with pytest.raises(CarbError, match=rf"is an adapter of '{language}'.*not there"):
        open_scorer(f"classifier:{folder}")
    config = json.loads((folder / "adapter_config.json").read_text())
    del config["base_model_name_or_path"]
    (folder / "adapter_config.json").write_text(json.dumps(config))
    with pytest.raises(CarbError, match=r"names no base model.*merge_and_unload"):
        open_scorer(f"classifier:{folder}")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A hub on loopback: the folder of its models, and its address."""
    root = tmp_path / "hub"
    root.mkdir()
    script = Path(__file__).parent / "loopback_hub.py"
    with subprocess.Popen([sys.executable, script, root], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        yield root, f"http://127.0.0.1:{int(server.stdout.readline())}"
        server.terminate()


OPENED = """
import json, sys
from carb_scorers import open_scorer, score
spec, question, *texts = sys.argv[1:]
scores = score(spec, [question] * len(texts), texts)
print(json.dumps([open_scorer(spec).spec.revision, scores]))
"""


def test_an_adapter_on_a_hub_scores_as_in_a_folder_and_its_base_counts(
    hub: tuple[Path, str], language: Path, tmp_path: Path
) -> None:
    """No model of the hub had a version: all had the hash of nothing."""
    root, url = hub
    shutil.copytree(language, root / "a" / "base")
    local = adapter(language, tmp_path / "local", task_type="SEQ_CLS")
    above = Path(shutil.copytree(local, root / "a" / "rm"))
    config = json.loads((above / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = "a/base"
    (above / "adapter_config.json").write_text(json.dumps(config))
    (root / "a" / "rm.commit").write_text("1" * 40)

    def opened(spec: str, commit: str) -> tuple[str, list[float]]:
        (root / "a" / "base.commit").write_text(commit * 40)
        where = {"HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "0"}
        command = [sys.executable, "-W", "ignore", "-c", OPENED, spec, "What do people eat?"]
        done = subprocess.run(
            [*command, *TEXTS], env=os.environ | where, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        revision, found = json.loads(done.stdout)
        return revision, found

    revision, found = opened("classifier:a/rm", "2")
    assert revision == f"{'1' * 40}+base:{'2' * 40}"
    assert found == pytest.approx(scores(f"classifier:{local}"), abs=1e-5)
    assert opened("classifier:a/rm", "3")[0] == f"{'1' * 40}+base:{'3' * 40}"
    assert opened("implicit:a/base", "3")[0] == "3" * 40


def test_an_adapter_beside_a_whole_model_has_two_readings(language: Path, tmp_path: Path) -> None:
    """As where the merged model was saved into the adapter's folder: the adapter on its base was
    scored, without a word."""
    folder = adapter(language, tmp_path / "adapter", task_type="SEQ_CLS")
    shutil.copy(language / "model.safetensors", folder)
    with pytest.raises(CarbError, match="beside the weights of a whole model"):
        open_scorer(f"classifier:{folder}")
