"""Reward models that bring code of their own: run from their folder as they are on the hub, and
only when trusted.

The modeling files below have the form of the published ones (where the score stands, which class
loads it, which token ends a conversation) around a tiny Llama.
"""

from __future__ import annotations

import itertools
import json
import shutil
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
from carb_scorers import open_scorer
from carb_scorers.testing import check_scorer

HEAD = """
from pathlib import Path

import torch
from torch import nn
from transformers import LlamaModel, LlamaPreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutputWithPast

Path({marker!r}).touch()
"""

GATED = '''
from dataclasses import dataclass
from transformers.utils import ModelOutput


@dataclass
class Output(ModelOutput):
    rewards: torch.Tensor | None = None
    logits: torch.Tensor | None = None


class LlamaForRewardModelWithGating(LlamaPreTrainedModel):
    """The form of ArmoRM, URM and QRM: three objectives at the last token, mixed by a gate at the
    first. The mixed score is ``output.logits``, in some a number for each row, in others a list of
    one.
    """

    def __init__(self, config):
        super().__init__(config)
        self.model = LlamaModel(config)
        self.regression_layer = nn.Linear(config.hidden_size, 3, bias=False)
        self.gating = nn.Linear(config.hidden_size, 3)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, **kwargs):
        states = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        last = attention_mask.sum(-1) - 1
        rewards = self.regression_layer(states[torch.arange(len(last)), last])
        weights = self.gating(states[:, 0]).softmax(-1)
        return Output(rewards=rewards, logits=(weights * rewards).sum(-1))
'''

VALUE = '''
class InternLM2ForRewardModel(LlamaPreTrainedModel):
    """InternLM2-Reward's form: a value head, read where the reward token stands."""

    def __init__(self, config):
        super().__init__(config)
        self.model = LlamaModel(config)
        self.v_head = nn.Linear(config.hidden_size, 1, bias=False)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, **kwargs):
        states = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        values = self.v_head(states).squeeze(-1)
        ends = attention_mask.cumsum(dim=1).argmax(dim=1).view(-1, 1)
        return SequenceClassifierOutputWithPast(logits=torch.gather(values, 1, ends))
'''

SEVERAL = '''
class {name}(LlamaPreTrainedModel):
    """More numbers for an answer than its configuration names: {name}."""

    def __init__(self, config):
        super().__init__(config)
        self.model = LlamaModel(config)
        self.score = nn.Linear(config.hidden_size, {width}, bias=False)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, **kwargs):
        states = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return SequenceClassifierOutputWithPast(logits=self.score(states{read}))
'''

pytestmark = pytest.mark.real

FORMS = {
    "LlamaForRewardModelWithGating": (GATED, "AutoModelForSequenceClassification", False),
    "InternLM2ForRewardModel": (VALUE, "AutoModel", True),
}
LOADER = "AutoModelForSequenceClassification"
UNKNOWN = {
    "LlamaQuantileReward": (7, "[:, -1]"),
    "LlamaTwoColumnReward": (2, "[:, -1]"),
    "LlamaTokenReward": (1, ""),
}
FORMS_OF_UNKNOWN = {
    name: (SEVERAL.format(name=name, width=width, read=read), LOADER, False)
    for name, (width, read) in UNKNOWN.items()
}
REWARD_TOKEN = 7

REQUEST = tiny_models.request()


@pytest.fixture
def folder(
    request: Any, tmp_path: Path, tmp_path_factory: Any, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A model of the form named by the test's parameter."""
    monkeypatch.setattr(
        transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules")
    )
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    architecture: str = request.param
    code, loader, _ = {**FORMS, **FORMS_OF_UNKNOWN}[architecture]
    base = tmp_path_factory.getbasetemp() / "tiny"
    made = tmp_path / "model"
    shutil.copytree(
        tiny_models.folder(base, "llama", "SequenceClassification", pad="<pad>", chat=True), made
    )
    (made / "modeling_own.py").write_text(HEAD.format(marker=str(tmp_path / "was-run")) + code)
    names: dict[str, Any] = {"__name__": "own"}
    exec((made / "modeling_own.py").read_text(), names)
    (tmp_path / "was-run").unlink()
    torch.manual_seed(5)
    model = names[architecture](transformers.LlamaConfig.from_pretrained(made))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(made)
    config = json.loads((made / "config.json").read_text())
    config |= {
        "architectures": [architecture],
        "auto_map": {loader: f"modeling_own.{architecture}"},
        "reward_token_id": REWARD_TOKEN,
    }
    (made / "config.json").write_text(json.dumps(config))
    return made


@pytest.mark.parametrize("folder", FORMS, indirect=True)
def test_the_score_is_that_of_the_models_own_code(folder: Path) -> None:
    architecture = json.loads((folder / "config.json").read_text())["architectures"][0]
    _, loader, shared = FORMS[architecture]
    scorer: Any = open_scorer(f"classifier:{folder}?trust_remote_code=true")
    (result,) = anyio.run(scorer.score, [REQUEST])
    with tiny_models.watched() as passes:
        anyio.run(scorer.score, [REQUEST])
    rows = [*itertools.chain.from_iterable(passes)]
    model = getattr(transformers, loader).from_pretrained(folder, trust_remote_code=True).eval()
    assert type(model).__name__ == architecture
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    answers = len(REQUEST.candidates)
    wholes = 0
    for candidate in REQUEST.candidates:
        turns = [
            {"role": "user", "content": REQUEST.prompt},
            {"role": "assistant", "content": candidate.text},
        ]
        text = tokenizer.apply_chat_template(turns, tokenize=False)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        ids += [REWARD_TOKEN] if architecture == "InternLM2ForRewardModel" else []
        wholes += ids in [row[: len(ids)] for row in rows]
        row = torch.tensor([ids])
        with torch.no_grad():
            output = model(input_ids=row, attention_mask=torch.ones_like(row))
        assert result.scores[candidate.id] == pytest.approx(output.logits.item(), abs=1e-5)
    assert wholes == (0 if shared else answers)  # where the question is read once, no row is whole
    anyio.run(check_scorer, scorer)
    anyio.run(
        check_scorer, open_scorer(f"classifier:{folder}?trust_remote_code=true&batching=budget")
    )


@pytest.mark.parametrize("folder", FORMS, indirect=True)
def test_a_models_own_code_is_not_run_unasked(folder: Path) -> None:
    with pytest.raises(CarbError, match="trust_remote_code"):
        open_scorer(f"classifier:{folder}")
    assert not (folder.parent / "was-run").exists()


@pytest.mark.parametrize("folder", UNKNOWN, indirect=True)
def test_more_numbers_than_outputs_are_no_score(folder: Path) -> None:
    """The first of them was taken."""
    with pytest.raises(CarbError, match="numbers for an answer"):
        open_scorer(f"classifier:{folder}?trust_remote_code=true")
