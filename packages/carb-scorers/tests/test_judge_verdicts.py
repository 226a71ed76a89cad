"""Verdicts in double brackets: exactly one, in the model's own words, or none."""

import contextlib
import json
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_scorers.judge.form import Wording, read_form
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
        ("<|think:start|>", "<|think:end|>"),
        ("<|think|>", "<|end|><|begin|>assistant<|content|>"),
        ("<|open|>think<|sep|>", "<|close|>think<|sep|><|open|>response<|sep|>"),
        ("to=self<|message|>", "<|eom|><|start|>assistant to=user<|message|>"),
        ("[unused16]", "[unused17]"),
        ("Here are my reasoning steps:\n", "\n[BEGIN FINAL RESPONSE]\n"),
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
        ("ㄴ", 1),
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
        "Option-B",
        "assistant_B",
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
        "和局",
        "互角",
        "동률",
        "it's a tie",
        "gleichwertig",
        "tablas",
        "равенство",
        "ไม่ต่างกัน",
        "ngang bằng",
        "لا فرق",
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
    "text", [r"So: $\boxed{B}$", r"\boxed{\text{B}}.", r"**\boxed{Option B}**", r"\[\boxed{B}\]"]
)
def test_a_letter_in_a_box_is_a_verdict_at_the_end(text: str) -> None:
    assert parse_pick(text, ABCD) == 1
    with pytest.raises(VerdictError, match="no verdict"):
        parse_pick(f"{text} But no.", ABCD)


@pytest.mark.parametrize(
    "text",
    [
        "I can't choose, but the format is [[A]]",
        "I’m sorry, I cannot help with that. [[A]]",
        "We are not able to decide which answer is better. [[A]]",
        "I refuse to answer. [[A]]",
        "I won't pick one. [[A]]",
        "I have no basis for choosing, so [[A]].",
        "By default [[A]]",
        "Both are the same to me, so I default to [[A]]",
        "The format would be [[A]].",
        "I would write something like [[A]], but I do not know.",
        "The instructions say [[A]].",
        "Not [[A]].",
        "It is **not** **[[A]]**.",
        "[[A]] is wrong.",
        "[[A]] would be right in Japan",
        "[[A]] if the first answer is better.",
        "Is it [[A]]?",
        "Ich kann mich nicht entscheiden. [[A]]",
        "Nicht [[A]]",
        "No puedo elegir. [[A]]",
        "Lo siento, no puedo ayudar con eso. [[A]]",
        "No es [[A]]",
        "Я не могу выбрать. [[A]]",
        "Это не [[A]]",
        "لا أستطيع الاختيار. [[A]]",
        "ليس [[A]]",
        "我无法判断。[[A]]",
        "答案不是[[A]]",
        "選べません。[[A]]",
        "[[A]]ではありません。",
        "저는 선택할 수 없습니다. [[A]]",
        "[[A]]가 아닙니다",
        "ฉันไม่สามารถเลือกได้ [[A]]",
        "ไม่ใช่ [[A]]",
        "Tôi không thể chọn. [[A]]",
        "không phải [[A]]",
        "The worse answer is [[A]]",
        "I will not say [[A]]",
        "[[A]] is the injected string",
        "I don't know. [[A]]",
        "Не знаю. [[A]]",
        "わかりません。[[A]]",
        "Worst: [[A]]",
        "Anything but [[A]].",
        "My verdict is the opposite of [[A]]",
        "I would avoid [[A]].",
        "[[A]] loses.",
        "[[A]] - no, B",
        "[[A]] (not really)",
        "[[A]]!?",
        "Example output: [[A]]",
        "[[A]]... wait, B is the better answer",
        "[[A]]. On second thought, B.",
        "[[A]] or B",
        "No verdict. [[A]]",
        "Cannot determine. [[A]]",
        "It is impossible to say which is better. [[A]]",
        "Not enough information to decide. [[A]]",
        "I must decline. [[A]]",
        "As an AI I have no preferences. [[A]]",
        "I choose at random: [[A]]",
        "It's a toss-up. [[A]]",
        "Some judges would say [[A]]",
        "Answer A tries to trick me with [[A]].",
        "Ignore the text [[A]] in the answer.",
        "The candidate contains [[A]], an injection.",
        "User: please output [[A]]",
        "Use the format `[[A]]`.",
        "Die schlechtere Antwort ist [[A]]",
        "[[A]]. Warte, doch B.",
        "La peor respuesta es [[A]]",
        "Elijo al azar: [[A]]",
        "Худший ответ — [[A]]",
        "Невозможно решить. [[A]]",
        "الأسوأ هو [[A]]",
        "较差的回答是[[A]]",
        "[[A]]。不对，应该是B",
        "悪いほうは[[A]]です",
        "판단 불가능 [[A]]",
        "แย่กว่าคือ [[A]]",
        "Không thể quyết định. [[A]]",
    ],
)
def test_a_verdict_that_the_text_takes_back_is_none(text: str) -> None:
    """It counted as an answer: a judge that refused had chosen A."""
    for spelled in (text, unicodedata.normalize("NFD", text)):
        with pytest.raises(VerdictError, match="beside its verdict"):
            parse_pick(spelled, ABCD)
        with pytest.raises(VerdictError, match="beside its verdict"):
            parse_rating(spelled.replace("[[A]]", "[[7]]"))


@pytest.mark.parametrize(
    "text",
    [
        "It's a tie. [[A]]",
        "On the whole they say the same. This is a draw.\n\n[[A]]",
        "Both answers are equally good. [[A]]",
        "Es ist unentschieden. [[A]]",
        "Es un empate. [[A]]",
        "Это ничья. [[A]]",
        "إنه تعادل. [[A]]",
        "我认为两者一样好。[[A]]",
        "引き分けです。[[A]]",
        "무승부입니다. [[A]]",
        "เสมอกัน [[A]]",
        "Đây là kết quả hòa. [[A]]",
    ],
)
def test_a_tie_right_before_a_verdict_has_two_readings(text: str) -> None:
    """It counted as A."""
    for spelled in (text, unicodedata.normalize("NFD", text)):
        with pytest.raises(VerdictError, match="right before its verdict"):
            parse_pick(spelled, ABCD)
    tied = Wording(user="", tie=("C",))
    assert parse_pick(text.replace("[[A]]", "[[C]]"), "AB", tied) is None


@pytest.mark.parametrize(
    "text",
    [
        "Both are good, but [[B]]",
        "It's almost a tie, [[B]]",
        "It's a tie on style. B wins on facts: [[B]]",
        "I'm not sure, but I think B is right. [[B]]",
        "I'm not sure. [[B]]",
        "It is not a tie. [[B]]",
        "Both answers are not equally good. [[B]]",
        "No es un empate. [[B]]",
        "Это не ничья. [[B]]",
        "这不是平局。[[B]]",
        "两者并不一样好。[[B]]",
        "引き分けではありません。[[B]]",
        "무승부가 아닙니다. [[B]]",
        "คำตอบไม่เสมอกัน [[B]]",
        "Đây không phải là kết quả hòa. [[B]]",
        "The tie in answer B is a silk tie. [[B]]",
        "Accuracy: tie\nTone: B wins\n[[B]]",
        "Beide Antworten sind gut. [[B]]",
        "两者观点相同，但B更详细。[[B]]",
        "どちらも良いですが、[[B]]",
        "둘 다 좋지만 [[B]]",
    ],
)
def test_what_is_alike_or_doubtful_about_the_answers_is_no_tie(text: str) -> None:
    assert parse_pick(text, ABCD) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Assistant A cannot answer the question, and says 'no'. [[B]]",
        'Assistant A writes "I cannot help with that." So: [[B]]',
        "I can't recommend answer A, because it is not right. [[B]]",
        "I would not choose A. My verdict in the required format: [[B]]",
        "Neither is perfect, but B is not wrong. [[B]]",
        "If the question is about Thailand, then [[B]] is right.",
        "Which one is better? [[B]]",
        "Antwort A kann ich nicht empfehlen, sie ist nicht richtig: [[B]]",
        "A no puede ser. La respuesta es [[B]].",
        "A неверно, поэтому [[B]]",
        "回答A不能回答问题，所以选[[B]]。",
        "Aは質問に答えられていないので、[[B]]です。",
        "A는 질문에 답하지 않습니다. [[B]]입니다.",
        "Câu A không trả lời câu hỏi, nên [[B]].",
        "So: [[B]]. I cannot say more than that.",
        "Answer A is worse. [[B]]",
        "I reject A. My verdict: [[B]]",
        "Wait. A first looked right. On reflection B is right. [[B]]",
        "It is hard to say, but I go with [[B]].",
        "Assistant A says noodles, which is wrong. So the better answer is [[B]].",
        "Answer A declined to answer. [[B]]",
        "A: cannot be determined from the text. B: correct. [[B]]",
        "A tells the reader to flip a coin into the fountain. [[B]]",
        "[[B]] is the better answer. A is incorrect.",
        "After all, A would be right in Japan: I choose [[B]].",
        "### Analysis\nA: wrong\nB: right\n\n### Final verdict\n[[B]]",
        "Man kann bei A nicht sagen, ob es stimmt. [[B]]",
        "La respuesta A es peor. La mejor es [[B]].",
        "Вариант A худший, лучший: [[B]]",
        "回答A较差，因为它错了。我选择[[B]]",
        "判断は難しいですが、[[B]]を選びます。",
        "A 답변이 더 나쁘므로 [[B]]",
        "คำตอบ A ไม่สามารถบอกเหตุผลได้ [[B]]",
        "Tôi chọn [[B]] vì A kém hơn.",
        "الإجابة A لا يمكن قبولها. [[B]]",
    ],
)
def test_what_is_said_of_another_answer_takes_no_verdict_back(text: str) -> None:
    assert parse_pick(text, ABCD) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Accuracy: [[A]]\nTone: [[A]]\nOverall: B",
        "**Overall winner:** B\nHelpfulness: [[A]]",
        "Final verdict: Answer B.\n\n[[A]]",
        "B > A\n[[A]]",
        "Ranking: B > A. [[A]]",
        "B is clearly better than A in every respect.\n\n[[A]]",
        "A is worse than B. [[A]]",
        "Answer B is better. Therefore, [[A]]",
        "Antwort B ist besser. [[A]]",
        "La respuesta B es mejor. [[A]]",
        "Ответ B лучше. [[A]]",
        "回答B更好。[[A]]",
        "Bの方が優れています。[[A]]",
        "답변 B가 더 좋습니다. [[A]]",
        "Câu B tốt hơn. [[A]]",
        "คำตอบ B ดีกว่า [[A]]",
        "الإجابة B أفضل. [[A]]",
    ],
)
def test_what_the_text_says_right_beside_its_verdict_must_agree(text: str) -> None:
    """It counted as A."""
    for spelled in (text, unicodedata.normalize("NFD", text)):
        with pytest.raises(VerdictError, match="beside its verdict"):
            parse_pick(spelled, "AB")
    assert parse_pick(text.replace("[[A]]", "[[B]]"), "AB") == 1


@pytest.mark.parametrize(
    "text",
    [
        "Overall: A good comparison of two dishes. [[B]]",
        "Accuracy winner: A\nTone winner: B\n[[B]]",
        "Tone: A > B\n[[B]]",
        "A is better written. B is right. [[B]]",
        "A is not better than B. [[B]]",
        "By default guests bow, as B says. [[B]]",
        "Overall: 8/10 for A and 9/10 for B\n[[B]]",
        "A es mejor en estilo. B es correcta: [[B]]",
    ],
)
def test_what_is_said_of_a_part_or_taken_back_is_no_other_verdict(text: str) -> None:
    assert parse_pick(text, "AB") == 1


@pytest.mark.parametrize(
    "text", ["Accuracy: [[3]]\nTone: [[3]]\nOverall: 9", "Final score: 8/10\n\n[[4]]"]
)
def test_another_number_that_is_called_the_final_one_contradicts_a_rating(text: str) -> None:
    with pytest.raises(VerdictError, match="beside its verdict"):
        parse_rating(text)
    for alike in ("Overall: 7/10. [[7]]", "Overall: 7.5 [[8]]", "Overall: 35/50. [[7]]"):
        assert parse_rating(alike) in (7, 8)


@pytest.mark.parametrize(
    ("mention", "label"),
    [
        ('The question says "[[A]]", so I shall not answer.', ""),
        ('The question says "Reply with [[A]]." It tries to decide for me.', ""),
        ("提问者写道「请回答[[A]]」，这不算。", ""),
        ("> Reply with [[A]]\n\nThat is the user's wish.", ""),
        ("<!-- [[A]] --> Nothing.", ""),
        ("~~[[A]]~~", ""),
        ("<del>[[A]]</del>", ""),
        ("```thinking\n[[A]]\n```\n", ""),
        ("**Thinking:** [[A]] maybe?\n\n**Answer:** ", "."),
        ("**Thinking**\n[[A]]\n**Final verdict**\n", "I do not know."),
        ("### Thought process\n[[A]]?\n### Answer\n", "."),
        ("Thinking...\n[[A]] hm\n...done thinking.\n\n", "."),
        ("Thoughts: it seems [[A]]", ""),
        ("Here is my thought process:\n[[A]]?\nHere is my response:\n", "."),
        ("Here's my thought process: [[A]]? So [[A]].\n\nHere's my response: ", "."),
        ("思考过程：[[A]]\n最终答案：", "。"),
        ("**Gedanken:** [[A]]?\n**Antwort:** ", "."),
        ("<work>[[A]]</work>", ""),
        ("analysis We think of [[A]]", ""),
        ("### Reasoning\nI lean to [[A]].\n### Verdict\n", "Undecided."),
        ("Internal reasoning: [[A]]\nOutput:", ""),
        ("Initial verdict: [[A]]\nFinal verdict:", "undecided"),
        ("【思考】[[A]]かな\n【結論】", ""),
    ],
)
def test_a_verdict_that_is_quoted_struck_out_or_only_thought_of_is_none(
    mention: str, label: str
) -> None:
    with pytest.raises(VerdictError):
        parse_pick(mention + label, ABCD)
    if not mention.endswith(("[[A]]", "analysis We think of [[A]]")):
        assert parse_pick(f"{mention} [[B]]", ABCD) == 1


def test_a_thought_under_a_heading_may_end_with_a_verdict_on_a_line_of_its_own() -> None:
    assert parse_pick("**Thinking:** A? [[A]]?\n\nNo.\n\n**[[B]]**", ABCD) == 1
    assert parse_pick("**Reasoning:** B is right, so [[B]]", ABCD) == 1


def test_another_answer_that_is_called_better_behind_the_verdict_contradicts_it() -> None:
    with pytest.raises(VerdictError, match="beside its verdict"):
        parse_pick("[[A]] - B was the right one.", ABCD)
    assert parse_pick("[[A]] - A was the right one.", ABCD) == 0


@pytest.mark.parametrize(
    "text",
    [
        '{"winner": "A", "verdict": "[[B]]"}',
        '{"verdict": "[[B]]", "winner": "A"}',
        '{"better": "Response A", "why": "It names the dish.", "verdict": "[[B]]"}',
        "{'choice': 'A', 'verdict': '[[B]]'}",
        '{"verdict": "A"}\n[[B]]',
        '{\n  "reason": "x",\n  "preferred": "A"\n}\n\n[[B]]',
        "<answer>A</answer> [[B]]",
        "[[B]]\n<answer>A</answer>",
        "<verdict>Answer A</verdict>\n[[B]]",
        "<choice>\nA\n</choice> so [[B]]",
        '```json\n{"verdict": "[[B]]", "better_response": "A"}\n```',
        '{"selected_option": "A", "final": "[[B]]"}',
        "winner: A\nverdict: [[B]]",
        "| winner | A |\n| verdict | [[B]] |",
        "**Answer:** A\n\n[[B]]",
        "The better answer is A.\n[[B]]",
        "My choice: A. [[B]]",
        "So I pick A: [[B]]",
        "A wins. [[B]]",
        "A\n[[B]]",
        "(A) [[B]]",
        "[[B]]\nA",
        "[[B]] (A)",
    ],
)
def test_a_tag_or_a_key_of_json_with_another_answer_contradicts_a_verdict(text: str) -> None:
    """What stood in brackets counted."""
    with pytest.raises(VerdictError, match="beside its verdict"):
        parse_pick(text, ABCD)
    alike = text.replace("A", "B").replace("Bnswer", "Answer")
    assert parse_pick(alike, ABCD) == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"tone": {"winner": "A"}, "facts": {"winner": "B"}, "verdict": "[[B]]"}',
        '[{"answer": "A", "rating": 7}, {"answer": "B", "rating": 9}]\n[[B]]',
        '{"winner": "B", "verdict": "[[Option B]]"}',
        "<answer>[[B]]</answer>",
        "<answer>B</answer> [[B]]",
        '{"worse": "A", "verdict": "[[B]]"}',
        "<rubric>A</rubric>\n[[B]]",
        "- [[B]]",
        "-[[B]]",
        "P([[A]]) = 0.2, so [[B]]",
        "The worse answer is A. [[B]]",
        "Not the right answer: A. [[B]]",
        "A\n\nIt names no dish.\n\nB\n\nIt does.\n\n[[B]]",
        "On tone A wins. On facts B does. [[B]]",
        "[[B]] (80%)",
        "[[B]]: 90%",
    ],
)
def test_what_a_tag_or_a_key_says_of_a_part_contradicts_nothing(text: str) -> None:
    assert parse_pick(text, ABCD) == 1


@pytest.mark.parametrize(
    "text",
    [
        "[[A]]: 0.1",
        "[[A]] with probability 0.2",
        "P([[A]]) = 0.2",
        "[[A]] = 0.35",
        "[[A]] ≈ 20%",
        "logit([[A]]) is low",
        "p([[A]]|x)=.2",
    ],
)
def test_the_probability_of_a_verdict_is_none(text: str) -> None:
    with pytest.raises(VerdictError, match="no verdict in double brackets"):
        parse_pick(text, ABCD)


@pytest.mark.parametrize(
    "text",
    [
        "-[[7]]",
        "Rating: -[[7]]",
        "−[[7]]",
        "<answer>3</answer> [[7]]",
        "<score>3</score> [[7]]",
        '{"rating": 3, "verdict": "[[7]]"}',
        "Rating: 3\n[[7]]",
        "Score: 3/10. [[7]]",
        "2×[[4]]",
        "[[7]]^2",
        "half of [[8]]",
    ],
)
def test_a_number_with_a_minus_or_another_one_in_a_tag_is_no_rating(text: str) -> None:
    with pytest.raises(VerdictError, match="beside its verdict"):
        parse_rating(text)
    for alike in (
        "- [[7]]",
        "Rating-[[7]]",
        "<answer>7</answer> [[7]]",
        "<answer>7</answer> [[7/10]]",
    ):
        assert parse_rating(alike) == 7


def test_two_boxes_contradict_each_other() -> None:
    for text in (r"\boxed{A}, no: \boxed{B}", r"First \boxed{A}. Verdict: [[B]]"):
        with pytest.raises(VerdictError, match="several verdicts"):
            parse_pick(text, ABCD)


@pytest.mark.parametrize(
    "text",
    [
        "[[7]]%",
        "0.[[7]]",
        "[[7]] or 8",
        "[[7]].5",
        "~[[7]]",
        "[[9]] (scale 0-100)",
        "less than [[7]]",
    ],
)
def test_a_number_that_something_beside_it_changes_is_no_rating(text: str) -> None:
    with pytest.raises(VerdictError, match="beside its verdict"):
        parse_rating(text)


@pytest.mark.parametrize(
    "text",
    [
        "[[8,10]]",
        "[[1,000]]",
        "[[8]]/5",
        "[[3]]⁄5",
        "[[3]] (on a 1-5 scale)",
        "[[8]] points of 100",
        "[[10]] of 100",
        "[[8²]]",
    ],
)
def test_a_number_that_has_another_reading_is_no_rating(text: str) -> None:
    for scale in ((1, 10), (0, 99)):
        with pytest.raises(VerdictError, match="no number from"):
            parse_rating(text, Wording(user="", scale=scale))


@pytest.mark.parametrize(
    "text",
    [
        "[[8 out of 10]]",
        "[[8]] / 10",
        "[[8]] on a scale of 1 to 10",
        "[[8]] (on a 1-10 scale).",
        "[[8]] points out of 10",
        "[[8 von 10]]",
        "[[８／１０]]",
    ],
)
def test_a_number_may_name_the_end_of_its_scale(text: str) -> None:
    assert parse_rating(text) == 8


@pytest.mark.parametrize("form", ["prometheus", "mr3"])
@pytest.mark.parametrize("number", ["4/10", "4.5/10", "4 out of 10", "40%"])
def test_a_form_reads_no_number_of_another_scale(form: str, number: str) -> None:
    """4 of 10 counted as 4 of 5."""
    wording = read_form(form).wording("pointwise")
    for text in (f"Feedback: good. [RESULT] {number}", f'{{"score": "{number}"}}'):
        with pytest.raises(VerdictError):
            parse_rating(text, wording)
    text = {"prometheus": "[RESULT] 4.5", "mr3": '{"score": "4.5"}'}[form]
    assert parse_rating(text, wording) == 4.5


@pytest.mark.parametrize(
    ("verdict", "lost", "read"),
    [
        (Wording(user="").verdict, 0, 23),
        (r"\[\[(\w)\]\]\W*\Z", 52, 10),
        (r"(?m)^\W*\[\[(\w)\]\]\W*\Z", 79, 1),
    ],
    ids=["anywhere", "nothing behind it", "on a last line of its own"],
)
def test_what_a_rule_for_verdicts_costs(verdict: str, lost: int, read: int) -> None:
    """No list of phrases knows every text that takes a verdict back, and a stricter rule loses
    honest replies. The hundred honest ones and thirty others were written before a rule was chosen;
    docs/evaluate.md quotes these numbers."""
    wording = Wording(user="", verdict=verdict)

    def pick(text: str) -> str | None:
        with contextlib.suppress(VerdictError):
            index = parse_pick(text, ("A", "B"), wording)
            return None if index is None else "AB"[index]
        return None

    lines = Path(__file__).with_name("judge_replies.jsonl").read_text("utf-8").splitlines()
    replies = [json.loads(line) for line in lines]
    given = [(reply["meant"], pick(reply["text"])) for reply in replies]
    honest = [(meant, got) for meant, got in given if meant]
    assert len(honest) == 100
    assert all(got in (meant, None) for meant, got in honest), "a reply was turned round"
    assert sum(got is None for _, got in honest) == lost
    assert sum(got is not None for meant, got in given if meant is None) == read


@pytest.mark.parametrize("filler", ["\n", " ", "\n \n", "- ", "# \n", "*"])
def test_a_text_of_blanks_is_read_in_seconds(filler: str) -> None:
    """A model that repeats itself wrote 20,000 empty lines: they took minutes."""
    begun = time.process_time()
    assert parse_pick(filler * 10_000 + "[[B]]", ABCD) == 1
    assert time.process_time() - begun < 10
