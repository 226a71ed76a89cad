"""Perturbations: RC by rule against hand-made ones, CL, RP and CC held to their definition whatever a model says."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("anyio", reason="needs the extra 'construct'")
pytest.importorskip("lingua", reason="needs the extra 'checks'")

import anyio

from carb_data import BonSet, CarbError, Dataset, Perturbation, load, verification
from carb_data.check import check
from carb_data.construct import EmbedderSpec, ModelSpec
from carb_data.construct.clients import Completion, GenerationError
from carb_data.labels import names_culture
from carb_data.perturb import perturb
from carb_data.unlabel import remove_label

SEED = load("carb-seed@2")
LABELLED = SEED.filter(lambda item: bool(item.perturbed))
MODEL = ModelSpec(model="fake", url="http://localhost:1/v1", price_out=1.0)


def bare(dataset: Dataset) -> Dataset:
    return Dataset(item.model_copy(update={"perturbed": ()}) for item in dataset)


def hand_made(item: BonSet, kind: Perturbation, language: str | None = None) -> str:
    return next(r.text for r in item.perturbed if r.perturbation is kind and language in (None, r.language))


@pytest.mark.parametrize("culture", sorted({item.culture for item in SEED}))
def test_rules_do_to_the_seed_what_its_author_did(culture):
    """Word for word, except German: there the rule says "hier" where an author would turn the sentence round."""
    sets = LABELLED.filter(cultures=[culture])
    made = [remove_label(item.chosen.text, culture, item.language) for item in sets]
    if culture == "german":
        assert all(text is not None and ("hier" in text.lower() or text) for text in made)
    else:
        assert made == [hand_made(item, Perturbation.RC) for item in sets]


def test_rules_work_for_wrong_answers_too():
    for item in LABELLED:
        for response in item.rejected:
            text = remove_label(response.text, item.culture, item.language)
            assert text is not None
            assert not names_culture(text, item.culture)
            assert 0.7 < len(text) / len(response.text) < 1


@pytest.mark.parametrize(
    ("text", "culture", "expected"),
    [
        ("In Germany, shops close on Sunday.", "german", "Shops close on Sunday."),
        ("Shops close on Sunday in Germany.", "german", "Shops close on Sunday."),
        ("Most Japanese people take their shoes off.", "japanese", "Most people take their shoes off."),
        ("Man isst in Japan viel Reis.", "japanese", "Man isst viel Reis."),
        ("No name is in this text.", "german", None),
        ("Germany's shops are closed.", "german", None),
        ("Japan.", "japanese", None),
        ("在中国的高铁上，乘客可以点餐。", "chinese", "在高铁上，乘客可以点餐。"),
        ("中国的高铁上可以点餐。", "chinese", "高铁上可以点餐。"),
        ("乘客可以点餐，在中国的高铁上也一样。", "chinese", "乘客可以点餐，在高铁上也一样。"),
    ],
)
def test_rules_by_example(text, culture, expected):
    language = "de" if text.startswith("Man") else "zh" if text[-1] == "。" else "en"
    assert remove_label(text, culture, language) == expected


@given(st.text(max_size=40), st.sampled_from(["en", "de", "th", "zh", "xx"]))
def test_a_label_is_gone_or_there_is_no_text(noise, language):
    text = remove_label(f"{noise} in Thailand {noise}", "thai", language)
    assert text is None or (not names_culture(text, "thai") and text.strip())


def test_rc_needs_no_model_and_passes_the_checks():
    result = perturb(bare(LABELLED), ["RC"])
    assert result.made == {"RC": len(LABELLED)}
    assert result.failures == ()
    assert result.usage == {}
    assert result.cost == 0
    assert check(result.dataset).findings == ()
    for item in result.dataset:
        (version,) = item.perturbed
        assert (version.original, version.language) == (item.chosen.id, item.language)
        assert version.generator == "rules of carb-data"
    assert perturb(bare(LABELLED), ["RC"]).dataset == result.dataset


def test_what_cannot_be_made_is_listed_and_nothing_is_added():
    unlabelled = SEED.filter(lambda item: not item.perturbed)[:20]
    result = perturb(unlabelled, ["RC"])
    assert result.dataset == unlabelled
    assert result.made == {}
    assert [failure.item_id for failure in result.failures] == [item.id for item in unlabelled]
    assert {failure.reasons for failure in result.failures} == {("its original does not name the culture",)}


class Models:
    """Gets its ``writer`` and ``embedder`` from each test."""


MODELS = Models()


class FakeModel:
    """Writes what the author of the seed wrote, unless ``spoil`` says otherwise."""

    def __init__(self, spoil=lambda attempt, text: text):
        self.spoil, self.asked = spoil, Counter()
        self.texts = {}
        for item in LABELLED:
            for kind, phrase in ((Perturbation.RP, "in other words"), (Perturbation.CC, "Change its one core")):
                self.texts[item.chosen.text, phrase] = hand_made(item, kind)
            if item.culture != "english":
                self.texts[item.chosen.text, "into English"] = hand_made(item, Perturbation.CL, "en")

    async def complete(self, prompt, seed):
        original = prompt.rpartition("\n\n")[2]
        ((_, text),) = [(k, t) for k, t in self.texts.items() if k[0] == original and k[1] in prompt]
        self.asked[prompt] += 1
        spoiled = self.spoil(self.asked[prompt], text)
        if isinstance(spoiled, Exception):
            raise spoiled
        return spoiled if isinstance(spoiled, Completion) else Completion(spoiled, 100, 10, "stop")

    async def aclose(self):
        """Nothing."""


@pytest.fixture
def model(monkeypatch):
    def use(**options) -> FakeModel:
        fake = FakeModel(**options)
        monkeypatch.setattr(MODELS, "writer", lambda spec: fake, raising=False)
        return fake

    return use


def test_what_an_author_wrote_passes_the_verification(model):
    model()
    result = perturb(bare(LABELLED), ["CL", "RP", "CC", "RC"], generator=MODEL, models=MODELS)
    refused = {failure.item_id for failure in result.failures}
    assert {failure.perturbation for failure in result.failures} == {Perturbation.RP}
    assert all("changed in one place only" in reason for failure in result.failures for reason in failure.reasons)
    assert len(refused) == 6
    foreign = sum(item.culture != "english" for item in LABELLED)
    assert result.made == {"CC": len(LABELLED), "CL": foreign, "RC": len(LABELLED), "RP": len(LABELLED) - 6}
    assert result.unverified == {kind: made for kind, made in result.made.items() if kind != "RC"}
    assert result.skipped == {"CL: the set is in that language": len(LABELLED) - foreign}
    assert check(result.dataset).passed
    for before, after in zip(LABELLED, result.dataset, strict=True):
        texts = {(r.perturbation, r.language): r.text for r in after.perturbed}
        assert before.id in refused or texts[Perturbation.RP, before.language] == hand_made(before, Perturbation.RP)
        assert {r.generator for r in after.perturbed} == {"fake", "rules of carb-data"}
    assert result.usage["fake"].calls == foreign + 2 * len(LABELLED) + 3 * len(refused)
    assert result.cost == pytest.approx(result.usage["fake"].calls * 10 / 1e6)


GERMAN = LABELLED.filter(cultures=["german"])
WRONG = {hand_made(item, Perturbation.RP): item.rejected[0].text for item in GERMAN}
CHANGED = {hand_made(item, Perturbation.RP): item.chosen.text.rpartition(" ")[0] + " Tee." for item in GERMAN}


def test_it_can_be_called_where_an_event_loop_runs(model, tmp_path):
    """As in a notebook."""
    model()

    async def cell():
        return perturb(bare(GERMAN), ["RP", "RC"], generator=MODEL, models=MODELS, journal=tmp_path / "within.jsonl")

    found = anyio.run(cell)
    assert found == perturb(
        bare(GERMAN), ["RP", "RC"], generator=MODEL, models=MODELS, journal=tmp_path / "without.jsonl"
    )
    assert found.made == {"RC": len(GERMAN), "RP": len(GERMAN)}


@pytest.mark.parametrize(
    ("kind", "spoil", "reason"),
    [
        ("RP", lambda _, text: "", "empty"),
        ("RP", lambda _, text: "People in Germany go to the lake on Sunday and eat in the evening", "not in 'de'"),
        ("RP", lambda _, text: re.sub("[Dd]eutsch[a-z]*", "Land", text), "no longer names"),
        ("RP", lambda _, text: text * 2, "length"),
        ("CL", lambda _, text: "Hier in Deutschland essen die Leute abends meistens Brot.", "not in 'en'"),
        ("CL", lambda _, text: "People here mostly eat bread in the evening.", "no longer names"),
        ("RP", lambda _, text: Completion(text, 1, 1, "length"), "cut off"),
        ("RP", lambda _, text: GenerationError("status 400"), "the model failed: status 400"),
        ("CC", lambda _, text: "Die Menschen in Deutschland und Deutsche: " + "xyz " * 16, "outside 0.3 to 0.998"),
        ("RP", lambda _, text: WRONG[text], "the same text as a rejected answer"),
        ("RP", lambda _, text: CHANGED[text], "changed in one place only"),
    ],
)  # fmt: skip
def test_what_fails_its_check_is_written_again_and_then_listed(model, kind, spoil, reason):
    fake = model(spoil=spoil)
    result = perturb(bare(GERMAN), [kind], generator=MODEL, models=MODELS, attempts=2)
    assert result.made == {}
    assert result.dataset == bare(GERMAN)
    assert len(result.failures) == len(GERMAN)
    for failure in result.failures:
        assert len(failure.reasons) == 2
    assert any(reason in text for failure in result.failures for text in failure.reasons)
    assert set(fake.asked.values()) == {2}


def test_a_copy_of_the_original_is_no_paraphrase(model):
    originals = {hand_made(item, Perturbation.RP): item.chosen.text for item in GERMAN}
    model(spoil=lambda attempt, text: originals[text].upper() + "!" if attempt == 1 else text)
    result = perturb(bare(GERMAN), ["RP"], generator=MODEL, models=MODELS)
    assert result.made == {"RP": len(GERMAN)}
    assert result.usage["fake"].calls == 2 * len(GERMAN)


def test_versions_that_are_there_are_kept_or_replaced(model):
    model()
    kept = perturb(GERMAN, ["RP", "RC"], generator=MODEL, models=MODELS)
    assert kept.dataset == GERMAN
    assert kept.skipped == {"RC: there already": len(GERMAN), "RP: there already": len(GERMAN)}
    new = perturb(GERMAN, ["RP", "RC"], generator=MODEL, models=MODELS, replace=True).dataset
    assert new != GERMAN
    for item in new:
        assert Counter(r.perturbation for r in item.perturbed) == {"CC": 1, "RC": 1, "RP": 1, "CL": 2}


def test_a_journal_pays_once(model, tmp_path):
    fake = model()
    first = perturb(bare(GERMAN), ["RP", "CC"], generator=MODEL, models=MODELS, journal=tmp_path / "j.jsonl")
    asked = fake.asked.total()
    again = perturb(bare(GERMAN), ["RP", "CC"], generator=MODEL, models=MODELS, journal=tmp_path / "j.jsonl")
    assert fake.asked.total() == asked
    assert again.dataset == first.dataset
    assert again.cost == 0


def test_a_model_that_refuses_everything_ends_it(model):
    model(spoil=lambda _, text: CarbError("no such key"))
    with pytest.raises(CarbError, match="no such key"):
        perturb(GERMAN, ["RP"], generator=MODEL, models=MODELS, replace=True)


@pytest.mark.parametrize(
    ("kinds", "reason"), [(["XX"], "Unknown perturbations"), ([], "Unknown"), (["RC", "RP"], "give a generator")]
)
def test_wrong_use_is_a_plain_error(kinds, reason):
    with pytest.raises(CarbError, match=reason):
        perturb(GERMAN, kinds)


class Meanings:
    """Vectors of what texts mean: a direction for each set, with some of the language's and some of the text's own."""

    def __init__(self):
        self.of = {}
        for item in [i for name in ("carb-seed@2", "carb-seed@2") for i in load(name) if i.perturbed]:
            for text in (item.chosen, *item.perturbed):
                self.of[text.text] = (item.id, text.language)

    async def embed(self, texts):
        return [self._vector(text) for text in texts], 5

    def _vector(self, text):
        means, language = self.of.get(text, (text, ""))
        parts = [(means, 1.0), (language, 3.0), (text, 0.4)]
        drawn = [(random.Random(name), weight) for name, weight in parts]
        return [sum(weight * source.gauss(0, 1) for source, weight in drawn) for _ in range(48)]

    async def aclose(self):
        """Nothing."""


EMBEDDER = EmbedderSpec(kind="openai", model="vectors", url="http://localhost:1/v1")


@pytest.fixture
def meanings(monkeypatch):
    monkeypatch.setattr(MODELS, "embedder", lambda spec: Meanings(), raising=False)
    monkeypatch.setattr(verification, "LEAST_TEXTS", 5)


@pytest.mark.parametrize(
    ("kind", "spoil"),
    [
        ("CL", lambda text: "Germany: sorry, I can't help with that."),
        ("RP", lambda text: "Leider kann ich mit Deutschland und den Deutschen dabei hier und heute nicht helfen."),
        ("RP", lambda text: WRONG[text] + " Wirklich."),
    ],
)
def test_an_embedding_model_verifies_what_it_finds_near(model, meanings, kind, spoil, tmp_path):
    options = {"generator": MODEL, "models": MODELS, "embedder": EMBEDDER, "attempts": 1}
    model()
    good = perturb(bare(GERMAN), [kind], journal=tmp_path / "j.jsonl", **options)
    assert good.made[kind] >= len(GERMAN) - 1
    assert good.unverified == {}
    assert all(version.verified for item in good.dataset for version in item.perturbed)
    assert good.calibration.false_accepts[kind] <= 0.1
    assert good.calibration.false_rejects[kind] <= 0.25
    again = perturb(bare(GERMAN), [kind], journal=tmp_path / "j.jsonl", **options)
    assert again.calibration == good.calibration
    model(spoil=lambda _, text: spoil(text))
    bad = perturb(bare(GERMAN), [kind], **options)
    assert bad.made == {}
    reasons = [reason for failure in bad.failures for reason in failure.reasons]
    assert any("below" in reason or "rejected answer" in reason for reason in reasons)


def test_a_language_without_calibration_is_unverified(model, meanings):
    model()
    result = perturb(bare(GERMAN), ["CL"], generator=MODEL, models=MODELS, embedder=EMBEDDER)
    assert result.calibration.verifies(Perturbation.CL, "de", "en")
    assert not result.calibration.verifies(Perturbation.CL, "de", "fi")


def test_rc_needs_no_extra():
    script = """if True:
        import sys
        for name in ("anyio", "httpx", "lingua", "numpy", "torch"):
            sys.modules[name] = None
        from carb_data import load
        from carb_data.perturb import perturb
        print(perturb(load("carb-seed@2"), ["RC"], replace=True).made)
    """
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.stdout.strip() == "{'RC': 120}", run.stderr
