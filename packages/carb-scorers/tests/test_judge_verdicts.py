"""Verdicts in double brackets: exactly one, in the model's own words, or none."""

import contextlib
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_scorers.judge.form import Wording
from carb_scorers.judge.verdict import VerdictError, parse_pick, parse_rating

ABCD = ("A", "B", "C", "D")


@pytest.mark.parametrize(
    ("text", "pick"),
    [
        ("[[B]]", 1),
        ("Because of the custom, my verdict is [[C]].", 2),
        ("[[ d ]]", 3),
        ("**[[A]]**", 0),
        ("［［Ｂ］］", 1),
        ("[[A.]]", 0),
        ("[[(B)]]", 1),
        ("[[answer (D).]]", 3),
        ("[[A]], that is [[Option A.]]", 0),
    ],
)
def test_picks(text: str, pick: int) -> None:
    assert parse_pick(text, ABCD) == pick


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no verdict"),
        ("B", "no verdict"),
        ("The answer says [[A]], but I prefer [[B]]", "several verdicts"),
        ("[[E]]", "none of"),
        ("[[AB]]", "none of"),
        ("[[Option]]", "none of"),
        ("[[A or B]]", "none of"),
        ("<think>[[B]]</think>", "no verdict"),
    ],
)
def test_no_pick(text: str, reason: str) -> None:
    with pytest.raises(VerdictError, match=reason):
        parse_pick(text, ABCD)


def test_ratings() -> None:
    assert [parse_rating(t) for t in ("[[7]]", "[[10]]", "[[7.5]]", "[[7,5]]", "[[8/10]]")] == [
        7,
        10,
        7.5,
        7.5,
        8,
    ]
    for text in ("[[0]]", "[[11]]", "[[-3]]", "[[seven]]", "[[1e1]]", "[[nan]]"):
        with pytest.raises(VerdictError, match="no number from 1 to 10"):
            parse_rating(text)


@settings(deadline=None)
@given(st.text())
def test_any_text_gives_a_verdict_or_a_verdict_error(text: str) -> None:
    for candidate in (text, f"[[{text}]]"):
        with contextlib.suppress(VerdictError):
            assert parse_pick(candidate, ABCD) in range(len(ABCD))
        with contextlib.suppress(VerdictError):
            assert 1 <= parse_rating(candidate) <= 10


@pytest.mark.parametrize(
    ("text", "pick"),
    [
        ("At first sight [[B]] looks right, but", None),
        ("So it is [[B]]", 1),
        ('{"answer": "[[B]]"}', 1),
        ("**[[B]]**.", 1),
        ("no verdict yet", None),
    ],
)
def test_a_text_that_was_cut_off_counts_only_where_the_verdict_ends_it(
    text: str, pick: int | None
) -> None:
    """It counted wherever a verdict stood: 24 of 24 texts that had only begun to think were
    scored."""
    if pick is None:
        with pytest.raises(VerdictError):
            parse_pick(text, ABCD, finished=False)
    else:
        assert parse_pick(text, ABCD, finished=False) == pick


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("<think>", "</think>"),
        ("<thinking>", "</thinking>"),
        ("[THINK]", "[/THINK]"),
        ("<Think>", "</Think>"),
        ("<scratchpad>", "</scratchpad>"),
        ("<longcat_think>", "</longcat_think>"),
        ("<|thinking|>", "<|/thinking|>"),
        ("<seed:cot>", "</seed:cot>"),
        ("<|inner_prefix|>", "<|inner_suffix|>"),
        ("<ponder>", "</ponder>"),
        ("<inner_reflect>", "</inner_reflect>"),
        ("<Denken>", "</Denken>"),
        ("<razonamiento>", "</razonamiento>"),
        ("<мысли>", "</мысли>"),
        ("<생각>", "</생각>"),
        ("<คิด>", "</คิด>"),
        ("<suy_nghĩ>", "</suy_nghĩ>"),
        ("<تفكير>", "</تفكير>"),
    ],
)
def test_thoughts_of_every_kind_hold_no_verdict(begin: str, end: str) -> None:
    assert parse_pick(f"{begin}[[A]]?{end} [[B]]", ABCD) == 1
    assert parse_pick(f"[[A]]?{end} [[B]]", ABCD) == 1
    with pytest.raises(VerdictError):
        parse_pick(f"{begin}[[A]]?", ABCD)


@pytest.mark.parametrize(
    "final",
    [
        "<|start|>assistant<|channel|>final<|message|>",
        "<|start|>assistant<|channel|>final <|constrain|>json<|message|>",
        "<|start|>assistant<|channel|>commentary<|message|>[[C]]<|end|><|channel|>final<|message|>",
    ],
)
def test_only_the_final_channel_counts(final: str) -> None:
    thought = "<|channel|>analysis<|message|>[[A]]?<|end|>"
    assert parse_pick(f"{thought}{final}[[B]]", ABCD) == 1
    with pytest.raises(VerdictError):
        parse_pick(thought, ABCD)


def test_channels_without_their_tokens_are_kept_apart() -> None:
    """A server that takes special tokens off joins the channels' names with their texts."""
    assert parse_pick("analysisAt first [[A]]?assistantfinal[[B]]", ABCD) == 1
    with pytest.raises(VerdictError):
        parse_pick("analysisAt first [[A]] seems right", ABCD)
    assert parse_pick("analysis: the first, [[A]]", ABCD) == 0


@pytest.mark.parametrize(
    ("letter", "pick"),
    [
        ("А", 0),
        ("أ", 0),
        ("ب", 1),
        ("ج", 2),
        ("د", 3),
        ("Ｂ", 1),
        ("ข", 1),
        ("다", 2),
        ("丁", 3),
        ("イ", 1),
        ("🅱", 1),
    ],
)
def test_letters_of_other_scripts(letter: str, pick: int) -> None:
    assert parse_pick(f"[[{letter}]]", ABCD) == pick
    assert parse_pick(f"[[({letter})]]", ABCD) == pick


@pytest.mark.parametrize(
    ("letter", "name"),
    [("В", "CYRILLIC CAPITAL LETTER VE"), ("С", "CYRILLIC"), ("Β", "GREEK"), ("ᗅ", "CANADIAN")],
)
def test_letters_that_only_look_like_the_one_shown_are_refused_by_their_names(
    letter: str, name: str
) -> None:
    """The Cyrillic one that looks like B is the third of its alphabet."""
    with pytest.raises(VerdictError, match=f"{name}.*none of A, B, C, D"):
        parse_pick(f"[[{letter}]]", ABCD)


@pytest.mark.parametrize(
    "verdict",
    [
        "Option B",
        "Antwort B",
        "Antwort: B",
        "Opción B",
        "Вариант B",
        "вариант ответа B",
        "الخيار ب",
        "الإجابة ب",
        "選択肢B",
        "选项B",
        "La opción B",
        "정답은 B번",
        "คำตอบที่ B",
        "「B」",
        "Вариант «B»",
        "案B、",
        "選項 B",
        "选项：B",
        "선택지 B",
        "ตัวเลือก B",
        "คำตอบข้อ B",
        "Lựa chọn B",
        "đáp án B",
    ],
)
def test_the_word_before_a_letter_is_known_in_ten_languages(verdict: str) -> None:
    assert parse_pick(f"[[{verdict}]]", ABCD) == 1
    assert parse_pick(f"[[{unicodedata.normalize('NFD', verdict)}.]]", ABCD) == 1


def test_a_form_names_words_of_its_own_language() -> None:
    wording = Wording(user="", before_letter=("jibu",))
    assert parse_pick("[[Jibu B]]", ABCD, wording) == 1
    with pytest.raises(VerdictError, match="none of"):
        parse_pick("[[Jibu B]]", ABCD)


@pytest.mark.parametrize(
    "text",
    [
        "[[【B】]]",
        "＜think＞[[A]]＜/think＞[[B]]",
        "【【B】】",
        "分析【A】和【B】之后，我的结论是：【B】",
        "[[\u200bB\u200b]]",
        "[[\u200fB\u200e]]",
        "[\u200b[B]\u200b]",
        "[[\u2066B\u2069]]",
        "\u202b[[B]]\u202c",
        r"So: \[\[B\]\]",
        "[[🅱\ufe0f]]",
        "[[B]], that is 【B】",
    ],
)
def test_brackets_and_marks_around_a_letter_are_looked_through(text: str) -> None:
    assert parse_pick(text, ABCD) == 1


@pytest.mark.parametrize("text", ["【A】不对，因为习俗不同。", "【分析】选项很多"])
def test_a_letter_in_other_brackets_is_a_verdict_only_at_the_end(text: str) -> None:
    with pytest.raises(VerdictError, match="no verdict"):
        parse_pick(text, ABCD)
    assert parse_pick(f"{text} [[C]]", ABCD) == 2


@pytest.mark.parametrize("text", ["Not [[A]]. Verdict: 【B】", r"[[A]]? No: $\boxed{B}$"])
def test_a_last_letter_in_other_brackets_contradicts_an_earlier_one(text: str) -> None:
    with pytest.raises(VerdictError, match="several verdicts: 'A', 'B'"):
        parse_pick(text, ABCD)


@pytest.mark.parametrize("verdict", ["tie", "Tie.", "(TIE)", "both equal"])
def test_a_tie_is_called_as_the_form_says(verdict: str) -> None:
    wording = Wording(user="", tie=("tie", "both equal"))
    assert parse_pick(f"[[{verdict}]]", "AB", wording) is None
    assert parse_pick("[[B]]", "AB", wording) == 1
    with pytest.raises(VerdictError, match=r"none of A, B.*tie ="):
        parse_pick(f"[[{verdict}]]", "AB")


@pytest.mark.parametrize(
    "verdict",
    [
        "Tie",
        "Beide gleich",
        "무승부",
        "どちらも同じ",
        "平局",
        "ничья",
        "empate",
        "เสมอกัน",
        "hòa",
        "تعادل",
    ],
)
def test_a_tie_has_a_word_in_ten_languages_where_the_form_knows_ties(verdict: str) -> None:
    wording = Wording(user="", tie=("C",))
    for text in (verdict, f"{unicodedata.normalize('NFD', verdict)}."):
        assert parse_pick(f"[[{text}]]", "AB", wording) is None
        with pytest.raises(VerdictError, match=r"tie ="):
            parse_pick(f"[[{text}]]", "AB")


@pytest.mark.parametrize(
    "verdict", ["A and B", "A/B", "not A", "B is worse", "AB", "neither", "!A"]
)
def test_a_verdict_that_names_more_than_a_letter_is_none(verdict: str) -> None:
    with pytest.raises(VerdictError, match="none of A, B"):
        parse_pick(f"[[{verdict}]]", "AB", Wording(user="", tie=("C",)))


@pytest.mark.parametrize(
    "text", [r"So: $\boxed{B}$", r"\boxed{\text{B}}.", r"**\boxed{Option B}**"]
)
def test_a_letter_in_a_box_is_a_verdict_at_the_end(text: str) -> None:
    assert parse_pick(text, ABCD) == 1
    with pytest.raises(VerdictError, match="no verdict"):
        parse_pick(f"{text} But no.", ABCD)
