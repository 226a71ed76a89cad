"""Tables in the columns of public benchmarks: each row makes the set that its authors mean, or is
refused by name. The rows are invented."""

from __future__ import annotations

import json

import pytest

from carb_data import CarbError, load

ASKED = "How do guests greet a host in the village?"
ALSO = "What do guests do with their shoes?"
A, B, C, D, E = OPTIONS = "With both hands.", "With a whistle.", "With a bell.", "Bow.", "Clap."


def named(names, count=4):
    """Option columns by their names."""
    return dict(zip(names.split()[:count], OPTIONS, strict=False))


def both(first, second, field, **row):
    """Two rows that ask ``ASKED`` and ``ALSO``, with other keys."""
    asks = row.pop("asks", "question")
    return [
        {"id": n} | row | {asks: asked, field: key}
        for n, (asked, key) in enumerate([(ASKED, first), (ALSO, second)])
    ]


KAHOOT = "Correct answer(s) - choose at least one"
CHOICES = list(OPTIONS[:4])
TEN = [f"dish {n}" for n in range(1, 11)]
SHAPES = {
    "CulturalBench-Easy": both(
        "B",
        "A",
        "answer",
        asks="prompt_question",
        country="Thailand",
        **named("prompt_option_a prompt_option_b prompt_option_c prompt_option_d"),
    ),
    "CulturalBench-Hard": [
        {
            "question_idx": n,
            "prompt_question": asked,
            "prompt_option": option,
            "country": "Thailand",
            "answer": option == right,
        }
        for n, (asked, right) in enumerate([(ASKED, B), (ALSO, A)])
        for option in OPTIONS[:4]
    ],
    "KTO": [
        {"prompt": asked, "completion": option, "label": option == right}
        for asked, right in [(ASKED, B), (ALSO, A)]
        for option in (A, B)
    ],
    "MERA": [
        {
            "instruction": "{text} {option_a} {option_b}",
            "outputs": key,
            "meta": {"id": 1},
            "inputs": {"text": asked} | named("option_a option_b option_c option_d"),
        }
        for asked, key in [(ASKED, "B"), (ALSO, "A")]
    ],
    "GeoMLAMA": both(
        B, A, "Ans", asks="Corresponding Questions", **{"Candidate Ans": f"{A}, {B}, {C}"}
    ),
    "JCommonsenseQA": both(1, 1, "label", **named("choice0 choice1 choice2 choice3 choice4", 5)),
    "SaudiCulture": both("B", "A", "Answer", asks="Question", **{"Choice A": A, "Choice B": B}),
    "Einbürgerungstest": both("B", "A", "Antwort", asks="Frage", **named("A B C D")),
    "PalmX": both("B", "A", "answer", **named("A B C D")),
    "CLIcK": both(B, A, "answer", paragraph="", choices=CHOICES),
    "HAE-RAE": both("(B)", "(A)", "answer", asks="query", options=str(CHOICES)),
    "KoBBQ": both(B, A, "answer", context="Two came.", choices=CHOICES, biased_answer=A),
    "C-Eval": both("B", "A", "answer", explanation="", **named("A B C D")),
    "CMMLU": both("B", "A", "Answer", asks="Question", **named("A B C D")),
    "VMLU": both("B", "A", "answer", choices=[f"A. {A}", f"B. {B}", f"C. {C}"]),
    "ThaiExam": both("b", "a", "answer", **named("a b c d e", 5)),
    "m-ArenaHard pairs": both(B, A, "chosen", asks="prompt", rejected=C),
    "MMLU-Pro": both("I", "A", "answer", options=[*TEN[:8], B, TEN[8]], category="manners"),
    "ARC": both("B", "A", "answerKey", choices={"text": CHOICES, "label": list("ABCD")}),
    "HellaSwag": both("1", "0", "label", asks="ctx", endings=CHOICES, activity_label="x"),
    "PIQA": both(1, 0, "label", asks="goal", **named("sol1 sol2", 2)),
    "Winogrande": both("2", "1", "answer", asks="sentence", **named("option1 option2", 2)),
    "SocialIQA": both(
        "2", "3", "label", context="Two came.", **named("answerA answerB answerC", 3)
    ),
    "IndoMMLU": both("B", "A", "kunci", asks="soal", jawaban=f"A. {A}\nB. {B}\nC. {C}"),
    "TruthfulQA mc1": [
        {"question": asked, "mc1_targets": {"choices": [right, *wrong], "labels": [1, 0, 0]}}
        for asked, right, wrong in [(ASKED, B, [A, C]), (ALSO, A, [B, C])]
    ],
    "TruthfulQA mc1, flat": both(
        [0, 1, 0], [1, 0, 0], "mc1_targets_labels", mc1_targets_choices=[A, B, C]
    ),
    "BBQ": both(1, 2, "label", context="Two came.", **named("ans0 ans1 ans2", 3)),
    "SWAG": both(1, 0, "label", asks="startphrase", **named("ending0 ending1 ending2 ending3")),
    "MedQA": both(1, 1, "label", asks="sent1", **named("ending0 ending1 ending2 ending3")),
    "CosmosQA": both(1, 2, "label", **named("answer0 answer1 answer2 answer3")),
    "orca_dpo_pairs": both(B, A, "chosen", system="Be short.", rejected=C),
    "UltraFeedback, Argilla": both(B, A, "chosen", asks="prompt", rejected=C),
    "CValues": both(B, A, "pos_resp", asks="prompt", neg_resp=C),
    "ThaiCLI": both(B, A, "Chosen", asks="Question", Rejected=C),
    "PPE, human": both(
        "model_b", "model_a", "winner", asks="prompt", **named("response_1 response_2", 2)
    ),
    "OffsetBias": both(2, 1, "label", asks="instruction", **named("output_1 output_2", 2)),
    "Community Alignment": both(
        "response_b",
        "response_a",
        "first_turn_preferred_response",
        asks="first_turn_prompt",
        **{f"first_turn_response_{x}": o for x, o in zip("abcd", OPTIONS, strict=False)},
    ),
    "MultiPref": both(
        "B-is-slightly-better",
        "A-is-clearly-better",
        "overall_pref",
        asks="text",
        **named("completion_a completion_b", 2),
    ),
    "PRISM": [
        {"question": asked, "responses": [{"text": A, "score": first}, {"text": B, "score": 50}]}
        for asked, first in [(ASKED, 30), (ALSO, 80)]
    ],
    "a quiz": [
        {"question": asked, "choices": [{"text": o, "is_correct": o == right} for o in OPTIONS]}
        for asked, right in [(ASKED, B), (ALSO, A)]
    ],
    "KMMLU": both(2, 4, "answer", **named("A B C D")),
    "MILU": both("option2", "option1", "target", domain="Arts", **named("option1 option2", 2)),
    "ArabCulture": [
        {
            "sample_id": "1",
            "first_statement": asked,
            "country": "Egypt",
            "options": {"english_keys": list("ABC"), "text": [A, B, C]},
            "answer_key": {"english_answer_key": key},
        }
        for asked, key in [(ASKED, "B"), (ALSO, "A")]
    ],
    "IndoCulture": both(B, A, "answer", asks="context", options=[A, B, C], province="Bali"),
    "AraDiCE": both("B", "A", "Answer Key", asks="Question", **{"Option A": A, "Option B": B}),
    "CommonsenseQA": both("B", "A", "answerKey", choices={"label": list("ABC"), "text": [A, B, C]}),
    "LogiQA": both(1, 0, "correct_option", asks="query", context="Two came.", options=CHOICES),
    "EusTrivia": both(1, 0, "answer", candidates=[A, B, C]),
    "marks": both([0, 1, 0], [1, 0, 0], "labels", options=[A, B, C]),
    "marks, true": both([False, True], [True, False], "answer", choices=[A, B]),
    "CSATQA": both(2, 1, "gold", **{f"option#{n}": o for n, o in enumerate(OPTIONS, 1)}),
    "SeaEval": both(f"(B) {B}", f"(A) {A}", "answer", choices=[f"(A) {A}", f"(B) {B}", f"(C) {C}"]),
    "CVQA": both(1, 0, "Label", asks="Question", Options=CHOICES),
    "verdicts as JSON": both(
        '{"winner": "B"}', {"winner": "A"}, "winner", asks="prompt", response_a=A, response_b=B
    ),
    "verdicts in brackets": both(
        "[[B]]", "[[A]]", "winner", asks="prompt", response_a=A, response_b=B
    ),
    "one score for each": both([1, 9.5, 3], [0, -2, -1], "scores", responses=[A, B, C]),
    "samples of lm-eval": [
        {"doc_id": n, "doc": {"question": asked, "choices": CHOICES}, "target": key, "resps": []}
        for n, (asked, key) in enumerate([(ASKED, "1"), (ALSO, "0")])
    ],
    "better and worse": [
        {"prompt": asked, "better": better, "worse": C} for asked, better in [(ASKED, B), (ALSO, A)]
    ],
    "a gold index": both(3, 0, "gold_index", choices=[A, E, D, B]),
    "marks in columns": [
        {
            "question": asked,
            "A": A,
            "B": B,
            "C": c,
            "label_A": n,
            "label_B": 1 - n,
            "label_C": c and 0,
        }
        for n, (asked, c) in enumerate([(ASKED, C), (ALSO, "")])
    ],
    "AlpacaEval 2": both(
        1.51, 1.0000012, "preference", asks="instruction", generator_1="x", output_1=A, output_2=B
    ),
    "Auto-J": both(
        1, 0, "label", asks="prompt", scenario="planning", **{"response 1": A, "response 2": B}
    ),
    "AlpacaFarm with its generators": both(
        2, 1, "preference", asks="instruction", generator_1="x", output_1=A, output_2=B
    ),
    "one answer a row": [
        {"question": asked, "option_text": option, "is_correct": option == right}
        for asked, right in [(ASKED, B), (ALSO, A)]
        for option in (A, B, C)
    ],
    "an answer and wrong ones": both(B, A, "answer", wrong_1=C, wrong_2=D),
    "DREAM": both(B, A, "answer", choice=[A, B, C], dialogue=["M: Hello.", "W: Hi."]),
    "Moodle": both(
        "B", "A", "Answer 1", asks="questiontext", **named("A B C D"), **{"Answer 2": ""}
    ),
    "Kahoot": both(
        "2",
        1.0,
        KAHOOT,
        asks="Question - max 120 characters",
        **{f"Answer {n} - max 75 characters": o for n, o in enumerate(OPTIONS[:4], 1)},
    ),
    "ten answers, a letter": both("J", "A", "answer", answers=[A, *TEN[:8], B]),
    "ten answers, a number": both(9, 0, "correct_index", answers=[A, *TEN[:8], B]),
    "two ranks": both([2, 1], [1, 2], "ranking", asks="prompt", responses=[A, B]),
    "responses with ranks": [
        {
            "prompt": asked,
            "responses": [{"response": o, "rank": n} for o, n in zip(OPTIONS, ranks, strict=False)],
        }
        for asked, ranks in [(ASKED, (2, 1, 3)), (ALSO, (1, 3, 2))]
    ],
    "labels of 0 and 1": [
        {"question": asked, "options": [{"text": o, "label": int(o == right)} for o in (A, B, C)]}
        for asked, right in [(ASKED, B), (ALSO, A)]
    ],
    "an arena of our own": both(
        "Response B", "response a", "preference", asks="prompt", response_a=A, response_b=B
    ),
}
SHAPES["CSATQA"][1]["gold"] = 5


def saved(tmp_path, rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", SHAPES)
def test_the_answer_that_the_authors_mean_is_right(tmp_path, name):
    first, second = load(saved(tmp_path, SHAPES[name]), language="en")
    assert first.prompt_text.endswith(ASKED)
    assert second.prompt_text.endswith(ALSO)
    assert first.chosen.text == B
    rights = {"JCommonsenseQA": B, "MedQA": B, "BBQ": C, "CosmosQA": C, "SocialIQA": C}
    rights |= {"KMMLU": D, "CSATQA": E}
    assert second.chosen.text == rights.get(name, TEN[0] if name == "MMLU-Pro" else A)
    for item in (first, second):
        assert item.chosen.text not in [answer.text for answer in item.rejected]
    if SHAPES[name][0].get("country"):
        assert first.culture in ("thai", "arabic-eg")


def test_rows_of_one_option_each_make_one_set_and_others_are_counted(tmp_path):
    hard = SHAPES["CulturalBench-Hard"]
    two_right = [{**row, "question_idx": 2, "answer": n < 2} for n, row in enumerate(hard[:4])]
    found = load(saved(tmp_path, [*hard, *two_right]), language="en")
    assert [len(item.rejected) for item in found] == [3, 3]
    assert any(note.startswith("1 rows are ties, name several answers") for note in found.notes)
    alone = {"prompt": "Who?", "completion": A, "label": True}
    found = load(saved(tmp_path, [*SHAPES["KTO"], alone]), language="en")
    assert len(found) == 2
    assert any(note.startswith("1 rows are ties") for note in found.notes)


def test_truth_may_be_written_in_any_case(tmp_path):
    rows = [{**row, "answer": str(row["answer"]).upper()} for row in SHAPES["CulturalBench-Hard"]]
    assert [item.chosen.text for item in load(saved(tmp_path, rows))] == [B, A]


@pytest.mark.parametrize(("label", "right"), [("yes", "Yes"), ("no", "No"), ("neutral", "Neutral")])
def test_labels_without_options_are_the_answers(tmp_path, label, right):
    row = {"ID": 1, "Country": "egypt", "Rule-of-Thumb": "r", "Story": "A guest eats."}
    (item,) = load(saved(tmp_path, [row | {"Gold Label": label}]))
    assert (item.chosen.text, item.culture, item.domain) == (right, "arabic-eg", "values")
    assert {answer.text for answer in item.responses} == {"Yes", "No", "Neutral"}
    statement = {"id": 1, "question": "الضيف يغني.", "answer": "خطأ"}
    (item,) = load(saved(tmp_path, [statement]))
    assert (item.chosen.text, item.rejected[0].text) == ("خطأ", "صح")


@pytest.mark.parametrize(
    ("columns", "missing"),
    [
        ({"prompt": ASKED, "cluster": "x"}, "options, answer"),
        ({"prompt": ASKED, "response": A, "is_safe": True}, "options, answer"),
        ({"premise": ASKED, "hypothesis": A, "label": 1}, "options"),
        ({"question": ASKED, "passage": A, "answer": True}, "options"),
        ({"prompt": ASKED, "response_a": A, "response_b": B, "winner": "gpt"}, "and not 'gpt'"),
    ],
)
def test_what_a_table_lacks_is_said(tmp_path, columns, missing):
    with pytest.raises(CarbError, match=f"missing: .*{missing}"):
        load(saved(tmp_path, [columns]))


@pytest.mark.parametrize("votes", [{"A": 2, "C": 2}, {"B": 2}, {"A": 0, "B": True}, {A: 3, B: 1}])
@pytest.mark.parametrize("written", [dict, json.dumps])
def test_numbers_of_several_options_are_no_key(tmp_path, votes, written):
    rows = [{"question": ASKED, "options": CHOICES, "gold": key} for key in ("4", written(votes))]
    with pytest.raises(CarbError, match=r"rows\.jsonl:2: answer: holds numbers of several options"):
        load(saved(tmp_path, rows))


def marked(key, **marks):
    """A row of answers, each with its marks."""
    texts = [{"text": text} for text in (A, B, C)]
    for name, held in marks.items():
        for text, mark in zip(texts, held, strict=True):
            text[name] = mark
    return {"question": ASKED, key: texts}


@pytest.mark.parametrize(
    "row",
    [
        marked("responses", score=(3, 1, 2), rank=(1, 3, 2)),
        marked("answers", score=(3, 1, 2), label=(1, 0, 0)),
        marked("answers", is_correct=(1, 0, 0), label=(1, 0, 0)),
        marked("options", correct=(1, 0, 0), rank=(1, 2, 3)),
        marked("answers", pm_score=(3, 1, 2), rank=(1, 3, 2)),
        {"prompt": ASKED, "responses": [A, B], "scores": [3, 1], "ranking": [1, 2]},
        {"prompt": ASKED, "candidates": [A, B], "rewards": [3, 1], "ranks": [1, 2]},
        {"prompt": ASKED, "chosen": A, "rejected": B, "responses": [A, B], "ranking": [1, 2]},
        {"question": ASKED, "choices": [A, B], "answers": [A], "answer": "A"},
        {"question": ASKED, "choices": [A, B], "answers": [A], "answer_index": 0},
        {"question": ASKED, "A": A, "B": B, "answers": [A], "answer": "A"},
        {"question": ASKED, "options": [A, B], "answer": A, "option": "x", "is_correct": 1},
        {"question": ASKED, "choices": [A, B], "answer": A, "choice": [A, B], "dialogue": [C]},
    ],
)
def test_a_table_of_two_forms_is_read_by_the_one_that_is_not_last(tmp_path, row):
    (item,) = load(saved(tmp_path, [row]))
    assert item.chosen.text == A
    assert B in [answer.text for answer in item.rejected]


@pytest.mark.parametrize(
    "labels", [{"label": "AB", "option_id": "xy"}, {"id": "AB", "option_label": "xy"}]
)
def test_what_else_an_option_holds_is_no_label_of_it(tmp_path, labels):
    options = [
        {"text": text} | {name: marks[n] for name, marks in labels.items()}
        for n, text in enumerate((A, B))
    ]
    (item,) = load(saved(tmp_path, [{"question": ASKED, "options": options, "answer": "B"}]))
    assert item.chosen.text == B


@pytest.mark.parametrize("tie", ["Both", "equal", "Tie", "neither", "1.5"])
def test_words_for_a_tie_leave_the_row_out(tmp_path, tie):
    rows = [{**SHAPES["an arena of our own"][0], "preference": key} for key in (tie, "B")]
    found = load(saved(tmp_path, [row | {"id": n} for n, row in enumerate(rows)]))
    assert [item.chosen.text for item in found] == [B]


@pytest.mark.parametrize(
    ("name", "field", "tie"),
    [
        ("AlpacaEval 2", "preference", 1.5),
        ("AlpacaEval 2", "preference", 0),
        ("Auto-J", "label", 2),
    ],
)
def test_ties_of_judged_pairs_leave_the_row_out(tmp_path, name, field, tie):
    first, second = SHAPES[name]
    found = load(saved(tmp_path, [first | {field: tie}, second]))
    assert [item.chosen.text for item in found] == [A]


def test_an_empty_preference_is_refused_as_empty(tmp_path):
    first, second = SHAPES["AlpacaEval 2"]
    with pytest.raises(CarbError, match=r"rows\.jsonl:2: answer: is empty"):
        load(saved(tmp_path, [first, second | {"preference": None}]))


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": ASKED, "responses": [A, B, C], "ranking": [2, 3, 1]},
        {"question": ASKED, "options": [{"text": A, "label": 0}, {"text": B, "label": 1}]},
        {"question": ASKED, "answers": [A, B], "answer": A},
        {"question": ASKED, "answers": [A, B], "label": 1},
        {"prompt": ASKED, "response_1": A, "response_2": B, "rank_1": 5, "rank_2": 1},
        {"instruction": ASKED, "output_1": A, "output_2": B, "preference": 1.7},
    ],
)
def test_an_order_or_its_inverse_and_numbers_or_marks_are_refused(tmp_path, row):
    with pytest.raises(CarbError, match="its columns"):
        load(saved(tmp_path, [row]))


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": ASKED, "responses": [A, B, C], "chosen": 1, "rejected": 0},
        {"prompt": ASKED, "responses": [A, B], "chosen": "B", "rejected": "A"},
        {"prompt": ASKED, "completions": [A, B], "chosen": "B", "rejected": "A"},
        {"prompt": ASKED, "beams": "['a', 'b']", "chosen": "Beam 2", "rejected": "Beam 1"},
        {"prompt": ASKED, "hypotheses": f"{A}; {B}", "chosen": "2", "rejected": "1"},
        {"prompt": ASKED, "rollouts": [{"text": A}, {"text": B}], "chosen": 1, "rejected": 0},
        {"prompt": ASKED, "replies": TEN, "chosen": "response_10", "rejected": "response_1"},
        {
            "prompt": ASKED,
            "responses": [{"id": "r1", "text": A}, {"id": "r2", "text": B}],
            "chosen": "r2",
            "rejected": "r1",
        },
        {"prompt": ASKED, "drafts": {"gpt": A, "llama": B}, "chosen": "llama", "rejected": "gpt"},
        {
            "prompt": ASKED,
            "outputs": [{"model": "gpt", "text": A}, {"model": "Llama 3", "text": B}],
            "chosen": "Llama 3",
            "rejected": "gpt",
        },
        {
            "prompt": ASKED,
            "model_a": "gpt",
            "model_b": "llama",
            "response_a": A,
            "response_b": B,
            "chosen": "llama",
            "rejected": "gpt",
        },
    ],
)
def test_numbers_and_letters_of_answers_in_a_list_are_no_answers(tmp_path, row):
    with pytest.raises(CarbError, match="chosen and rejected"):
        load(saved(tmp_path, [row]))


def test_answers_of_one_letter_are_answers(tmp_path):
    row = {"prompt": "How much is two and two?", "chosen": "4", "rejected": "5"}
    [item] = load(saved(tmp_path, [row]))
    assert (item.chosen.text, item.rejected[0].text) == ("4", "5")
    for more in (
        {"tags": ["sum", "small"], "answers": 2},
        {"responses": ["4", "5", "22"]},
        {"outputs": [{"id": 1, "text": "4"}, {"id": 2, "text": "5"}]},
        {"model": "gpt"},
    ):
        [item] = load(saved(tmp_path, [row | more]))
        assert (item.chosen.text, item.rejected[0].text) == ("4", "5")


def test_labels_that_are_texts_beside_values_that_are_numbers_are_refused(tmp_path):
    options = [{"value": n, "label": text} for n, text in enumerate((A, B), 1)]
    with pytest.raises(CarbError, match="options: must be a text"):
        load(saved(tmp_path, [{"question": ASKED, "options": options, "answer": 2}]))
    options = [{"label": label, "value": text} for label, text in (("B", A), ("A", "No"))]
    [item] = load(saved(tmp_path, [{"question": ASKED, "options": options, "answer": "B"}]))
    assert item.chosen.text == A


@pytest.mark.parametrize("written", ['c("{}", "{}")', 'list("{}", "{}")', 'Any["{}", "{}"]'])
def test_a_list_as_other_programs_print_it_is_no_answer(tmp_path, written):
    row = {"question": ASKED, "correct": A, "wrong": written.format(B, C)}
    with pytest.raises(CarbError, match=r"rejected: holds a list .*JSON Lines"):
        load(saved(tmp_path, [row]))


def test_rows_as_the_hubs_viewer_sends_them_are_read(tmp_path):
    path = tmp_path / "first-rows.json"
    rows = both(1, 0, "answer", choices=[A, B])
    sent = {
        "features": [{"feature_idx": 0, "name": "question", "type": {"dtype": "string"}}],
        "rows": [{"row_idx": n, "row": row, "truncated_cells": []} for n, row in enumerate(rows)],
        "num_rows_total": 2,
        "partial": False,
    }
    path.write_text(json.dumps(sent))
    assert [item.chosen.text for item in load(path)] == [B, A]


@pytest.mark.parametrize(
    ("labels", "key", "right"),
    [
        ("0.0 1.0", 1, 1),
        ("1.0 0.0", "1", 0),
        ("1 0", "1.0", 0),
        ("2 1 3", 2, 0),
        ("B A", "B", 0),
        ("01 02", 2, 1),
        ("02 01", 2, 0),
        ("0 1 2", "B", 1),
        ("1 2 3", "(b)", 1),
        ("option_a option_b", "B", 1),
    ],
)
def test_labels_of_options_are_read_as_numbers_and_letters(tmp_path, labels, key, right):
    options = dict(zip(labels.split(), OPTIONS, strict=False))
    as_list = [{"id": label, "text": text} for label, text in options.items()]
    for written in (options, as_list):
        row = {"question": ASKED, "options": written, "answer": key}
        [item] = load(saved(tmp_path, [row]))
        assert item.chosen.text == OPTIONS[right]


@pytest.mark.parametrize(
    ("labels", "key"),
    [
        ("2 1 3", "B"),
        ("B A C", "1"),
        ("option_b option_a", "B"),
        ("choice2 choice1", "2"),
        ("A C E", "B"),
    ],
)
def test_a_key_that_counts_options_whose_labels_stand_in_another_order_is_refused(
    tmp_path, labels, key
):
    options = dict(zip(labels.split(), OPTIONS, strict=False))
    rows = both(key, "0" if key.isdecimal() else key, "answer", options=options)
    with pytest.raises(CarbError, match=r"answer: '\w' is .*label.*order"):
        load(saved(tmp_path, rows))


@pytest.mark.parametrize(
    ("marks", "row"),
    [("correct", {"correct": "TRUE", "wrong_answer": B}), ("wrong", {"wrong": "no"})],
)
@pytest.mark.parametrize("other", [{}, {"correct": "false"}, {"wrong": "yes"}])
def test_marks_beside_an_answer_are_no_answers(tmp_path, marks, row, other):
    rows = [{"question": ASKED, "answer": A} | row]
    rows.append(rows[0] | {"question": ALSO} | {name: other.get(name, row[name]) for name in row})
    with pytest.raises(CarbError, match=rf"rows\.jsonl: {marks} holds marks"):
        load(saved(tmp_path, rows))


@pytest.mark.parametrize(
    "rows",
    [
        both("yes", "no", "chosen", rejected=A, answer="A"),
        both("no", "yes", "rejected", chosen=A, answer="A"),
        both("Yes", "No", "answer", wrong_1="It depends."),
        both("1", "0", "answer", wrong_1="12", wrong_2="15"),
    ],
)
def test_yes_and_no_or_numbers_may_be_answers(tmp_path, rows):
    right = [row.get("chosen", row["answer"]) for row in rows]
    assert [item.chosen.text for item in load(saved(tmp_path, rows))] == right


def test_two_right_answers_of_a_quiz_are_refused_by_row(tmp_path):
    first, second = SHAPES["Moodle"]
    with pytest.raises(CarbError, match=r"rows\.jsonl:2: answer: has two readings"):
        load(saved(tmp_path, [first, second | {"Answer 2": "C"}]))


def test_rows_that_are_only_numbered_are_refused_by_row(tmp_path):
    quiz = [{"nr": n, **row} for n, row in enumerate(SHAPES["Moodle"])]
    with pytest.raises(CarbError, match=r"rows\.jsonl:3: .*empty"):
        load(saved(tmp_path, [*quiz, {"nr": 3, "time": 20}]))


def test_words_of_a_declaration_do_not_tell_the_language(tmp_path):
    row = {"premise": "Saya kosongkan kantong saya.", "question": "effect", "label": 0}
    ends = {"choice1": "Saya temukan tiket.", "choice2": "Saya temukan sebuah senjata."}
    (item,) = load(saved(tmp_path, [row | ends]))
    assert item.prompt_text.endswith("What happened as a result?")
    pytest.importorskip("lingua", reason="needs the extra carb-data[checks]")
    assert item.language == "id"


def test_a_domain_that_is_a_topic_is_not_read(tmp_path):
    found = load(saved(tmp_path, SHAPES["MILU"]))
    assert {item.domain for item in found} == {"unspecified"}
    assert any("Not read: domain" in note for note in found.notes)
    row = SHAPES["MILU"][0]
    with pytest.raises(CarbError, match=r"rows\.jsonl:2: domain: must be one of"):
        load(saved(tmp_path, [row | {"id": "x", "domain": "values"}, row]))


def marked(right, *options, **row):
    """A row for each option of a question, which says whether it is right."""
    return [{"question": ASKED, "option": o, "is_correct": o == right} | row for o in options]


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("id", "q1", "q2"),
        ("question_id", 1, 2),
        ("language", "English", "German"),
        ("country", "Japan", "France"),
        ("context", "In the house.", "In the street."),
    ],
)
def test_a_question_asked_twice_keeps_the_answers_of_each(tmp_path, name, first, second):
    rows = [*marked(A, A, B, **{name: first}), *marked(C, C, D, **{name: second})]
    sets = [(one.chosen.text, one.rejected[0].text) for one in load(saved(tmp_path, rows))]
    assert sets == [(A, B), (C, D)]
    alone = [*marked(A, A, B, **{name: first}), *marked("", C, D, **{name: second})]
    (kept,) = load(saved(tmp_path, alone))
    assert {response.text for response in kept.responses} == {A, B}


def test_options_that_have_an_id_each_are_of_one_question_only_by_its_id(tmp_path):
    rows = [row | {"id": n} for n, row in enumerate(marked(A, A, B, C))]
    assert len(load(saved(tmp_path, rows))) == 0
    (item,) = load(saved(tmp_path, [row | {"question_id": "q7"} for row in rows]))
    assert (item.id, item.chosen.text) == ("q7", A)


@pytest.mark.parametrize("field", ["option", "is_correct"])
def test_a_row_without_its_option_or_mark_is_named(tmp_path, field):
    rows = marked(A, A, B, C)
    rows[1][field] = None
    with pytest.raises(CarbError, match=rf"rows\.jsonl:2: {field}.*: is empty"):
        load(saved(tmp_path, rows))


@pytest.mark.parametrize("score", [float("nan"), "NaN"])
def test_a_score_that_is_no_number_is_the_best_of_none(tmp_path, score):
    row = {"prompt": ASKED, "answers": [{"text": A, "score": score}, {"text": B, "score": 1}]}
    with pytest.raises(CarbError, match=r"rows\.jsonl:1: scores"):
        load(saved(tmp_path, [row]))


@pytest.mark.parametrize(
    ("context", "texts"),
    [([["Town", ["One.", "Two."]]], "Town\n\nOne.\n\nTwo."), ([["Year", 1996]], "Year\n\n1996")],
)
def test_a_context_of_titles_or_cells_is_no_conversation(tmp_path, context, texts):
    row = {"question": ASKED, "context": context, "options": CHOICES, "answer": "B"}
    (item,) = load(saved(tmp_path, [row]))
    assert item.prompt == f"{texts}\n\n{ASKED}"


def test_a_context_of_objects_is_refused(tmp_path):
    context = [{"title": "Town", "text": "One."}]
    row = {"question": ASKED, "context": context, "options": CHOICES, "answer": "B"}
    with pytest.raises(CarbError, match=r"rows\.jsonl:1: context"):
        load(saved(tmp_path, [row]))


def test_a_dialogue_stands_before_its_question(tmp_path):
    first, _ = load(saved(tmp_path, SHAPES["DREAM"]))
    assert all(text in first.prompt_text for text in ("M: Hello.", "W: Hi.", ASKED))


@pytest.mark.parametrize("several", ["1,3", "2, 4", "1,2,3,4"])
def test_several_right_answers_of_a_quiz_are_left_out(tmp_path, several):
    first, second = SHAPES["Kahoot"]
    (kept,) = load(saved(tmp_path, [first, second | {KAHOOT: several}]))
    assert kept.chosen.text == B


@pytest.mark.parametrize(("tie", "weight"), [("1.50", "1.00"), ("0.00", "2.00"), ("1.500", "1.0")])
def test_weights_may_end_in_zeros(tmp_path, tie, weight):
    first, second = SHAPES["AlpacaEval 2"]
    rows = [first | {"preference": tie}, second | {"preference": weight}]
    (kept,) = load(saved(tmp_path, rows))
    assert kept.chosen.text == (B if weight == "2.00" else A)
