"""What a model is, read from its own configuration."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from carb_cli.recognise import recognise
from carb_data import CarbError
from cli_helpers import answering


def model(folder: Path, architecture: str | None, *, template: str | None = None) -> str:
    folder.mkdir()
    (folder / "config.json").write_text(
        json.dumps({"architectures": [architecture]} if architecture else {})
    )
    if template == "inside":
        (folder / "tokenizer_config.json").write_text(
            json.dumps({"chat_template": "{{ messages }}"})
        )
    elif template == "beside":
        (folder / "tokenizer_config.json").write_text("{}")
        (folder / "chat_template.jinja").write_text("{{ messages }}")
    return str(folder)


@pytest.mark.parametrize(
    ("architecture", "template", "spec"),
    [
        ("LlamaForSequenceClassification", "inside", "classifier:{}"),
        ("InternLM2ForRewardModel", None, "classifier:{}"),
        ("Qwen3ForCausalLM", "inside", "judge:{}"),
        ("Gemma3ForConditionalGeneration", "beside", "judge:{}"),
        ("Gemma3ForCausalLM", None, "implicit:{}?ref=none"),
        ("GPT2LMHeadModel", None, "implicit:{}?ref=none"),
    ],
)
def test_the_architecture_and_the_template_decide(
    tmp_path: Path, architecture: str, template: str | None, spec: str
) -> None:
    folder = model(tmp_path / "m", architecture, template=template)
    found = recognise(folder)
    assert found.spec == spec.format(folder)
    assert architecture in found.why


def test_the_users_word_wins(tmp_path: Path) -> None:
    folder = model(tmp_path / "m", "LlamaForSequenceClassification")
    assert recognise(f"judge:{folder}").spec == f"judge:{folder}"
    assert (
        recognise(f"mine=judge:{folder}?mode=pairwise").spec == f"mine=judge:{folder}?mode=pairwise"
    )
    assert recognise("baseline:length").spec == "baseline:length"


def test_a_folder_gets_the_name_that_the_user_gives(tmp_path: Path) -> None:
    folder = model(tmp_path / "m", "Qwen3ForCausalLM", template="inside")
    found = recognise(f"Mine=judge:{folder}")
    assert found.spec == f"Mine=judge:{folder}"
    found = recognise(f"Mine={folder}")
    assert (found.spec, found.chat) == (f"Mine=judge:{folder}", folder)
    other = found.asked(f"implicit:{folder}?ref=none", "It was asked so.")
    assert other.spec == f"Mine=implicit:{folder}?ref=none"


@pytest.mark.parametrize(
    ("architecture", "said"),
    [("BertForTokenClassification", "classifier:"), (None, "no architecture")],
)
def test_what_says_nothing_is_refused(tmp_path: Path, architecture: str | None, said: str) -> None:
    with pytest.raises(CarbError, match=said):
        recognise(model(tmp_path / "m", architecture))


def test_no_model_and_no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CarbError, match=r"no config\.json"):
        recognise(str(tmp_path))
    (tmp_path / "my.csv").touch()
    with pytest.raises(CarbError, match="carb eval MODEL"):
        recognise(str(tmp_path / "my.csv"))
    (tmp_path / "models" / "my-rm-2").mkdir(parents=True)
    (tmp_path / "models" / "my-rm-2" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CarbError, match="holds my-rm-2"):  # and no hub is asked
        recognise("models/my-rm")
    (tmp_path / "models" / "my-rm-2" / "config.json").write_text("{")
    with pytest.raises(CarbError, match="not JSON"):
        recognise("models/my-rm-2")


def listing(models: object) -> AbstractContextManager[str]:
    """A server with a list of models."""
    pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")
    return answering(lambda path, _: (200 if path == "/v1/models" else 404, models))


def test_a_server_with_one_model() -> None:
    with listing({"data": [{"id": "org/judge-8b"}]}) as url:
        found = recognise(f"{url}/v1/")
    assert found.spec == f"judge:org/judge-8b?backend=openai&read=generate&url={url}/v1"


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ({"data": [{"id": "a"}, {"id": "b"}]}, "Say which"),
        ({"data": []}, "0 models"),
        ({}, "Cannot read the list"),
    ],
)
def test_a_server_that_does_not_say_which(models: object, said: str) -> None:
    with listing(models) as url, pytest.raises(CarbError, match=said):
        recognise(f"{url}/v1")


@pytest.mark.parametrize(
    ("task", "template", "kind"),
    [
        ("SEQ_CLS", True, "classifier"),
        ("CAUSAL_LM", True, "judge"),
        ("CAUSAL_LM", False, "implicit"),
    ],
)
def test_an_adapter_is_asked_as_the_task_that_it_names(
    tmp_path: Path, task: str, template: bool, kind: str
) -> None:
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    for folder in (base, adapter):
        folder.mkdir()
    settings = {"chat_template": "{{ messages }}"} if template else {}
    (base / "tokenizer_config.json").write_text(json.dumps(settings))
    content = {"base_model_name_or_path": str(base), "task_type": task}
    (adapter / "adapter_config.json").write_text(json.dumps(content))
    found = recognise(str(adapter))
    assert found.spec.startswith(f"{kind}:{adapter}")
    assert str(base) in found.why
    (adapter / "adapter_config.json").write_text(json.dumps({**content, "task_type": None}))
    with pytest.raises(CarbError, match=rf"classifier:{adapter}, judge:"):
        recognise(str(adapter))


def test_a_misspelt_folder_is_refused_at_once_without_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    (tmp_path / "models").mkdir()
    model(tmp_path / "models" / "gemma", "Gemma3ForCausalLM")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CarbError, match="Did you mean 'models/gemma'") as refused:
        recognise("modles/gemma")
    assert "modles/gemma" in str(refused.value)
