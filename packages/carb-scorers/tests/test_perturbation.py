"""Perturbations are held to their definition whatever a model says."""

from __future__ import annotations

import re
from collections import Counter

import pytest

pytest.importorskip("lingua", reason="needs carb-data[checks]")
pytest.importorskip("sklearn", reason="needs carb-data[checks]")

from carb_data import BonSet, CarbError, Perturbation, load
from carb_data.surface import names_culture
from carb_scorers.generate import perturb
from carb_scorers.generate.perturbation import ATTEMPTS
from carb_scorers.models.protocol import Failure, Generation
from carb_scorers.scorer import ScoreError

LABELLED = load("carb-seed").filter(
    lambda item: bool(item.perturbed) and names_culture(item.chosen.text, item.culture)
)
GERMAN = LABELLED.filter(cultures=["german"])


def hand_made(item: BonSet, kind: Perturbation, language: str | None = None) -> str:
    return next(
        r.text for r in item.perturbed if r.perturbation is kind and language in (None, r.language)
    )


def reworded(item: BonSet) -> str:
    """The hand-made paraphrases change little; the words of this one are turned round until it
    begins and ends in others than the answer."""
    words = hand_made(item, Perturbation.RP).rstrip(".").split()[::-1]
    answer = item.chosen.text.rstrip(".").split()
    while words[0] == answer[0] or words[-1] == answer[-1]:
        words = [*words[1:], words[0]]
    return " ".join(words)


class FakeModel:
    """Writes good versions, unless ``spoil`` says otherwise."""

    def __init__(self, spoil=lambda attempt, text: text):
        self.spoil, self.asked = spoil, Counter()
        self.texts = {}
        for item in LABELLED:
            self.texts[item.chosen.text, "in other words"] = reworded(item)
            self.texts[item.chosen.text, "without the names"] = hand_made(item, Perturbation.RC)
            self.texts[item.chosen.text, "Change its one core"] = hand_made(item, Perturbation.CC)
            if item.language != "en":
                self.texts[item.chosen.text, "into English"] = hand_made(
                    item, Perturbation.CL, "en"
                )

    async def generate(self, prompts, writing):
        (prompt,) = (prompt.messages[0].content for prompt in prompts)
        original = prompt.rpartition("\n\n")[2]
        ((_, text),) = [
            (k, t) for k, t in self.texts.items() if k[0] == original and k[1] in prompt
        ]
        self.asked[prompt] += 1
        spoiled = self.spoil(self.asked[prompt], text)
        return [Generation(spoiled) if isinstance(spoiled, str) else spoiled]

    async def aclose(self):
        """Nothing."""


WRITER = "given:model"


@pytest.fixture
def model(backend):
    def use(**options) -> FakeModel:
        fake = FakeModel(**options)
        assert backend(fake) == WRITER
        return fake

    return use


def test_what_an_author_wrote_passes_and_is_kept(model, tmp_path):
    fake = model()
    made, report = perturb(
        GERMAN.without_perturbed(), ["CL", "RP", "CC", "RC"], WRITER, store=tmp_path / "s.jsonl"
    )
    assert report.made["RP"] == len(GERMAN), report.given_up
    assert set(report.made) == {"CL", "RP", "CC", "RC"}
    for before, after in zip(GERMAN, made, strict=True):
        texts = {(r.perturbation, r.language): r for r in after.perturbed}
        for (kind, language), version in texts.items():
            if kind is not Perturbation.RP:
                assert version.text == hand_made(before, kind, language)
            assert (version.generator, version.verified) == (WRITER, False)
    asked = fake.asked.total()
    assert (
        perturb(
            GERMAN.without_perturbed(),
            ["CL", "RP", "CC", "RC"],
            WRITER,
            store=tmp_path / "s.jsonl",
        )[0]
        == made
    )
    assert fake.asked.total() == asked
    kept, report = perturb(GERMAN, ["RP"], WRITER)
    assert (kept, report.made) == (GERMAN, {})
    assert report.skipped == {"RP: there already": len(GERMAN)}


WRONG = {reworded(item): item.rejected[0].text for item in GERMAN}
CHANGED = {reworded(item): item.chosen.text.rpartition(" ")[0] + " Tee." for item in GERMAN}
SAME = {reworded(item): item.chosen.text.upper() + "!" for item in GERMAN}


@pytest.mark.parametrize(
    ("kind", "spoil", "reason"),
    [
        ("RP", lambda _, text: "", "empty"),
        (
            "RP",
            lambda _, text: "People in Germany go to the lake on Sunday and eat in the evening",
            "not in 'de'",
        ),
        (
            "RP",
            lambda _, text: re.sub("(?i)(deutsch|österreich|schweiz)[a-z]*", "Land", text),
            "no longer names",
        ),
        (
            "RC",
            lambda _, text: text + " In Deutschland, Österreich und der Schweiz.",
            "still names",
        ),
        ("RP", lambda _, text: text * 2, "length"),
        ("RP", lambda _, text: SAME[text], "the same text as its original"),
        (
            "CL",
            lambda _, text: "Hier in Deutschland essen die Leute abends meistens Brot.",
            "not in 'en'",
        ),
        ("RP", lambda _, text: Generation(text, finished=False), "cut off"),
        (
            "RP",
            lambda _, text: Failure(ScoreError(kind="http", message="status 400")),
            "the model failed: status 400",
        ),
        (
            "CC",
            lambda _, text: (
                "Die Menschen in Deutschland und Österreich und der Schweiz: " + "xyz " * 16
            ),
            "outside",
        ),
        ("RP", lambda _, text: WRONG[text], "the same text as a rejected answer"),
        ("RP", lambda _, text: CHANGED[text], "changed in one place only"),
    ],
)
def test_what_fails_its_check_is_written_again_and_then_listed(model, kind, spoil, reason):
    fake = model(spoil=spoil)
    some = GERMAN[:4]
    made, report = perturb(some.without_perturbed(), [kind], WRITER)
    assert (made, report.made) == (some.without_perturbed(), {})
    assert [len(failure.reasons) for failure in report.given_up] == [ATTEMPTS] * len(some)
    assert any(reason in text for failure in report.given_up for text in failure.reasons)
    assert set(fake.asked.values()) == {ATTEMPTS}


def test_wrong_use_is_a_plain_error():
    for kinds in (["XX"], []):
        with pytest.raises(CarbError, match="Unknown perturbations"):
            perturb(GERMAN, kinds, WRITER)
    with pytest.raises(CarbError, match="cannot write"):
        perturb(GERMAN[:1].without_perturbed(), ["RP"], "baseline:length")
