"""``--embedder-url``: a server of embeddings verifies versions."""

from __future__ import annotations

import json
import random

import pytest

pytest.importorskip("anyio", reason="needs carb-data[construct]")
pytest.importorskip("httpx", reason="needs carb-data[construct]")

from carb_cli.main import main
from carb_data import Dataset, Perturbation, Role, load, verification
from construct_server import chat, serving

SETS = [item for item in load("carb-seed@2") if item.perturbed and item.language == "de"][:3]
KNOWN = {
    text.text: (item.id if text.role is Role.CHOSEN else text.text, text.language)
    for item in load("carb-seed@2")
    if item.perturbed
    for text in (*item.responses, *item.perturbed)
}


def vector(text: str) -> list[float]:
    """A direction for each set, with some of the language's and some of the text's own."""
    means, language = KNOWN.get(text, (text, ""))
    parts = [(random.Random(means), 1.0), (random.Random(language), 3.0), (random.Random(text), 0.4)]
    return [sum(weight * source.gauss(0, 1) for source, weight in parts) for _ in range(48)]


def embedding(number, path, body):
    if not path.endswith("/embeddings"):
        original = body["messages"][0]["content"].rpartition("\n\n")[2]
        return chat(next(version(item, Perturbation.RP) for item in SETS if item.chosen.text == original))
    rows = [{"index": n, "embedding": vector(text)} for n, text in enumerate(body["input"])]
    return 200, {}, json.dumps({"data": rows, "usage": {"prompt_tokens": 3}}).encode()


def version(item, kind, language=None):
    return next(r.text for r in item.perturbed if r.perturbation is kind and r.language == (language or item.language))


@pytest.fixture(autouse=True)
def few_texts(monkeypatch):
    monkeypatch.setattr(verification, "LEAST_TEXTS", 5)


@pytest.fixture
def bare(tmp_path):
    Dataset(item.model_copy(update={"perturbed": ()}) for item in SETS).save(tmp_path / "bare.jsonl")
    return tmp_path / "bare.jsonl"


def test_versions_are_verified_by_a_server(bare, tmp_path, capsys):
    command = ["data", "perturb", str(bare), "--kinds", "RP", "--model", "writer", "--out", str(tmp_path / "out.jsonl")]
    with serving(embedding) as server:
        command += ["--url", server.url, "--embedder", "vectors", "--embedder-url", server.url, "--json", "--quiet"]
        assert main(command) == 0
        asked = [body["model"] for path, body, _ in server.requests if path.endswith("/embeddings")]
    said = json.loads(capsys.readouterr().out)
    assert set(asked) == {"vectors"}
    assert (said["made"], said["unverified"]) == ({"RP": len(SETS)}, {})
    assert said["false_accepts"]["RP"] <= 0.1
    made = [response for item in Dataset.load(tmp_path / "out.jsonl") for response in item.perturbed]
    assert {response.verified for response in made} == {True}


def test_a_reasoning_model_writes_versions(bare, tmp_path, capsys):
    command = ["data", "perturb", str(bare), "--kinds", "RP", "--model", "writer", "--out", str(tmp_path / "out.jsonl")]
    with serving(embedding) as server:
        assert main([*command, "--url", server.url, "--body", '{"max_tokens": null, "temperature": null, "n": 1}']) == 0
        asked = [body for _, body, _ in server.requests]
    assert all(body["n"] == 1 and not {"max_tokens", "temperature"} & set(body) for body in asked)
    assert main([*command, "--url", server.url, "--body", "[]"]) == 2
    assert "--body is no JSON object" in capsys.readouterr().err
