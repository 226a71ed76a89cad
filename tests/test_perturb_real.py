"""What a real small embedding model verifies, calibrated on the seed: the texts that once passed as versions."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs carb-scorers[hf]")
pytest.importorskip("anyio", reason="needs carb-data[construct]")

import anyio

from carb_data import Dataset, Perturbation, load, verification
from carb_data.construct import Completion, EmbedderSpec, ModelSpec
from carb_data.perturb import perturb
from carb_scorers.models.construction import ConstructionModels

pytestmark = pytest.mark.real

MODEL = ModelSpec(model="planted", url="http://localhost:1/v1")
SETS = Dataset([item for item in load("carb-seed@2") if item.perturbed][5::20])


class Planted:
    """Writes what a test says; embeddings come from the real model."""

    def __init__(self, embedder):
        self.vectors = {}
        self.inner = embedder
        self.says = {}

    def writer(self, spec):
        return self

    def embedder(self, spec):
        return self

    async def complete(self, prompt, seed):
        return Completion(self.says[prompt.rpartition("\n\n")[2]], 1, 1, "stop")

    async def embed(self, texts):
        new = [text for text in texts if text not in self.vectors]
        found, _ = await self.inner.embed(new)
        self.vectors |= dict(zip(new, found, strict=True))
        return [self.vectors[text] for text in texts], 0

    async def aclose(self):
        """The model stays open for the next test."""


@pytest.fixture(scope="module")
def planted(gemma):
    spec = EmbedderSpec(kind="transformers", model=str(gemma))
    models = Planted(ConstructionModels().embedder(spec))
    yield models
    anyio.run(models.inner.aclose)


@pytest.fixture(autouse=True)
def few_texts(monkeypatch):
    monkeypatch.setattr(verification, "EVERY", 16)
    monkeypatch.setattr(verification, "LEAST_TEXTS", 6)


def version(item, kind, language):
    return next(r.text for r in item.perturbed if r.perturbation is kind and r.language == language)


def made(planted, kind, says):
    planted.says = {item.chosen.text: says(item) for item in SETS}
    bare = Dataset(item.model_copy(update={"perturbed": ()}) for item in SETS)
    spec = EmbedderSpec(kind="transformers", model="gemma")
    return perturb(bare, [kind], generator=MODEL, models=planted, embedder=spec, attempts=1, languages=("en",))


def test_hand_made_versions_are_verified(planted):
    rp = made(planted, "RP", lambda item: version(item, Perturbation.RP, item.language))
    assert rp.made["RP"] >= len(SETS) - 2
    assert rp.unverified == {}
    for kind in (Perturbation.RP, Perturbation.CC):
        assert rp.calibration.false_accepts[kind] <= 0.1
        assert rp.calibration.false_rejects[kind] <= 0.25


@pytest.mark.parametrize("kind", ["RP", "CC", "CL"])
def test_a_refusal_is_no_version(planted, kind):
    """One that names the culture besides and is as long as the original is not always told: 2 of 6 passed here."""
    said = made(planted, kind, lambda item: verification.REFUSALS["en" if kind == "CL" else item.language])
    assert said.made == {}


def test_a_rejected_answer_is_no_paraphrase(planted):
    assert made(planted, "RP", lambda item: item.rejected[0].text).made == {}
    assert made(planted, "RP", lambda item: item.rejected[0].text + " " + item.rejected[0].text[:12]).made == {}


def test_a_changed_concept_is_no_paraphrase(planted):
    """Not for certain: one in ten of the seed's is worded anew enough to pass for one."""
    found = made(planted, "RP", lambda item: version(item, Perturbation.CC, item.language))
    assert found.made.get("RP", 0) <= 1
