"""Opening models: architectures with a score of their own, random heads refused, devices, templates, no noise."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")
pytest.importorskip("transformers", reason="needs the extra carb-scorers[hf]")

import torch
import transformers

import tiny_models
from carb_data import CarbError
from carb_scorers import Candidate, ScoreRequest, open_scorer
from carb_scorers.models import Prompt, hf_reward
from carb_scorers.models.hf_loading import HFOptions, device_of
from carb_scorers.models.hf_reward import ADAPTERS, Adapter, HFRewardModel, RewardOptions, adapter_for
from carb_scorers.models.tokens import conversation_ids
from carb_scorers.testing import check_scorer

REQUEST = ScoreRequest(
    request_id="1",
    prompt="What do people eat?",
    candidates=(Candidate(id="a", text="Noodles at dawn."), Candidate(id="b", text="Nudeln")),
    culture="thai",
    language="th",
)


def scores(scorer: Any) -> dict[str, float]:
    (result,) = anyio.run(scorer.score, [REQUEST])
    assert result.error is None, result.error
    return dict(result.scores)


def test_a_head_that_was_never_trained_is_refused(base: Path) -> None:
    """transformers would fill it with random numbers and go on."""
    folder = tiny_models.folder(base, "llama", "CausalLM")
    with pytest.raises(CarbError, match=r"no weights for score\.weight.*random numbers"):
        open_scorer(f"classifier:{folder}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("classifier:./nowhere", "no model folder './nowhere'"),
        ("classifier:nowhere", "no model folder 'nowhere'"),
        ("classifier:one/two/three", "no model folder 'one/two/three'"),
        ("judge:{}?device=abacus", "Unknown device 'abacus'"),
        ("judge:{}?device=cuda:97", "torch sees"),
        ("judge:{}?chat_template=nowhere.jinja", "cannot read that file"),
        ("judge:{}?attention=none-such", "Cannot load the model"),
        ("judge:{}?dtype=int8", "dtype: .*got 'int8'"),
        ("judge:{}?batch_tokens=0", "batch_tokens: .*got '0'"),
        ("classifier:{}?weights=a,b", "weights"),
        ("judge:{}?form=nowhere.toml", "no form"),
    ],
)
def test_wrong_use(base: Path, spec: str, message: str) -> None:
    with pytest.raises(CarbError, match=message):
        open_scorer(spec.format(tiny_models.folder(base, "llama", "CausalLM")))


@pytest.mark.parametrize("kind", ["classifier", "judge", "implicit"])
def test_a_typing_error_is_told_before_torch_is_imported(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Importing it takes seconds."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(CarbError, match="no model folder"):
        open_scorer(f"{kind}:nowhere")


def test_broken_folders_are_explained(tmp_path: Path, base: Path) -> None:
    with pytest.raises(CarbError, match="Cannot load the model"):
        open_scorer(f"judge:{tmp_path}")
    made = tiny_models.folder(base, "llama", "CausalLM")
    folder = tmp_path / "model"
    shutil.copytree(made, folder)
    (folder / "model.safetensors").write_bytes(b"not safetensors at all")
    with pytest.raises(CarbError, match="Cannot load the model"):
        open_scorer(f"judge:{folder}")
    torch.save({}, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(CarbError, match="safetensors"):
        open_scorer(f"judge:{folder}")


def test_the_revision_is_a_hash_of_what_decides_scores(tmp_path: Path, base: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_models.folder(base, "llama", "CausalLM"), folder)
    (folder / "empty.txt").touch()
    counted = [
        "config.json",
        "empty.txt",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    plain = b"".join(n.encode() + hashlib.sha256((folder / n).read_bytes()).digest() for n in counted)
    before = open_scorer(f"judge:{folder}").spec.revision
    assert before == f"sha256:{hashlib.sha256(plain).hexdigest()}"
    (folder / "README.md").write_text("nothing that counts")
    assert open_scorer(f"judge:{folder}").spec.revision == before
    (folder / "chat_template.jinja").write_text(tiny_models.CHAT)
    assert open_scorer(f"judge:{folder}").spec.revision != before


def test_opening_and_scoring_print_nothing(base: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folders = [tiny_models.folder(base, "llama", head) for head in ("CausalLM", "SequenceClassification")]
    capfd.readouterr()
    scores(open_scorer(f"judge:{folders[0]}?least_mass=0"))
    scores(open_scorer(f"implicit:{folders[0]}?ref=none"))
    scores(open_scorer(f"classifier:{folders[1]}"))
    writer = open_scorer(f"judge:{folders[0]}?read=generate&max_tokens=3&temperature=1")
    anyio.run(writer.score, [REQUEST])
    assert capfd.readouterr() == ("", "")
    assert transformers.utils.logging.is_progress_bar_enabled()


def test_a_chat_template_can_be_given_or_left_out(base: Path, tmp_path: Path) -> None:
    plain = tiny_models.folder(base, "llama", "SequenceClassification")
    chat = tiny_models.folder(base, "llama", "SequenceClassification", chat=True)
    template = tmp_path / "chat.jinja"
    template.write_text(tiny_models.CHAT)
    with_template = scores(open_scorer(f"classifier:{chat}"))
    without = scores(open_scorer(f"classifier:{plain}"))
    assert with_template != without
    assert scores(open_scorer(f"classifier:{plain}?chat_template={template}")) == pytest.approx(with_template)
    assert scores(open_scorer(f"classifier:{chat}?chat_template=none")) == pytest.approx(without)
    template.write_text("{{ raise_exception('no system, no user, no nobody') }}")
    (result,) = anyio.run(open_scorer(f"classifier:{plain}?chat_template={template}").score, [REQUEST])
    assert result.error is not None
    assert (result.error.kind, "no nobody" in result.error.message) == ("text", True)


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    assert device_of(HFOptions(device="cpu")).type == "cpu"
    with pytest.raises(CarbError, match="Unknown device 'abacus'"):
        device_of(HFOptions(device="abacus"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert device_of(HFOptions()).type == "cuda"
    assert device_of(HFOptions(device="cuda:1")).index == 1
    with pytest.raises(CarbError, match="torch sees 2 GPUs"):
        device_of(HFOptions(device="cuda:2"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_of(HFOptions()).type == "cpu"
    with pytest.raises(CarbError, match="sees no GPU"):
        device_of(HFOptions(device="cuda"))


def test_device_map_is_passed_on(base: Path) -> None:
    pytest.importorskip("accelerate", reason="transformers needs it for device_map")
    folder = tiny_models.folder(base, "llama", "SequenceClassification")
    assert scores(open_scorer(f"classifier:{folder}?device_map=cpu")) == scores(open_scorer(f"classifier:{folder}"))


def test_dtypes(base: Path) -> None:
    folder = tiny_models.folder(base, "gemma3", "SequenceClassification")
    exact = scores(open_scorer(f"classifier:{folder}?dtype=float64"))
    assert scores(open_scorer(f"classifier:{folder}")) == pytest.approx(exact, abs=1e-5)
    assert scores(open_scorer(f"classifier:{folder}?dtype=bfloat16")) == pytest.approx(exact, abs=0.05)
    assert scores(open_scorer(f"classifier:{folder}?attention=eager")) == pytest.approx(exact, abs=1e-5)


@pytest.mark.parametrize("name", ["sdpa", "eager"])
def test_attention_is_the_one_asked_for(base: Path, name: str) -> None:
    folder = tiny_models.folder(base, "llama", "SequenceClassification")
    scorer: Any = open_scorer(f"classifier:{folder}?attention={name}")
    loaded = scorer._model._passes.loaded
    assert loaded.model.config._attn_implementation == name
    assert scores(scorer) == pytest.approx(scores(open_scorer(f"classifier:{folder}")), abs=1e-5)


def relabelled(base: Path, tmp_path: Path, architecture: str, **config: Any) -> Path:
    """A tiny model whose config.json names another architecture."""
    folder = tmp_path / architecture
    shutil.copytree(tiny_models.folder(base, "llama", "SequenceClassification", pad="<pad>"), folder)
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "architectures": [architecture], **config}))
    return folder


def test_a_head_of_two_layers(base: Path, tmp_path: Path) -> None:
    """INF-ORM's form: ``score.0`` and ``score.2``, which transformers' own class would replace by random numbers."""
    from safetensors.torch import load_file, save_file

    folder = relabelled(base, tmp_path, "INFORMForSequenceClassification")
    weights = load_file(folder / "model.safetensors")
    del weights["score.weight"]
    torch.manual_seed(3)
    deep = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    weights |= {f"score.{name}": value.detach().clone() for name, value in deep.state_dict().items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    scorer: Any = open_scorer(f"classifier:{folder}")
    found = scores(scorer)
    anyio.run(check_scorer, scorer)
    body = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for candidate in REQUEST.candidates:
        ids = torch.tensor([tokenizer(REQUEST.prompt, candidate.text)["input_ids"]])
        with torch.no_grad():
            expected = deep(body(ids).last_hidden_state[0, -1]).item()
        assert found[candidate.id] == pytest.approx(expected, abs=1e-5)


def stand_in(base: Path, forward: Any) -> Any:
    """A loaded tiny decoder with another forward pass, as models with code of their own have."""
    from carb_scorers.models.hf_loading import load

    folder = tiny_models.folder(base, "llama", "SequenceClassification", pad="<pad>")
    loaded = load(str(folder), HFOptions(), "AutoModelForSequenceClassification")
    model = loaded.model
    model.forward = lambda **inputs: forward(model, **inputs)
    return loaded


def hidden(model: Any, input_ids: Any, attention_mask: Any) -> Any:
    return model.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


def test_a_score_behind_a_gate_is_read_from_the_models_own_output(base: Path) -> None:
    """ArmoRM's form: ``output.score``; its body and one linear head are not all there is to it."""
    from types import SimpleNamespace

    def forward(model: Any, input_ids: Any, attention_mask: Any) -> Any:
        states = hidden(model, input_ids, attention_mask)
        last = attention_mask.sum(-1) - 1
        own = states[torch.arange(len(last)), last]
        gate = torch.sigmoid(states[:, 0].mean(-1))
        return SimpleNamespace(score=gate * model.score(own)[:, 0], logits=own)

    loaded = stand_in(base, forward)
    model = HFRewardModel("gated", loaded, ADAPTERS["LlamaForRewardModelWithGating"], RewardOptions(batching="budget"))
    assert model._passes._forward is None
    prompts = [Prompt(({"role": "user", "content": text},)) for text in ("What?", "Why do people do that?")]
    found = anyio.run(model.rewards, prompts, ["a", "b c"])
    for prompt, answer, one in zip(prompts, ["a", "b c"], found, strict=True):
        ids = torch.tensor([conversation_ids(loaded.tokenizer, prompt, answer)])
        assert one.value == pytest.approx(forward(loaded.model, ids, torch.ones_like(ids)).score.item(), abs=1e-6)


def test_a_model_that_pads_wrongly_is_never_padded(base: Path) -> None:
    """One that reads its score at the last column, padding or not."""
    from types import SimpleNamespace

    def forward(model: Any, input_ids: Any, attention_mask: Any) -> Any:
        return SimpleNamespace(logits=model.score(hidden(model, input_ids, attention_mask))[:, -1].square())

    passes = HFRewardModel("odd", stand_in(base, forward), Adapter(), RewardOptions(batching="budget"))._passes
    assert passes._forward is None  # squaring is not in the head
    assert not passes._batches


def test_a_reward_token_is_put_behind_every_conversation(base: Path) -> None:
    adapter = ADAPTERS["InternLM2ForRewardModel"]
    config = transformers.LlamaConfig()
    config.reward_token_id = 92527
    assert adapter.ending(config) == (92527,)
    assert Adapter().ending(config) == ()


def test_an_adapter_of_ones_own(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = relabelled(base, tmp_path, "MyOddRewardModel")
    monkeypatch.setattr("carb_scorers.models.hf_reward.ADAPTERS", dict(ADAPTERS))
    plain = scores(open_scorer(f"classifier:{folder}"))
    hf_reward.ADAPTERS["MyOddRewardModel"] = Adapter(output=lambda output: -output.logits, head=lambda _: None)
    assert adapter_for(str(folder), HFOptions()) is hf_reward.ADAPTERS["MyOddRewardModel"]
    assert scores(open_scorer(f"classifier:{folder}")) == pytest.approx(
        {key: -value for key, value in plain.items()}, abs=1e-5
    )


def test_models_without_a_configuration_have_the_plain_adapter(tmp_path: Path) -> None:
    assert adapter_for(str(tmp_path), HFOptions()) == Adapter()


def test_a_rewarder_that_counts_positions_from_behind_its_padding(base: Path) -> None:
    folder = tiny_models.folder(base, "roberta", "SequenceClassification", pad="<pad>")
    scorer: Any = open_scorer(f"classifier:{folder}")
    assert scorer._model._passes.loaded.max_length == 1026 - 2 - 1
    long = REQUEST.model_copy(update={"prompt": "a " * 2000})
    (result,) = anyio.run(scorer.score, [long])
    assert result.error.kind == "too-long"


def test_a_given_chat_template_is_part_of_the_revision(base: Path, tmp_path: Path) -> None:
    folder = tiny_models.folder(base, "llama", "SequenceClassification", chat=True)
    template = tmp_path / "chat.jinja"
    revisions = set()
    for text in (tiny_models.CHAT, tiny_models.CHAT + "."):
        template.write_text(text)
        revisions.add(open_scorer(f"classifier:{folder}?chat_template={template}").spec.revision)
    revisions |= {open_scorer(f"classifier:{folder}?chat_template=none").spec.revision}
    revisions |= {open_scorer(f"classifier:{folder}").spec.revision}
    assert len(revisions) == 4


def test_a_changed_prompt_is_another_judge(base: Path, tmp_path: Path) -> None:
    folder = tiny_models.folder(base, "llama", "CausalLM")
    form = tmp_path / "mine.toml"
    specs = []
    for text in ("{{ prompt }}", "{{ prompt }}!"):
        form.write_text(f"title = 'mine'\n[listwise]\nreads = ['logprob']\nuser = '{text}'")
        specs.append(open_scorer(f"judge:{folder}?form={form}").spec)
    assert specs[0].name == specs[1].name
    assert specs[0] != specs[1]
