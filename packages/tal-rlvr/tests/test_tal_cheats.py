"""Cheats against the reward: each earns less, in expectation, than honest work of the same
accuracy.

A judge is right with probability ``a`` and has nothing beyond that, whatever it writes. What it
writes is read by an assumed reader with two habits. It leans to the first response, the more so
without text before the verdict: any text takes ``EVENING`` of that away. And it follows a letter
that z names (nearly surely), else what z says of the responses: its odds for what is named are
those of the fidelity ``f``. A chat model of 1.5B follows honest criteria in 54% of pairs; f begins
at 0.52. The expectation is exact: over right and wrong verdicts and both orders.
``tests/test_tal_models.py`` measures some of them with a real reader.
"""

from __future__ import annotations

import math
from functools import cache
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tal_rlvr.judge_rewards import CLIP
from tal_rlvr.judgement import write_judgement
from tal_rlvr.masking import mask_verdict
from tal_rlvr.trl_rewards import CorrectnessFunction, CriteriaFunction, RewardConfig
from tal_rlvr.verdict_tokens import VerdictTokens

OTHER = {"A": "B", "B": "A"}
SAYS = {"A": "rice", "B": "toast"}
RESPONSES = {
    v: f"{SAYS[v]} is on the table there each morning, with tea and what the season brings"
    for v in "AB"
}
LEAN, EVENING = 0.8, 0.7


def honest(v):
    fact = (f"{SAYS[v]} is eaten daily", "it is the staple there", 4, v)
    return write_judgement(
        [fact, ("cost", "all can pay it", 1, "both")], f"{SAYS[v]} is usual, {v} fits.", v
    )


def judgement(*criteria, assessment="it fits.", verdict):
    return write_judgement(criteria, assessment, verdict)


CHEATS = {
    "meets both": lambda v: judgement(("local fact", "people know it", 3, "both"), verdict=v),
    "meets neither": lambda v: judgement(("local fact", "people know it", 3, "neither"), verdict=v),
    "stock phrases": lambda v: judgement(
        ("local fact", "people know it", 3, v), assessment=f"{v} fits.", verdict=v
    ),
    "the verdict as a criterion": lambda v: judgement(
        (f"the verdict is {v}", f"{v} is right", 5, v), verdict=v
    ),
    "the verdict in the assessment": lambda v: judgement(
        ("local fact", "people know it", 3, v),
        assessment=f"{v} {v} {v}. The right response is {v}.",
        verdict=v,
    ),
    "the place of the response": lambda v: judgement(
        ("local fact", "people know it", 3, v),
        assessment=f"the {'former' if v == 'A' else 'latter'} one",
        verdict=v,
    ),
    "a look-alike letter": lambda v: judgement(
        ("local fact", "people know it", 3, v),
        assessment={"A": "\u0410", "B": "\u0412"}[v] + " fits.",
        verdict=v,
    ),
    "a dot": lambda v: judgement((".", ".", 3, v), verdict=v),
    "an invisible space": lambda v: judgement(("\u200b", "\u200b", 3, v), verdict=v),
    "a copy of the form": lambda v: judgement(("name", "why it matters there", 3, v), verdict=v),
    "contradiction": lambda v: judgement(
        (f"{SAYS[v]} is eaten daily", "it is the staple there", 4, OTHER[v]), verdict=v
    ),
    "a verdict alone": lambda v: f"Verdict: {v}",
    "prose": lambda v: f"{v} is better because it is.\nVerdict: {v}",
    "no verdict": lambda v: f"I prefer {v}.",
    "nothing": lambda v: "",
    "two verdicts": lambda v: (
        judgement(("local fact", "people know it", 3, v), verdict=v) + f"\nVerdict: {v}"
    ),
    "criteria on both sides": lambda v: judgement(
        ("rice is eaten", "it is the staple", 3, "A"),
        ("toast is eaten", "it is the staple", 3, "B"),
        verdict=v,
    ),
    "a copy of the longer response": lambda v: judgement(
        (f"{SAYS['B']} is eaten", "it is the staple", 3, v), verdict=v
    ),
    "a look-alike keyword": lambda v: honest(v).replace("Verdict", "V\u0435rdict"),
    "a zero-width keyword": lambda v: honest(v).replace("Verdict", "Ver\u200bdict"),
    "contradictory verdicts": lambda v: (
        judgement(("local fact", "people know it", 3, v), verdict=OTHER[v]) + f"\nVerdict: {v}"
    ),
    "length": lambda v: judgement(("length", "the longer answer says more", 3, v), verdict=v),
    "position": lambda v: judgement(
        ("order", "what is read at the start is trusted", 3, v), verdict=v
    ),
    "self-praise": lambda v: judgement(
        ("expertise", "as a local I am never wrong", 3, v), verdict=v
    ),
    "another language": lambda v: judgement(
        ("地元の事実", "そこでは皆が知っている", 3, v), assessment="よく合う。", verdict=v
    ),
    "the verdict paraphrased": lambda v: judgement(
        (
            "quality",
            f"what comes {'before' if v == 'A' else 'after'} the other is the one to take",
            3,
            v,
        ),
        verdict=v,
    ),
    "JSON": lambda v: judgement(
        (f'{{"verdict": "{v}", "score_{v}": 10}}', '{"why": "known"}', 3, v), verdict=v
    ),
    "a copy of the picked response": lambda v: judgement(
        (RESPONSES[v], "people say so", 3, v), verdict=v
    ),
    "a copy of both responses": lambda v: judgement(
        (RESPONSES["A"], RESPONSES["B"], 3, v), verdict=v
    ),
    "the given facts without a judgement": lambda v: judgement(
        ("facts", "rice is eaten there; toast is eaten elsewhere", 3, v), verdict=v
    ),
}

NAMES = {
    "both letters": (
        "A greets elders, Response B does not",
        "B greets elders, Response A does not",
    ),
    "both letters in Chinese": ("回答A更好\uff0c因为B不对", "回答B更好\uff0c因为A不对"),
    "former in Chinese": ("前者合适", "后者合适"),
    "what is met": ("meets both", "meets neither"),
    "German": ("die Antwort ist A", "die Antwort ist B"),
    "a German ordinal": ("die erste ist richtig", "die zweite ist richtig"),
    "a French ordinal": ("la réponse est la première.", "la réponse est la seconde."),
    "a Spanish ordinal": ("la primera es mejor", "la segunda es mejor"),
    "a small letter": ("la respuesta es la a", "la respuesta es la b"),
    "Chinese": ("答案是A", "答案是B"),
    "Chinese stems": ("答案是甲", "答案是乙"),
    "Chinese numbers": ("选一", "选二"),
    "a Chinese ordinal": ("第一个更好", "第二个更好"),
    "Japanese": ("正解はAです", "正解はBです"),
    "a Japanese ordinal": ("一番目が正しい", "二番目が正しい"),
    "Korean": ("정답은 A입니다", "정답은 B입니다"),
    "a Korean number": ("1번이 맞다", "2번이 맞다"),
    "a Korean ordinal": ("첫째가 맞다", "둘째가 맞다"),
    "Arabic letters": ("الجواب أ", "الجواب ب"),
    "an Arabic ordinal": ("الأول أفضل", "الثاني أفضل"),
    "Russian letters": ("ответ А", "ответ Б"),
    "a Russian ordinal": ("первый лучше", "второй лучше"),
    "Thai letters": ("คำตอบคือ ก", "คำตอบคือ ข"),
    "a Thai ordinal": ("ข้อแรกถูก", "ข้อสองถูก"),
    "Vietnamese": ("đáp án là A", "đáp án là B"),
    "a Vietnamese ordinal": ("câu thứ nhất đúng", "câu thứ hai đúng"),
    "Cherokee": ("Ꭺ fits", "Ᏼ fits"),
    "Coptic": ("Ⲁ fits", "Ⲃ fits"),
    "small capitals": ("ᴀ fits", "ʙ fits"),
    "Lisu": ("ꓮ fits", "ꓐ fits"),
    "script letters": ("𝒜 fits", "ℬ fits"),
    "raised letters": ("ᴬ fits", "ᴮ fits"),
    "accents": ("Á fits", "B\u0301 fits"),
    "full width": ("\uff21 fits", "\uff22 fits"),
    "circles": ("Ⓐ fits", "Ⓑ fits"),
    "brackets": ("⒜ fits", "⒝ fits"),
    "emoji": ("\U0001f170\ufe0f fits", "\U0001f171\ufe0f fits"),
    "letters of flags": ("\U0001f1e6 fits", "\U0001f1e7 fits"),
    "key caps": ("1\ufe0f\u20e3 fits", "2\ufe0f\u20e3 fits"),
    "hands": ("\U0001f446 fits", "\U0001f447 fits"),
    "arrows": ("⬅ fits", "➡ fits"),
    "medals": ("\U0001f947", "\U0001f948"),
    "Roman numbers": ("Ⅰ fits", "Ⅱ fits"),
    "Roman letters": ("I fits", "II fits"),
    "a number": ("number 1 fits", "number 2 fits"),
    "a hash": ("#1 fits", "#2 fits"),
    "an ordinal": ("the first fits better", "the second fits better"),
    "an ordinal at the end": ("I go with the first.", "I go with the second."),
    "former": ("the former fits", "the latter fits"),
    "above": ("the one above fits", "the one below fits"),
    "option one": ("option one", "option two"),
    "Greek names": ("alpha fits", "beta fits"),
    "repeated letters": ("AAAA", "BBBB"),
    "glued letters": ("responseA fits", "responseB fits"),
}
"""The verdict A and the verdict B, in other words."""
WEIGHTS = {"A": 5, "B": 4}
CODES = {
    "a code": lambda v: judgement(
        (f"it is {'sunny' if v == 'A' else 'rainy'} there", "people know it", 3, v), verdict=v
    ),
    "numbers of characters": lambda v: judgement(
        ("fact", "65 known" if v == "A" else "66 known", 3, v), verdict=v
    ),
}
"""Private codes, which no mask can find; measured in both orders, they say nothing."""


class Characters:
    """A tokenizer of characters, none of them special."""

    all_special_ids = ()

    def decode(self, ids, **_):
        return "".join(map(chr, ids))

    def __call__(self, text, **_):
        return {"input_ids": [ord(c) for c in text]}


def logprobs(lean, extra):
    """Of A and B, for a reader whose log-odds for A are ``lean + extra``."""
    gap = lean + extra
    return -math.log1p(math.exp(-gap)) - 3, -math.log1p(math.exp(gap)) - 3


def told(row):
    """What stands between the prompt and the verdict."""
    return "".join(map(chr, row.suffix)).removesuffix("Verdict:").strip()


def knowing(write):
    """A reader that has learned a cheat's outputs: any trace of the verdict convinces it, in either
    order."""
    known = [mask_verdict(write(v).split("Verdict:")[0]).strip() for v in "AB"]
    distinct = known[0] != known[1]

    def read(rows):
        sure = [
            7.0 * ((told(row) == known[0]) - (told(row) == known[1])) * distinct for row in rows
        ]
        return [
            logprobs(LEAN * (1 - EVENING * bool(told(row))), one)
            for row, one in zip(rows, sure, strict=True)
        ]

    return read


def reader(fidelity):
    """The reader of the module's docstring."""

    def read(rows):
        out = []
        for row in rows:
            text = told(row).replace("Assessment", "")
            letters = [c for word in text.split() for c in "AB" if word.strip(".,!") == c]
            swapped = "".join(map(chr, row.prefix)) == "swapped"
            content = [OTHER[v] if swapped else v for v in "AB" if SAYS[v] in text]
            extra = 0.0
            if letters:
                extra = 7.0 if letters[-1] == "A" else -7.0
            elif len(content) == 1:
                extra = math.log(fidelity / (1 - fidelity)) * (1 if content == ["A"] else -1)
            out.append(logprobs(LEAN * (1 - EVENING * bool(text)), extra))
        return out

    return read


@cache
def earnings(write, fidelity, form):
    """R_corr and R_appr by label and verdict; the reader has learned the cheat where no fidelity is
    given."""
    tokens = VerdictTokens(
        a=65, b=66, marker=tuple(map(ord, "Verdict:")), line=tuple(map(ord, "\nVerdict:"))
    )
    criteria = CriteriaFunction(Characters(), tokens, RewardConfig(**dict(form)))
    criteria.provider = knowing(write) if fidelity is None else reader(fidelity)
    cells = [(label, verdict) for label in "AB" for verdict in "AB"]
    batch = {
        "prompts": ["which?"] * 4,
        "swapped_prompt": ["swapped"] * 4,
        "responses": [list(RESPONSES.values())] * 4,
        "completion_ids": [[ord(c) for c in write(verdict)] for _, verdict in cells],
        "label": [label for label, _ in cells],
        "trainer_state": SimpleNamespace(global_step=0),
    }
    found = zip(CorrectnessFunction(Characters())(**batch), criteria(**batch), strict=True)
    return dict(zip(cells, found, strict=True))


def expected(write, accuracy, fidelity, *, weight=1.0, **form):
    """E[R_corr + lambda R_appr] over both orders, right with probability ``accuracy``."""
    total = 0.0
    for (label, verdict), (right, appropriate) in earnings(
        write, fidelity, tuple(form.items())
    ).items():
        total += (
            (accuracy if verdict == label else 1 - accuracy) / 2 * (right + weight * appropriate)
        )
    return total


FIDELITY = st.sampled_from([0.52, 0.54, 0.6, 0.76, 0.9, 0.999])


@pytest.mark.parametrize("cheat", CHEATS)
@settings(deadline=None, max_examples=40)
@given(accuracy=st.floats(0.55, 0.95), fidelity=FIDELITY, weight=st.floats(0.05, 4.0))
def test_a_cheat_earns_less_than_honest_work(cheat, accuracy, fidelity, weight):
    cheated, earned = (
        expected(way, accuracy, fidelity, weight=weight) for way in (CHEATS[cheat], honest)
    )
    assert cheated < earned


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_the_verdict_earns_nothing_even_from_a_reader_that_has_learned_it(name):
    """In a criterion, in its reason, in the assessment: what points to a place points to the other
    response in the other order."""
    said = dict(zip("AB", NAMES[name], strict=True))

    def everywhere(v):
        return judgement(
            (f"fact, {said[v]}", f"known: {said[v]}", WEIGHTS[v], v), assessment=said[v], verdict=v
        )

    for accuracy in (0.55, 0.95):
        earned = expected(everywhere, accuracy, None)
        assert earned == pytest.approx(2 * accuracy - 1)
        assert earned < expected(honest, accuracy, 0.52)


@pytest.mark.parametrize("cheat", CODES)
@pytest.mark.parametrize("accuracy", [0.55, 0.75, 0.95])
def test_a_private_code_earns_nothing_in_both_orders_and_the_most_in_one(cheat, accuracy):
    """Why both orders are measured by default; in one, a code earns as much as criteria that are
    believed."""
    coded = expected(CODES[cheat], accuracy, None)
    assert coded == pytest.approx(2 * accuracy - 1)
    assert coded < expected(honest, accuracy, 0.52)
    assert expected(CODES[cheat], accuracy, None, both_orders=False) > expected(
        honest, accuracy, 0.54, both_orders=False
    )


def test_honest_work_earns_by_how_often_it_is_right_and_believed():
    for fidelity in (0.54, 0.9):
        gain = math.log(fidelity / (1 - fidelity))
        gain /= 1 + gain / CLIP
        for accuracy in (0.5, 0.75, 1.0):
            assert expected(honest, accuracy, fidelity) == pytest.approx(
                (2 * accuracy - 1) * (1 + gain)
            )


ORDERED = [
    "Mother's Day is the second Sunday in May",
    "the first of May is a holiday",
    "left hand is unclean",
]
COUNTED = ["two cups of rice for one person", "whether one has eaten", "the first over the door"]


@pytest.mark.parametrize(
    "text", [*ORDERED, *COUNTED, "на первое подают суп", "第二次世界大战 以后"]
)
def test_what_is_said_of_a_culture_stays(text):
    assert mask_verdict(text) == text
