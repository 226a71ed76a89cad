"""What a model is, read from its own configuration."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from carb_cli.recognise import recognise
from carb_data import CarbError


def model(folder: Path, architecture: str | None, *, template: str | None = None) -> str:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"architectures": [architecture]} if architecture else {}))
    if template == "inside":
        (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
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
    assert recognise(f"mine=judge:{folder}?mode=pairwise").spec == f"mine=judge:{folder}?mode=pairwise"
    assert recognise("baseline:length").spec == "baseline:length"


@pytest.mark.parametrize(
    ("architecture", "said"), [("BertForTokenClassification", "classifier:"), (None, "no architecture")]
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
    with pytest.raises(CarbError, match="no model folder"):
        recognise("foo")
    (tmp_path / "models" / "my-rm-2").mkdir(parents=True)
    (tmp_path / "models" / "my-rm-2" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CarbError, match="holds my-rm-2"):  # and no hub is asked
        recognise("models/my-rm")
    (tmp_path / "models" / "my-rm-2" / "config.json").write_text("{")
    with pytest.raises(CarbError, match="not JSON"):
        recognise("models/my-rm-2")


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server whose list of models is the test's parameter."""
    pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(request.param).encode()
            self.send_response(200 if self.path == "/v1/models" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{listening.server_port}/v1"
    listening.shutdown()
    listening.server_close()
    thread.join()


@pytest.mark.parametrize("server", [{"data": [{"id": "org/judge-8b"}]}], indirect=True)
def test_a_server_with_one_model(server: str) -> None:
    found = recognise(f"{server}/")
    assert found.spec == f"judge:org/judge-8b?backend=openai&read=generate&url={server}"


@pytest.mark.parametrize(
    ("server", "said"),
    [({"data": [{"id": "a"}, {"id": "b"}]}, "Say which"), ({"data": []}, "0 models"), ({}, "Cannot read the list")],
    indirect=["server"],
)
def test_a_server_that_does_not_say_which(server: str, said: str) -> None:
    with pytest.raises(CarbError, match=said):
        recognise(server)
