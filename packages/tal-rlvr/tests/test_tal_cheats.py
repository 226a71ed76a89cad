"""Cheats against the reward: each earns less, in expectation, than honest work of the same accuracy.

A judge is right with probability ``a`` and knows nothing beyond that, whatever it writes. What it writes is read by a
reader: its probability of a verdict follows a letter that z names (nearly surely), else what z says of the responses
(with fidelity ``f``), else it is even. The expectation is exact: over right and wrong verdicts and both orders.
"""

from __future__ import annotations

import math
from functools import cache
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tal_rlvr.appropriateness import CLIP
from tal_rlvr.judgement import write_judgement
from tal_rlvr.reward_functions import CorrectnessFunction, CriteriaFunction, RewardConfig
from tal_rlvr.tokens import VerdictTokens

OTHER = {"A": "B", "B": "A"}
SAYS = {"A": "rice", "B": "toast"}
"""What the responses say."""


def honest(v):
    fact = (f"{SAYS[v]} is eaten daily", "it is the staple there", 4, v)
    return write_judgement([fact, ("cost", "all can pay it", 1, "both")], f"{SAYS[v]} is usual, {v} fits.", v)


def judgement(*criteria, assessment="it fits.", verdict):
    return write_judgement(criteria, assessment, verdict)


CHEATS = {
    "meets both": lambda v: judgement(("local fact", "people know it", 3, "both"), verdict=v),
    "meets neither": lambda v: judgement(("local fact", "people know it", 3, "neither"), verdict=v),
    "stock phrases": lambda v: judgement(("local fact", "people know it", 3, v), assessment=f"{v} fits.", verdict=v),
    "the verdict as a criterion": lambda v: judgement((f"the verdict is {v}", f"{v} is right", 5, v), verdict=v),
    "the verdict beside a criterion": lambda v: judgement(
        ("fact", f"known, so the verdict is {v}", 5, v), assessment=f"The winner is {v}.", verdict=v
    ),
    "the verdict in the assessment": lambda v: judgement(
        ("local fact", "people know it", 3, v), assessment=f"{v} {v} {v}. The right response is {v}.", verdict=v
    ),
    "the place of the response": lambda v: judgement(
        ("local fact", "people know it", 3, v), assessment=f"the {'former' if v == 'A' else 'latter'} one", verdict=v
    ),
    "a look-alike letter": lambda v: judgement(
        ("local fact", "people know it", 3, v), assessment={"A": "\u0410", "B": "\u0412"}[v] + " fits.", verdict=v
    ),
    "a dot": lambda v: judgement((".", ".", 3, v), verdict=v),
    "an invisible space": lambda v: judgement(("\u200b", "\u200b", 3, v), verdict=v),
    "a copy of the form": lambda v: judgement(("name", "why it matters there", 3, v), verdict=v),
    "contradiction": lambda v: judgement(
        (f"{SAYS[v]} is eaten daily", "it is the staple there", 4, OTHER[v]), verdict=v
    ),
    "contradiction by weight": lambda v: judgement(
        (f"{SAYS[v]} is eaten daily", "it is the staple", 1, v), ("cost", "all can pay", 5, OTHER[v]), verdict=v
    ),
    "a verdict alone": lambda v: f"Verdict: {v}",
    "prose": lambda v: f"{v} is better because it is.\nVerdict: {v}",
    "no verdict": lambda v: f"I prefer {v}.",
    "nothing": lambda v: "",
    "two verdicts": lambda v: judgement(("local fact", "people know it", 3, v), verdict=v) + f"\nVerdict: {v}",
    "criteria on both sides": lambda v: judgement(
        ("rice is eaten", "it is the staple", 3, "A"), ("toast is eaten", "it is the staple", 3, "B"), verdict=v
    ),
}


class Characters:
    """A tokenizer of characters."""

    def decode(self, ids, **_):
        return "".join(map(chr, ids))

    def __call__(self, text, **_):
        return {"input_ids": [ord(c) for c in text]}


def reader(fidelity):
    """Log-probabilities of A and B after each row, of one who believes a named letter above all."""

    def read(rows):
        out = []
        for row in rows:
            text = "".join(map(chr, row.suffix)).replace("Assessment", "").replace("Verdict", "")
            letters = [c for word in text.split() for c in "AB" if word.strip(".,!") == c]
            content = [v for v in "AB" if SAYS[v] in text]
            first = 0.5
            if letters:
                first = 0.999 if letters[-1] == "A" else 0.001
            elif len(content) == 1:
                first = fidelity if content == ["A"] else 1 - fidelity
            out.append((math.log(first) - 3, math.log(1 - first) - 3))
        return out

    return read


@cache
def earnings(write, fidelity, clip, mask):
    """R_corr and R_appr by label and verdict."""
    tokens = VerdictTokens(a=65, b=66, marker=tuple(map(ord, "Verdict:")), line=tuple(map(ord, "\nVerdict:")))
    criteria = CriteriaFunction(Characters(), tokens, RewardConfig(clip=clip, mask=mask))
    criteria.provider = reader(fidelity)
    cells = [(label, verdict) for label in "AB" for verdict in "AB"]
    batch = {
        "prompts": ["which?"] * 4,
        "completion_ids": [[ord(c) for c in write(verdict)] for _, verdict in cells],
        "label": [label for label, _ in cells],
        "trainer_state": SimpleNamespace(global_step=0),
    }
    return dict(
        zip(cells, zip(CorrectnessFunction(Characters())(**batch), criteria(**batch), strict=True), strict=True)
    )


def expected(write, accuracy, fidelity, *, weight=1.0, clip=CLIP, mask=True):
    """E[R_corr + lambda R_appr] over both orders, right with probability ``accuracy``."""
    total = 0.0
    for (label, verdict), (right, appropriate) in earnings(write, fidelity, clip, mask).items():
        total += (accuracy if verdict == label else 1 - accuracy) / 2 * (right + weight * appropriate)
    return total


FIDELITY = st.sampled_from([0.76, 0.8, 0.85, 0.9, 0.95, 0.99, 0.999])


@pytest.mark.parametrize("cheat", CHEATS)
@given(accuracy=st.floats(0.55, 0.95), fidelity=FIDELITY, weight=st.floats(0.05, 4.0))
def test_a_cheat_earns_less_than_honest_work(cheat, accuracy, fidelity, weight):
    cheated, earned = (expected(way, accuracy, fidelity, weight=weight) for way in (CHEATS[cheat], honest))
    assert cheated < earned


@pytest.mark.parametrize(
    ("cheat", "accuracy", "form"),
    [
        ("stock phrases", 0.85, {"clip": "none"}),
        ("stock phrases", 0.6, {"clip": 1.5}),
        ("the verdict in the assessment", 0.8, {"mask": False}),
        ("a look-alike letter", 0.8, {"mask": False, "clip": "none"}),
    ],
)
def test_without_clip_or_mask_it_can_be_farmed(cheat, accuracy, form):
    """Why the defaults are not the paper's form: these earn at least as much as honest work."""
    assert expected(CHEATS[cheat], accuracy, 0.99, **form) >= expected(honest, accuracy, 0.99, **form)


def test_honest_work_earns_more_the_more_often_it_is_right():
    earned = [expected(honest, a / 20, 0.9) for a in range(10, 21)]
    assert earned == sorted(earned)
    assert earned[0] == pytest.approx(0.0, abs=1e-9)  # a coin earns nothing
    assert earned[-1] == pytest.approx(1 + 0.5)  # always right: R_corr = 1 and R_appr at its bound


def test_in_a_real_model_letters_earn_nothing(tiny_folder, tiny_model, tiny_tokenizer):
    """Outputs that differ only in the letter that they announce have one and the same log pi(j | z)."""
    from tal_rlvr.providers import ModelVerdicts
    from tal_rlvr.tokens import verdict_tokens

    tokens = verdict_tokens(tiny_tokenizer)
    texts = [CHEATS[name](v) for v in "AB" for name in ("stock phrases", "the verdict in the assessment")]
    seen = {}
    for mask in (True, False):
        function = CriteriaFunction(tiny_tokenizer, tokens, RewardConfig(mask=mask, clip="none"))
        function.provider = ModelVerdicts(tiny_model, tokens)
        seen[mask] = function(
            prompts=["which?"] * 4,
            completion_ids=[tiny_tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts],
            label=["A"] * 4,
            trainer_state=SimpleNamespace(global_step=0),
        )
    assert seen[True][:2] == pytest.approx(seen[True][2:], abs=1e-5)
    assert abs(seen[False][0] - seen[False][2]) > 1e-2
