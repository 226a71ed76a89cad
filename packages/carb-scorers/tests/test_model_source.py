"""Names of models: folders and hub ids, and a hub that does not answer."""

from __future__ import annotations

import socket

import pytest

from carb_data import CarbError
from carb_scorers.models.source import model_source

constants = pytest.importorskip("huggingface_hub.constants", reason="needs the extra carb-scorers[hf]")


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub on loopback: set its address."""
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    return lambda port: monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")


def test_a_hub_that_does_not_answer_is_asked_once(hub, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        hub(port)
        assert model_source("owner/name") == "owner/name"
    with pytest.raises(CarbError, match=f"'owner/name' is not in the local cache.*:{port} cannot be reached.*folder"):
        model_source("owner/name")
    cached = tmp_path / "models--owner--name" / "snapshots" / "0"
    cached.mkdir(parents=True)
    (cached / "config.json").write_text("{}")
    assert model_source("owner/name") == "owner/name"


@pytest.mark.parametrize("name", ["nowhere", "a/b/c", "../there"])
def test_what_is_no_folder_and_no_hub_id_is_refused(name):
    with pytest.raises(CarbError, match=f"no model folder '{name}'"):
        model_source(name)
