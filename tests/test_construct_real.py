"""The pipeline with a real small language model, behind a real socket and in the process.

Gemma 3 270M (base) writes poor prose; what is tested is the mechanism: calls, filters, provenance, resumption.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs carb-data[local]")
pytest.importorskip("transformers", reason="needs carb-data[local]")
pytest.importorskip("httpx", reason="needs carb-data[construct]")

import anyio
import torch
import transformers

from carb_data import CarbError, Dataset, Domain, Perturbation, load
from carb_data.construct import Config, EmbedderSpec, ModelSpec, construct, plan
from carb_data.construct.clients import cosine
from carb_data.construct.prompts import Prompts
from carb_data.perturb import perturb
from carb_data.sources.models import Reference
from carb_scorers.models.construction import ConstructionModels

pytestmark = pytest.mark.real

TEXTS = {
    "german": "On Sunday the shops are closed, and people go for a walk or have coffee and cake.",
    "thai": "At Songkran in April people splash each other with water in the street.",
    "spanish": "On New Year's Eve people eat twelve grapes at midnight, one with each stroke of the bell.",
    "japanese": "People take off their shoes at the door and put on slippers in the house.",
}
EXAMPLE = "Text: In the evening people drink tea with milk.\nQuestion: What do people drink in the evening?\n"
PROMPTS = Prompts(
    question=EXAMPLE + "\nText: $reference\nQuestion:",
    answer=EXAMPLE + "Answer: They drink tea with milk.\n\nText: $reference\nQuestion: $question\nAnswer:",
    paraphrase="Text: They drink tea with milk in France.\nThe same in other words: In France, tea is taken with milk."
    "\n\nText: $text\nThe same in other words:",
)

MODELS = ConstructionModels()


class ModelServer(HTTPServer):
    """An OpenAI-compatible server around transformers: ``/completions`` and ``/embeddings``, one request at a time."""

    def __init__(self, folder: Path):
        super().__init__(("127.0.0.1", 0), Handler)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
        self.requests: list[str] = []

    @torch.inference_mode()
    def complete(self, body: dict) -> dict:
        inputs = self.tokenizer(body["prompt"], return_tensors="pt")
        length = inputs["input_ids"].shape[1]
        torch.manual_seed(body["seed"])
        output = self.model.generate(
            **inputs, max_new_tokens=body["max_tokens"], do_sample=True, temperature=body["temperature"]
        )[0, length:]
        text = self.tokenizer.decode(output, skip_special_tokens=True)
        for stop in body.get("stop", []):
            text = text.partition(stop)[0]
        usage = {"prompt_tokens": length, "completion_tokens": len(output)}
        return {"choices": [{"text": text, "finish_reason": "stop"}], "usage": usage}

    @torch.inference_mode()
    def embed(self, body: dict) -> dict:
        rows = []
        for n, text in enumerate(body["input"]):
            inputs = self.tokenizer(text, return_tensors="pt")
            states = self.model(**inputs, output_hidden_states=True, logits_to_keep=1).hidden_states[-1]
            rows.append({"index": n, "embedding": states[0].mean(dim=0).tolist()})
        return {"data": rows, "usage": {"prompt_tokens": 1}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append(self.path)
        content = json.dumps((self.server.embed if "embed" in self.path else self.server.complete)(body)).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = True  # one thread serves all: it must not wait for the next request of this client

    def log_message(self, *_):
        """Quiet."""


@pytest.fixture(scope="module")
def server(gemma):
    serving = ModelServer(gemma)
    thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield serving
    serving.shutdown()
    thread.join()
    serving.server_close()


@pytest.fixture
def references(tmp_path) -> Path:
    path = tmp_path / "references.jsonl"
    rows = [
        Reference(
            id=culture, culture=culture, domain=Domain.COMMONSENSE, language="en", text=text,
            provenance={"source": "test", "license": "CC0-1.0", "method": "authored"},
        )
        for culture, text in TEXTS.items()
    ]  # fmt: skip
    path.write_text("\n".join(row.model_dump_json() for row in rows), encoding="utf-8")
    return path


def check_sets(path: Path, model: str) -> None:
    (item,) = Dataset.load(path)
    assert {response.culture for response in item.responses} == set(TEXTS)
    assert len({response.text for response in item.responses}) == 4
    assert {response.generator for response in item.responses} == {model}
    steps = json.loads(item.provenance.notes)["steps"]
    assert [step["step"] for step in steps] == ["question", "chosen", "rejected-1", "rejected-2", "rejected-3"]
    assert all(-1 <= step["similarity"] <= 1 for step in steps[2:])
    assert all(TEXTS[step["references"][0]] in step["prompt"] for step in steps)


def test_a_real_model_behind_a_real_socket(server, references, tmp_path):
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    model = ModelSpec(
        model="gemma", url=url, chat=False, max_tokens=16, stop=("\n",), price_in=1.0, price_out=2.0, concurrency=1
    )
    config = Config(
        references=references, question=model, chosen=model, rejected=(model,), prompts=PROMPTS, limit=1, attempts=8,
        embedder=EmbedderSpec(kind="openai", model="gemma", url=url), window=(0.0, 0.99999), length_ratio=20,
        check_language=False,
    )  # fmt: skip
    planned = plan(config)
    assert server.requests == []
    report = construct(config, tmp_path / "sets.jsonl", models=MODELS)
    assert report.built == 1
    check_sets(tmp_path / "sets.jsonl", "gemma")
    assert sum(step.least_calls for step in planned.steps) <= server.requests.count("/v1/completions")
    assert 0 < report.cost <= planned.most_cost + 1e-3
    first, asked = (tmp_path / "sets.jsonl").read_bytes(), len(server.requests)
    again = construct(config, tmp_path / "sets.jsonl", models=MODELS)
    assert len(server.requests) == asked
    assert again.cost == 0
    assert (tmp_path / "sets.jsonl").read_bytes() == first
    german = load("carb-seed@2").filter(lambda item: bool(item.perturbed), cultures=["english"])[:1]
    result = perturb(german, ["RP"], generator=model, models=MODELS, replace=True, attempts=2)
    assert result.made.get("RP", 0) + len(result.failures) == 1  # what a base model writes may fail, and is then listed
    assert len(result.dataset[0].perturbed) == len(german[0].perturbed)
    assert sum(r.perturbation is Perturbation.RP for r in result.dataset[0].perturbed) == 1


def test_a_real_model_in_the_process(gemma, references, tmp_path):
    model = ModelSpec(kind="transformers", model=str(gemma), chat=False, max_tokens=16, stop=("\n",))
    config = Config(
        references=references, question=model, chosen=model, rejected=(model,), prompts=PROMPTS, limit=1, attempts=8,
        window=(0.0, 0.99999), length_ratio=20, accept_cut_off=True, check_language=False,
    )  # fmt: skip
    report = construct(config, tmp_path / "sets.jsonl", models=MODELS)
    assert report.built == 1
    check_sets(tmp_path / "sets.jsonl", str(gemma))
    assert report.usage[str(gemma)].completion_tokens > 0


async def twice(gemma: Path) -> None:
    client = MODELS.writer(ModelSpec(kind="transformers", model=str(gemma), chat=False, max_tokens=5))
    first, again, other = [await client.complete("In the morning", seed) for seed in (1, 1, 2)]
    assert first == again != other
    assert (first.prompt_tokens, first.completion_tokens, first.finish) == (4, 5, "length")
    with pytest.raises(CarbError, match="no chat template"):
        await MODELS.writer(ModelSpec(kind="transformers", model=str(gemma))).complete("Hello", 1)
    embedder = MODELS.embedder(EmbedderSpec(kind="transformers", model=str(gemma)))
    texts = ["People eat rice.", "People eat bread.", "The parliament sits in the old town."]
    vectors, tokens = await embedder.embed(texts)
    ((alone,), _) = await embedder.embed(texts[1:2])
    assert alone == vectors[1]
    assert tokens > 10
    assert cosine(vectors[0], vectors[1]) > cosine(vectors[0], vectors[2])


def test_local_models_depend_on_prompt_and_seed_alone(gemma):
    anyio.run(twice, gemma)
