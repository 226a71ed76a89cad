"""Opening models: architectures with a score of their own, random heads refused, devices, templates, no noise."""

from __future__ import annotations

import hashlib
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
from carb_scorers.models import Prompt
from carb_scorers.models.hf_loading import HFOptions
from carb_scorers.models.hf_reward import ADAPTERS, Adapter, HFRewardModel, RewardOptions
from carb_scorers.models.tokens import conversation_ids

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


def test_dtypes(base: Path) -> None:
    folder = tiny_models.folder(base, "gemma3", "SequenceClassification")
    exact = scores(open_scorer(f"classifier:{folder}?dtype=float64"))
    assert scores(open_scorer(f"classifier:{folder}")) == pytest.approx(exact, abs=1e-5)
    assert scores(open_scorer(f"classifier:{folder}?dtype=bfloat16")) == pytest.approx(exact, abs=0.05)
    assert scores(open_scorer(f"classifier:{folder}?attention=eager")) == pytest.approx(exact, abs=1e-5)


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
