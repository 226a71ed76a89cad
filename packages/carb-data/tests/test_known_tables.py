"""Well-known tables load as they are, with the right answer right in every row; the rows here are
invented."""

from __future__ import annotations

import gzip
import json
import zipfile

import polars as pl
import pytest

from carb_data import CarbError, DataError, load
from carb_data.declaration import shapes

ASKED = "How do guests greet a host in the village?"
ALSO = "What do guests do with their shoes?"
RIGHT, WRONG = "With both hands.", "With a whistle."
LEAVE, KEEP = "They leave them outside.", "They keep them on."


def said(*texts: str) -> list[dict[str, str]]:
    return [
        {"role": "assistant" if n % 2 else "user", "content": text} for n, text in enumerate(texts)
    ]


def sharegpt(*texts: str) -> list[dict[str, str]]:
    return [{"from": "gpt" if n % 2 else "human", "value": t} for n, t in enumerate(texts)]


def transcript(*texts: str) -> str:
    return "".join(f"\n\n{'Assistant' if n % 2 else 'Human'}: {t}" for n, t in enumerate(texts))


def two(first: str, second: str, better: int) -> dict[str, str]:
    """Two answers, the better one first where ``better`` is 0."""
    return {first: (RIGHT, WRONG)[better], second: (WRONG, RIGHT)[better]}


CHOICES = [WRONG, RIGHT, "With a bell.", "Not at all."]
BLEND_ASKS = (
    f"{ASKED} Without any explanation, choose only one from the given alphabet choices(e.g., A, B, "
    'C). Provide as JSON format: {"answer_choice":""}\n\nA. a\nB. b\n\nAnswer:'
)
TABLES = {
    "hh": [{"chosen": transcript(ASKED, RIGHT), "rejected": transcript(ASKED, WRONG)}],
    "openai-preference": [
        {
            "input": {"messages": said(ASKED), "tools": [], "parallel_tool_calls": True},
            "preferred_output": [{"role": "assistant", "content": RIGHT}],
            "non_preferred_output": [{"role": "assistant", "content": WRONG}],
        }
    ],
    "llama-factory": [
        {
            "conversations": sharegpt(ASKED),
            "chosen": {"from": "gpt", "value": RIGHT},
            "rejected": {"from": "gpt", "value": WRONG},
        }
    ],
    "distilabel": [
        {
            "instruction": ASKED,
            "generations": [WRONG, RIGHT],
            "generation_models": ["a", "b"],
            "ratings": [2, 5.0],
        }
    ],
    "alpaca": [{"instruction": ASKED, "input": "", "chosen": RIGHT, "rejected": WRONG}],
    "ultrafeedback": [
        {
            "source": "flan",
            "instruction": ASKED,
            "models": ["a", "b"],
            "completions": [
                {"model": "a", "response": WRONG, "overall_score": 6.5},
                {"model": "b", "response": RIGHT, "overall_score": 8.0},
                {"model": "c", "response": "With a bell.", "overall_score": 7.0},
            ],
        }
    ],
    "ultrafeedback-raw": [
        {
            "source": "flan",
            "instruction": ASKED,
            "completions": [
                {"model": "a", "response": WRONG, "overall_score": 6.5},
                {"model": "b", "response": RIGHT, "overall_score": 8.0},
            ],
            "correct_answers": ["None"],
            "incorrect_answers": ["None"],
        }
    ],
    "ultrafeedback-binarized": [
        {
            "prompt": ASKED,
            "prompt_id": "ab12",
            "chosen": said(ASKED, RIGHT),
            "rejected": said(ASKED, WRONG),
            "messages": said(ASKED, RIGHT),
            "score_chosen": 8.0,
            "score_rejected": 6.5,
        }
    ],
    "rewardbench-2": [
        {
            "id": "7",
            "prompt": ASKED,
            "chosen": [RIGHT],
            "rejected": [WRONG, "With a bell.", "Not at all."],
            "num_correct": 1,
            "num_incorrect": 3,
            "subset": "Focus",
        }
    ],
    "m-rewardbench": [
        {
            "id": 3,
            "language": "arb_Arab",
            "prompt": ASKED,
            "chosen": RIGHT,
            "rejected": WRONG,
            "chosen_model": "m1",
            "rejected_model": "m2",
            "category": "Chat",
        }
    ],
    "rm-bench": [
        {
            "id": "chat/1",
            "prompt": ASKED,
            "chosen": [RIGHT, f"{RIGHT} Always.", f"* {RIGHT}"],
            "rejected": [WRONG, f"{WRONG} Always.", f"* {WRONG}"],
            "domain": "chat",
        }
    ],
    "rm-bench-files": [
        {
            "id": 8,
            "prompt": ASKED,
            "chosen": [RIGHT, f"{RIGHT} Always.", f"* {RIGHT}"],
            "rejected": [WRONG, f"{WRONG} Always.", f"* {WRONG}"],
            "subset": "alpacaeval",
            "error_key": "bell",
            "error": "It names the bell.",
        }
    ],
    "judgebench": [
        {
            "pair_id": f"p{label}",
            "original_id": "1",
            "source": "made up",
            "question": ASKED,
            "response_model": "m",
            "response_A": RIGHT if label == "A>B" else WRONG,
            "response_B": WRONG if label == "A>B" else RIGHT,
            "label": label,
        }
        for label in ("A>B", "B>A")
    ],
    "llmbar": [
        {"input": ASKED, "output_1": WRONG, "output_2": RIGHT, "label": 2},
        {"input": ALSO, "output_1": LEAVE, "output_2": KEEP, "label": 1},
    ],
    "mmlu": [
        {"question": ASKED, "subject": "manners", "choices": CHOICES, "answer": 1},
        {"question": ALSO, "subject": "manners", "choices": [LEAVE, KEEP], "answer": 0},
    ],
    "rmb-pairs": [
        {
            "pair_uid": "1",
            "conversation_input": said(ASKED),
            "chosen": {"llm_name": "m", "answer": RIGHT, "score": 5.0},
            "reject": {"llm_name": "n", "answer": WRONG, "score": 4.5},
            "category_path": "Pairwise_set/Manners",
        }
    ],
    "rmb-best": [
        {
            "bon_uid": "2",
            "conversation_input": said(ASKED),
            "bon_best": {"llm_name": "m", "answer": RIGHT},
            "loser_list": [{"llm_name": n, "answer": f"{WRONG} {n}"} for n in "ab"],
            "category_path": "BoN_set/Manners",
        }
    ],
    "mmlu-letter": [{"question": ASKED, "subject": "manners", "choices": CHOICES, "answer": "B"}],
    "mmlu-text": [{"question": ASKED, "choices": CHOICES, "answer": RIGHT}],
    "include": [
        {
            "language": "Thai",
            "country": "Thailand",
            "domain": "Humanities",
            "subject": "Manners",
            "regional_feature": "culture",
            "level": "Academic",
            "question": ASKED,
            "choices": CHOICES,
            "answer": 1,
        }
    ],
    "belebele": [
        {
            "link": "https://example.org",
            "question_number": 1,
            "flores_passage": "A guest comes to the house.",
            "question": ASKED,
            **{f"mc_answer{n}": text for n, text in enumerate(CHOICES, 1)},
            "correct_answer_num": "2",
            "dialect": "tha_Thai",
            "ds": "2023-05-03",
        }
    ],
    "global-mmlu": [
        {
            "sample_id": "manners/test/1",
            "subject": "manners",
            "subject_category": "Humanities",
            "question": ASKED,
            **{f"option_{letter}": t for letter, t in zip("abcd", CHOICES, strict=True)},
            "answer": "B",
            "culture": "['Western Culture']",
            "country": "[]",
        }
    ],
    "blend-choice": [
        {
            "MCQID": "Al-en-06_1",
            "ID": "Al-en-06",
            "country": "Algeria",
            "prompt": BLEND_ASKS,
            "choices": json.dumps(dict(zip("ABCD", CHOICES, strict=True))),
            "choice_countries": json.dumps({"A": "UK", "B": "Algeria"}),
            "answer_idx": "B",
        }
    ],
    "helpsteer3": [
        {
            "domain": domain,
            "language": language,
            "context": said(ASKED),
            "response1": RIGHT if preference < 0 else WRONG,
            "response2": WRONG if preference < 0 else RIGHT,
            "overall_preference": preference,
            "individual_preference": [],
        }
        for domain, language, preference in (
            ("general", "english", -2),
            ("code", "python", 3),
            ("general", "english", 0),
        )
    ],
    "argilla": [
        {
            "id": "r1",
            "status": "completed",
            "fields": {"prompt": ASKED, "response1": WRONG, "response2": RIGHT},
            "metadata": {},
            "responses": {"preference": [{"value": "response2", "user_id": "u"}]},
        }
    ],
    "argilla-2-ranking": [
        {
            "id": "r2",
            "instruction": ASKED,
            "response_1": WRONG,
            "response_2": RIGHT,
            "ranking.responses": [["response_2", "response_1"], ["response_2", "response_1"]],
            "ranking.responses.users": ["u", "v"],
            "ranking.responses.status": ["submitted", "submitted"],
        }
    ],
    "argilla-ranking": [
        {
            "instruction": ASKED,
            "response_1": WRONG,
            "response_2": RIGHT,
            "preference": [
                {
                    "user_id": "u",
                    "value": {"rank": [2, 1], "value": ["response_1", "response_2"]},
                    "status": "submitted",
                }
            ],
        }
    ],
    "label-studio": [
        {
            "id": 4,
            "data": {"prompt": ASKED, "answer1": WRONG, "answer2": RIGHT},
            "annotations": [
                {"result": [{"type": "pairwise", "value": {"selected": "right"}}]},
                {"result": [{"type": "pairwise", "value": {"selected": "right"}}]},
            ],
        }
    ],
    "label-studio-min": [
        {"id": 4, "prompt": ASKED, "answer1": RIGHT, "answer2": WRONG, "comparison": "left"}
    ],
    "truthfulqa": [
        {
            "Type": "Adversarial",
            "Category": "Manners",
            "Question": ASKED,
            "Best Answer": RIGHT,
            "Correct Answers": f"{RIGHT}; With a smile.",
            "Incorrect Answers": f"{WRONG}; With a bell.",
            "Source": "https://example.org",
        }
    ],
    "hellaswag": [
        {
            "ind": 4,
            "activity_label": "Visiting",
            "ctx_a": "A guest comes to the village.",
            "ctx_b": "the guest",
            "ctx": ASKED,
            "endings": CHOICES,
            "source_id": "x",
            "split": "val",
            "label": "1",
        }
    ],
    "chatbot-arena": [
        {
            "question_id": f"b{winner}",
            "model_a": "m",
            "model_b": "n",
            "winner": winner,
            "conversation_a": said(ASKED, RIGHT if winner == "model_a" else WRONG),
            "conversation_b": said(ASKED, WRONG if winner == "model_a" else RIGHT),
            "turn": 1,
            "language": "English",
        }
        for winner in ("model_a", "model_b", "tie (bothbad)")
    ],
    "shp": [
        {
            "post_id": "p",
            "domain": "askculinary_train",
            "history": ASKED,
            "human_ref_A": RIGHT if label else WRONG,
            "human_ref_B": WRONG if label else RIGHT,
            "labels": label,
            "score_A": 8,
            "score_B": 2,
        }
        for label in (1, 0)
    ],
    "truthfulqa-choice": [
        {
            "question": ASKED,
            "mc1_targets": {"choices": CHOICES, "labels": [0, 1, 0, 0]},
            "mc2_targets": {"choices": CHOICES, "labels": [0, 1, 0, 1]},
        }
    ],
    "arc-stems": [
        {
            "id": "q2",
            "question": {
                "stem": ASKED,
                "choices": [
                    {"text": text, "label": label}
                    for label, text in zip("ABCD", CHOICES, strict=True)
                ],
            },
            "answerKey": "B",
        }
    ],
    "nectar": [
        {
            "prompt": f"\n\nHuman: {ASKED}\n\nAssistant: ",
            "answers": [
                {"answer": WRONG, "model": "m", "rank": 2.0},
                {"answer": RIGHT, "model": "n", "rank": 1.0},
                {"answer": "With a bell.", "model": "o", "rank": 3.0},
            ],
            "turns": 1,
        }
    ],
    "helpsteer2": [
        {"prompt": ASKED, **two("response_1", "response_2", better), "preference_strength": n}
        for better, n in ((0, -2), (1, 3), (0, -1))
    ],
    "pku-saferlhf": [
        {
            "prompt": ASKED,
            **two("response_0", "response_1", better),
            "better_response_id": better,
            "safer_response_id": 0,
        }
        for better in (0, 1)
    ],
    "conversations-asked": [
        {"prompt": ASKED, name: ASKED, "chosen": said(ASKED, RIGHT), "rejected": said(ASKED, WRONG)}
        for name in ("question", "conversation")
    ],
    "oasst": [
        {
            "message_tree_id": "t",
            "tree_state": "ready_for_export",
            "prompt": {
                "text": ASKED,
                "role": "prompter",
                "lang": "en",
                "replies": [
                    {"text": WRONG, "role": "assistant", "rank": 1, "replies": []},
                    {"text": RIGHT, "role": "assistant", "rank": 0, "replies": []},
                ],
            },
        }
    ],
    "ultrainteract": [
        {"trajectory": sharegpt(ASKED), "chosen": RIGHT, "rejected": WRONG, "id": "7"}
    ],
    "arena-55k": [
        {
            "id": better,
            "prompt": json.dumps([ASKED]),
            **{n: json.dumps([t]) for n, t in two("response_a", "response_b", better).items()},
            "winner_model_a": 1 - better,
            "winner_model_b": better,
            "winner_tie": 0,
        }
        for better in (0, 1)
    ],
    "arena-140k": [
        {
            "winner": f"model_{'ab'[better]}",
            **{
                name: [
                    {"role": role, "content": [{"type": "text", "text": text, "image": None}]}
                    for role, text in (("user", ASKED), ("assistant", answer))
                ]
                for name, answer in two("conversation_a", "conversation_b", better).items()
            },
        }
        for better in (0, 1)
    ],
    "mt-bench": [
        {
            "winner": f"model_{'ab'[better]}",
            "turn": 1,
            **{
                name: said(ASKED, answer, "And then?", f"{name} goes on.")
                for name, answer in two("conversation_a", "conversation_b", better).items()
            },
        }
        for better in (0, 1)
    ],
    "stack-exchange-paired": [{"question": ASKED, "response_j": RIGHT, "response_k": WRONG}],
    "stack-exchange": [
        {
            "question": ASKED,
            "answers": [{"text": WRONG, "pm_score": 2}, {"text": RIGHT, "pm_score": 5}],
        }
    ],
    "webgpt": [
        {
            "question": {"full_text": ASKED},
            **two("answer_0", "answer_1", better),
            "score_0": 0.5 - better,
            "score_1": better - 0.5,
        }
        for better in (0, 1)
    ],
    "summaries": [
        {
            "info": {"post": ASKED},
            "summaries": [{"text": text} for text in two("a", "b", better).values()],
            "choice": better,
        }
        for better in (0, 1)
    ],
    "comparison": [
        {"instruction": ASKED, **two("output_1", "output_2", better), "preference": better + 1.0}
        for better in (0, 1)
    ],
    "comparison-letters": [
        {"prompt": ASKED, **two("response_a", "response_b", better), "winner": "AB"[better]}
        for better in (0, 1)
    ],
    "prometheus": [
        {
            "orig_instruction": ASKED,
            **two("orig_response_A", "orig_response_B", better),
            "orig_preference": "AB"[better],
            "instruction": "Judge.",
        }
        for better in (0, 1)
    ],
    "reclor": [
        {"context": "A village.", "question": ASKED, "answers": CHOICES, "label": 1},
        {"context": "A village.", "question": ALSO, "answers": [LEAVE, KEEP], "label": 0},
    ],
    "headqa": [
        {
            "qtext": ASKED,
            "answers": [{"aid": n, "atext": t} for n, t in enumerate(CHOICES, 1)],
            "ra": 2,
        }
    ],
    "bigbench": [
        {
            "inputs": ASKED,
            "multiple_choice_targets": CHOICES,
            "multiple_choice_scores": [0, 1, 0, 0],
        }
    ],
    "indommlu": [{"soal": ASKED, "jawaban": f"A. {WRONG}\nB. {RIGHT}\nC. A bell.", "kunci": "B"}],
    "arabicmmlu": [
        {
            "Country": country,
            "Question": ASKED,
            "Answer Key": "B",
            **{f"Option {n}": text for n, text in enumerate(CHOICES, 1)},
            "Option 5": None,
            "is_few_shot": 0,
        }
        for country in ("Egypt", None)
    ],
    "openbookqa": [
        {
            "question_stem": ASKED,
            "choices": {"text": CHOICES, "label": [*"ABCD"]},
            "answerKey": "B",
        }
    ],
    "culturalbench": [
        {
            "prompt_question": ASKED,
            **{f"prompt_option_{letter}": t for letter, t in zip("abcd", CHOICES, strict=True)},
            "answer": "B",
            "country": "Thailand",
        }
    ],
    "m3exam": [
        {
            "question_text": asked,
            "background_description": [],
            "answer_text": key,
            "options": [f"({n}) {text}" for n, text in enumerate(options, 1)],
            "language": "english",
        }
        for asked, key, options in (
            (ASKED, "2", CHOICES),
            (ALSO, "4", [KEEP, "They burn.", "x", LEAVE]),
        )
    ],
    "medmcqa": [
        {
            "question": ASKED,
            **dict(zip(("opa", "opb", "opc", "opd"), CHOICES, strict=True)),
            "cop": 1,
        },
        {"question": ALSO, "opa": LEAVE, "opb": KEEP, "cop": 0},
    ],
    "magpie": [
        {
            "instruction": ASKED,
            "responses": [RIGHT, WRONG],
            "chosen": said(ASKED, RIGHT),
            "rejected": said(ASKED, WRONG),
        }
    ],
    "arc": [
        {
            "id": "q1",
            "question": ASKED,
            "choices": {"text": CHOICES, "label": ["1", "2", "3", "4"]},
            "answerKey": "2",
        }
    ],
}


def write(path, rows):
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", TABLES)
def test_the_right_answer_is_right_in_every_row(tmp_path, name):
    rows = TABLES[name]
    found = load(write(tmp_path / "rows.jsonl", rows))
    ties = sum(row.get("overall_preference") == 0 or "tie" in row.get("winner", "") for row in rows)
    assert len(found) == len(rows) - ties + 2 * name.startswith("rm-bench")
    for item in found:
        asked = item.prompt_text.rpartition("\n")[2]
        assert asked in (ASKED, ALSO)
        assert (RIGHT if asked == ASKED else LEAVE) in item.chosen.text
        assert len(item.rejected) >= 1
        assert not any(RIGHT in answer.text or LEAVE in answer.text for answer in item.rejected)
        assert not any(WRONG in answer.text and "bell" in answer.text for answer in item.rejected)


def test_what_a_known_table_says_of_its_rows_is_kept(tmp_path):
    def only(name):
        return load(write(tmp_path / "rows.jsonl", TABLES[name]))[0]

    assert (only("m-rewardbench").language, only("m-rewardbench").id) == ("ar", "3")
    include = only("include")
    assert (include.culture, include.language, include.topic) == ("thai", "th", "Manners")
    belebele = only("belebele")
    assert (belebele.language, belebele.prompt) == ("th", f"A guest comes to the house.\n\n{ASKED}")
    blend = only("blend-choice")
    assert (blend.prompt, blend.culture, blend.domain) == (ASKED, "arabic-dz", "commonsense")
    assert blend.provenance.license == "LicenseRef-none-stated"
    assert only("global-mmlu").culture == "unspecified"
    styles = load(write(tmp_path / "rows.jsonl", TABLES["rm-bench"]))
    assert {item.source_item for item in styles} == {"own:chat/1"}


@pytest.mark.parametrize(
    ("name", "column"),
    [("helpsteer2", "preference_strength"), ("helpsteer3", "overall_preference")],
)
def test_strengths_that_pandas_made_floats_are_read(tmp_path, name, column):
    rows = [row | {column: float(row[column])} for row in TABLES[name]]
    plain = load(write(tmp_path / "a.jsonl", TABLES[name]))
    found = load(write(tmp_path / "b.jsonl", rows))
    assert [item.chosen.text for item in found] == [item.chosen.text for item in plain]


def test_ties_and_disagreement_are_left_out_and_counted(tmp_path):
    found = load(write(tmp_path / "rows.jsonl", TABLES["helpsteer3"]))
    assert any(note.startswith("1 rows are ties") for note in found.notes)
    row = TABLES["label-studio"][0]
    other = {"result": [{"type": "pairwise", "value": {"selected": "left"}}]}
    split = row | {"annotations": [*row["annotations"], other]}
    found = load(write(tmp_path / "rows.jsonl", [row, split]))
    assert len(found) == 1
    assert any(note.startswith("1 rows are ties") for note in found.notes)


def test_answers_that_a_person_did_not_send_do_not_count(tmp_path):
    row = TABLES["label-studio"][0]
    wrong = {"type": "pairwise", "value": {"selected": "left"}}
    skipped = {"was_cancelled": True, "result": [wrong]}
    for others in ([skipped], []):
        changed = row | {"annotations": [*row["annotations"], *others]}
        assert load(write(tmp_path / "a.jsonl", [changed]))[0].chosen.text == RIGHT
    fields = {"prompt": ASKED, "response1": WRONG, "response2": RIGHT}
    draft = {"value": "response1", "status": "draft"}
    sent = {"value": "response2", "status": "submitted"}
    row = {"id": "1", "fields": fields, "responses": {"preference": [draft, sent]}}
    (item,) = load(write(tmp_path / "b.jsonl", [row]))
    assert item.chosen.text == RIGHT
    row["responses"] = {"preference": [draft]}
    with pytest.raises(DataError, match="answer: is empty"):
        load(write(tmp_path / "b.jsonl", [row]))


@pytest.mark.parametrize("state", [{"status": "draft"}, {"was_cancelled": True}])
def test_an_option_with_a_state_of_its_own_stays(tmp_path, state):
    """It was dropped without a word, as an answer that nobody sent."""
    options = [{"text": WRONG, "is_correct": False} | state, {"text": RIGHT, "is_correct": True}]
    options.append({"text": "They wave.", "is_correct": False})
    (item,) = load(write(tmp_path / "a.jsonl", [{"question": ASKED, "choices": options}]))
    assert {*item.texts} == {WRONG, RIGHT, "They wave."}


def test_a_story_and_its_cause_are_asked_and_what_else_the_row_says_is_kept(tmp_path):
    row = {"premise": "A guest came.", "choice1": WRONG, "choice2": RIGHT, "label": 1}
    xcopa = [
        row | {"question": "cause", "country": "Thailand", "language": "th"},
        row | {"question": "effect", "label": 0, "country": "Japan", "language": "ja"},
    ]
    cause, effect = load(write(tmp_path / "a.jsonl", xcopa))
    assert cause.prompt == "A guest came.\n\nWhat was the cause of this?"
    assert (cause.chosen.text, effect.chosen.text) == (RIGHT, WRONG)
    assert [(item.culture, item.language) for item in (cause, effect)] == [
        ("thai", "th"),
        ("japanese", "ja"),
    ]
    story = {f"input_sentence_{n}": f"Sentence {n}." for n in range(1, 5)}
    ends = {"sentence_quiz1": WRONG, "sentence_quiz2": RIGHT, "answer_right_ending": 2}
    (item,) = load(write(tmp_path / "b.jsonl", [story | ends]))
    assert item.prompt == "Sentence 1. Sentence 2. Sentence 3. Sentence 4."
    assert item.chosen.text == RIGHT
    korean = {"premise": "손님이 왔다.", "question": "원인", "label": 1}
    other = {"alternative_1": WRONG, "alternative_2": RIGHT}
    (item,) = load(write(tmp_path / "c.jsonl", [korean | other]))
    assert (item.prompt_text.split("\n")[0], item.chosen.text) == ("손님이 왔다.", RIGHT)


@pytest.mark.parametrize("name", ["mmlu", "mmlu-csv", "m-rewardbench", "judgebench", "webgpt"])
def test_a_known_table_drops_no_country_passage_or_system_turn(tmp_path, name):
    more = {"country": "Thailand", "passage": "A guest came.", "system_prompt": "Be short."}
    if name == "mmlu-csv":
        path = tmp_path / "a.csv"
        head = ",".join(["question,A,B,C,D,answer", *more])
        path.write_text("\n".join([head, ",".join([ASKED, *CHOICES, "B", *more.values()])]))
    else:
        path = write(tmp_path / "a.jsonl", [row | more for row in TABLES[name]])
    for item in load(path):
        assert item.culture == "thai"
        assert [turn.role for turn in item.prompt] == ["system", "user"]
        assert item.prompt[0].content == "Be short."
        assert item.prompt[1].content in (f"A guest came.\n\n{q}" for q in (ASKED, ALSO))


@pytest.mark.parametrize("context", [said("Hello.", "Hi."), json.dumps(said("Hello.", "Hi."))])
def test_a_known_table_drops_no_turns_before_its_question(tmp_path, context):
    row = TABLES["m-rewardbench"][0]
    rows = [row | {"id": 1, "context": context}, row | {"id": 2, "context": []}]
    first, second = load(write(tmp_path / "a.jsonl", rows))
    assert [turn.content for turn in first.prompt] == ["Hello.", "Hi.", second.prompt]


@pytest.mark.parametrize(
    ("name", "place", "column"),
    [
        ("argilla", "fields", "passage"),
        ("argilla", "fields", "document"),
        ("label-studio", "data", "passage"),
        ("label-studio", "data", "text"),
        ("arc-stems", "question", "para"),
        ("arc-stems", "", "story"),
    ],
)
def test_a_passage_within_an_object_is_not_dropped(tmp_path, name, place, column):
    rows = json.loads(json.dumps(TABLES[name]))
    for row in rows:
        (row[place] if place else row)[column] = "A guest came."
    for item in load(write(tmp_path / "a.jsonl", rows)):
        assert item.prompt.startswith("A guest came.\n\n")


def test_a_culture_that_is_a_mark_is_none(tmp_path):
    row = {"premise": "A guest came.", "choice1": WRONG, "choice2": RIGHT, "label": 1}
    marks = {"question": "cause", "Culture": 1, "Language": 0}
    (item,) = load(write(tmp_path / "a.jsonl", [row | marks]))
    assert item.culture == "unspecified"
    pytest.importorskip("lingua", reason="needs the extra carb-data[checks]")
    assert item.language == "en"


def test_turns_with_pictures_and_tools_are_refused_and_texts_in_parts_are_read(tmp_path):
    parts = [{"role": "user", "content": [{"type": "text", "text": ASKED}]}]
    row = {"prompt": parts, "chosen": said("", RIGHT)[1:], "rejected": said("", WRONG)[1:]}
    (item,) = load(write(tmp_path / "a.jsonl", [row]))
    assert item.prompt == ASKED
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    for turn in (picture, {"role": "tool", "content": "found"}):
        with pytest.raises(DataError, match=r"a\.jsonl:1: prompt: must be a text"):
            load(write(tmp_path / "a.jsonl", [row | {"prompt": [*parts, turn]}]))


def test_an_option_that_holds_several_texts_is_refused(tmp_path):
    row = {"question": ASKED, "response_a": [RIGHT, LEAVE], "response_b": [WRONG, KEEP]}
    with pytest.raises(DataError, match=r"a\.jsonl:1: options: an option holds a list"):
        load(write(tmp_path / "a.jsonl", [row | {"answer": "A"}]))


ROWS = [
    {"prompt": ASKED, "chosen": RIGHT, "rejected": WRONG},
    {"prompt": ALSO, "chosen": LEAVE, "rejected": KEEP},
]


@pytest.mark.parametrize("orient", ["columns", "index", "records", "split", "table"])
def test_every_form_of_pandas_that_has_names_is_read(tmp_path, orient):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(ROWS).to_json(tmp_path / "a.json", orient=orient)
    found = load(tmp_path / "a.json")
    assert [item.chosen.text for item in found] == [RIGHT, LEAVE]
    assert not any("Not read" in note for note in found.notes)


def test_rows_without_names_are_refused_with_the_remedy(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps([[*row.values()] for row in ROWS]))
    with pytest.raises(CarbError, match="orient='records'"):
        load(path)


def packed(path, kind):
    lines = "\n".join(map(json.dumps, ROWS))
    cells = "prompt,chosen,rejected\n" + "\n".join(",".join(row.values()) for row in ROWS)
    if kind in (".jsonl.gz", ".ndjson.gz"):
        path.write_bytes(gzip.compress(lines.encode()))
    elif kind == ".csv.gz":
        path.write_bytes(gzip.compress(cells.encode()))
    elif kind == ".parquet":
        pl.DataFrame(ROWS).write_parquet(path)
    elif kind == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("folder/rows.csv", cells)
            archive.writestr("README.txt", "invented")
            archive.writestr("__MACOSX/rows.csv", "x")
    else:
        path.write_text({".json": json.dumps(ROWS), ".ndjson": lines, ".lines.json": lines}[kind])
    return path


@pytest.mark.parametrize(
    "kind",
    [".json", ".lines.json", ".ndjson", ".jsonl.gz", ".ndjson.gz", ".csv.gz", ".parquet", ".zip"],
)
def test_a_table_is_read_from_every_kind_of_file(tmp_path, kind):
    found = load(packed(tmp_path / f"rows{kind}", kind))
    assert [item.chosen.text for item in found] == [RIGHT, LEAVE]
    assert [[answer.text for answer in item.rejected] for item in found] == [[WRONG], [KEEP]]


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.ndjson", "rows.jsonl.gz"])
@pytest.mark.parametrize("indent", [None, 1])
def test_a_list_of_json_may_be_called_json_lines(tmp_path, name, indent):
    path = tmp_path / name
    text = json.dumps(ROWS, indent=indent).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    assert [item.chosen.text for item in load(path)] == [RIGHT, LEAVE]


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "rows.json"])
@pytest.mark.parametrize("kind", [".jsonl.gz", ".zip", ".parquet"])
def test_a_packed_file_with_the_ending_of_a_text_is_refused(tmp_path, name, kind):
    content = packed(tmp_path / f"x{kind}", kind).read_bytes()
    (tmp_path / name).write_bytes(content)
    ending = {".jsonl.gz": ".gz"}.get(kind, kind)
    with pytest.raises(CarbError, match=rf"{name} .*first bytes.*\{ending}"):
        load(tmp_path / name)


def test_a_document_of_several_lists_of_rows_is_refused_with_their_names(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"train": ROWS[:1], "test": ROWS[1:]}))
    with pytest.raises(CarbError, match=r"a\.json .*train, test.*file of its own"):
        load(path)


def test_responses_with_scores_are_no_sets(tmp_path):
    row = {"question": ASKED, "responses": [{"text": RIGHT, "model": "m"}]}
    with pytest.raises(CarbError, match=r"its columns \(question, responses\)"):
        load(write(tmp_path / "a.jsonl", [row]))


def test_a_zip_of_two_tables_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.csv", "x")
        archive.writestr("b.csv", "x")
    with pytest.raises(CarbError, match="holds 2 tables; unpack it"):
        load(tmp_path / "a.zip")


def test_a_table_that_fits_two_shapes_is_refused_with_both_names(tmp_path):
    row = TABLES["judgebench"][0] | {"chosen": RIGHT, "rejected": WRONG}
    with pytest.raises(CarbError, match=r"fits two kinds of tables, .*JudgeBench"):
        load(write(tmp_path / "a.jsonl", [row]))


def test_an_unknown_table_is_told_the_nearest_shape_and_what_is_missing(tmp_path):
    row = {name: v for name, v in TABLES["judgebench"][0].items() if name != "label"}
    with pytest.raises(CarbError, match=r"Nearest is JudgeBench; missing: label"):
        load(write(tmp_path / "a.jsonl", [row]))


@pytest.mark.parametrize("name", shapes())
def test_a_declaration_is_short_and_says_what_it_is(name):
    declaration = shapes()[name]
    assert len(declaration.parts) == 1
    assert declaration.parts[0].columns
    assert declaration.description or declaration.parts[0].headings


def test_a_bad_row_of_a_known_table_is_named(tmp_path):
    rows = TABLES["judgebench"]
    bad = rows[1] | {"response_A": rows[1]["response_B"]}
    with pytest.raises(DataError, match=r"a\.jsonl:2: rejected: two answers are the same"):
        load(write(tmp_path / "a.jsonl", [rows[0], bad]))


def mmlu(tmp_path, *answers):
    path = tmp_path / "mmlu.jsonl"
    rows = [
        {"question": f"{ASKED} {n}", "subject": "manners", "choices": CHOICES, "answer": answer}
        for n, answer in enumerate(answers)
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.mark.parametrize(("answers", "first", "right"), [((1, 0), 0, 1), ((1, 4), 1, 0)])
def test_from_where_numbers_count_is_reported_where_it_is_certain(tmp_path, answers, first, right):
    sets = load(mmlu(tmp_path, *answers), language="en")
    assert sets[0].chosen.text == CHOICES[right]
    assert f"Answers that are numbers count from {first}." in sets.notes


def test_numbers_that_can_count_from_0_and_from_1_are_refused(tmp_path):
    with pytest.raises(CarbError, match="from 0 or from 1"):
        load(mmlu(tmp_path, 1, 2, 3), language="en")


def test_the_csv_of_mmlu_has_no_heading(tmp_path):
    path = tmp_path / "manners_test.csv"
    path.write_text(f"{ASKED},{','.join(CHOICES)},B\n{ALSO},{LEAVE},{KEEP},a,b,A\n", "utf-8")
    sets = load(path, language="en")
    assert [item.chosen.text for item in sets] == [RIGHT, LEAVE]
    assert "No heading" in " ".join(sets.notes)


def test_a_first_row_that_is_no_row_of_a_declared_table_is_a_heading(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("q,w,x,y,z,right\nWho?,we,they,a,b,B\n", "utf-8")
    with pytest.raises(CarbError, match="right"):
        load(path, language="en")


def test_one_person_who_ranks_otherwise_makes_a_tie(tmp_path):
    row = TABLES["argilla-2-ranking"][0] | {
        "ranking.responses": [["response_2", "response_1"], ["response_1", "response_2"]]
    }
    rows = [row, TABLES["argilla-2-ranking"][0] | {"id": "other"}]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    sets = load(path, language="en")
    assert [item.chosen.text for item in sets] == [RIGHT]
    assert any(note.startswith("1 rows are ties") for note in sets.notes)
    assert not any("ranking.responses (" in note for note in sets.notes)


def test_columns_of_language_and_country_in_rewardbench_2_are_read(tmp_path):
    (row,) = TABLES["rewardbench-2"]
    (item,) = load(write(tmp_path / "a.jsonl", [row | {"language": "Thai", "country": "Thailand"}]))
    assert (item.language, item.culture) == ("th", "thai")


def test_a_table_that_no_shape_is_near_to_names_none(tmp_path):
    with pytest.raises(CarbError, match=r"its columns \(height, weight\)") as caught:
        load(write(tmp_path / "a.jsonl", [{"height": "1", "weight": "2"}]))
    assert "Nearest" not in str(caught.value)
    with pytest.raises(CarbError) as caught:
        load(write(tmp_path / "b.jsonl", [{f"a column {n}": n for n in range(5_000)}]))
    assert len(str(caught.value)) < 2_000


def test_texts_that_the_hubs_viewer_cut_off_are_refused(tmp_path):
    row = {"prompt": ASKED, "chosen": RIGHT, "rejected": WRONG}
    rows = [{"row_idx": 0, "row": row, "truncated_cells": []}]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"features": [], "rows": rows}), encoding="utf-8")
    assert load(path, language="en")[0].chosen.text == RIGHT
    rows.append(rows[0] | {"truncated_cells": ["chosen"]})
    path.write_text(json.dumps({"features": [], "rows": rows}), encoding="utf-8")
    with pytest.raises(CarbError, match=r"a\.json:2: chosen: .*download"):
        load(path, language="en")


def test_a_developer_speaks_as_the_system(tmp_path):
    turns = [{"role": "developer", "content": "Be short."}, {"role": "user", "content": ASKED}]
    row = {"prompt": turns, "chosen": RIGHT, "rejected": WRONG}
    (item,) = load(write(tmp_path / "a.jsonl", [row]), language="en")
    assert [turn.role for turn in item.prompt] == ["system", "user"]
