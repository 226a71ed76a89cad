"""BLEnD as a task: its published form, grades worked out by hand, and when an answer says a
word."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_data import CarbError
from carb_data.tasks import TaskPrompt, evenly, open_task
from carb_data.tasks.blend_task import form, is_list, says
from small_sets import write_blend


def entry(answers, english, count):
    return {"answers": answers, "en_answers": english, "count": count}


@pytest.fixture
def blend(tmp_path: Path) -> Path:
    """A folder of BLEnD's form with two places and four questions."""
    known = {"idk": 0, "no-answer": 0, "not-applicable": 0}
    china = {
        "q1": {
            "question": "喝啤酒时吃什么？",
            "en_question": "What goes with beer in China?",
            "annotations": [
                entry(["花生米"], ["peanuts"], 3),
                entry(["毛豆"], ["green soybeans", "edamame"], 1),
            ],
            "idks": known,
        },
        "q2": {
            "question": "几点？",
            "en_question": "When do schools start in China? (HH:MM)",
            "annotations": [entry(["8:00"], ["8:00"], 2), entry(["7:30"], ["7:30"], 2)],
            "idks": known,
        },
        "q3": {
            "question": "问",
            "en_question": "Does it apply?",
            "annotations": [entry(["是"], ["yes"], 2)],
            "idks": {**known, "not-applicable": 3},
        },
        "q4": {
            "question": "问",
            "en_question": "Nobody?",
            "annotations": [],
            "idks": {**known, "idk": 5},
        },
    }
    uk = {
        "q1": {
            "question": "What goes with beer in the UK?",
            "en_question": "What goes with beer in the UK?",
            "annotations": [
                entry(["crisps"], ["crisps"], 4),
                entry(["salted peanuts"], ["salted peanuts"], 1),
            ],
            "idks": known,
        }
    }
    return write_blend(tmp_path / "blend", {"China": china, "UK": uk})


class TestBlend:
    def test_asks_the_questions_that_count(self, blend):
        task = open_task(f"blend:{blend}?places=China,UK")
        assert [prompt.id for prompt in task.prompts] == ["China/q1/en", "China/q2/en", "UK/q1/en"]
        first = task.prompts[0]
        assert (first.culture, first.language) == ("chinese-cn", "en")
        assert first.source_item == "blend:q1"

    @pytest.mark.parametrize(
        ("text", "plain", "weighted"),
        [
            ("peanuts", 1, 1),
            ("Some peanuts, of course.", 1, 1),
            ("Edamame", 1, 1 / 3),
            ("green soybeans and beer", 1, 1 / 3),
            ("edamame or peanuts", 1, 1),  # the most voted one that is there
            ("peanutbutter", 0, 0),
            ("crisps", 0, 0),
            ("", 0, 0),
            ("beer\npeanuts", 0, 0),  # only the first line is the answer
        ],
    )
    def test_grades_by_hand(self, blend, text, plain, weighted):
        assert open_task(f"blend:{blend}?places=China").grade("China/q1/en", text) == plain
        found = open_task(f"blend:{blend}?places=China&weighted=true").grade("China/q1/en", text)
        assert found == pytest.approx(weighted)

    @pytest.mark.parametrize(
        ("spec", "told"),
        [
            ("blend", "is not a task"),
            ("blend:{path}?places=Chian", "Did you mean 'China'"),
            ("blend:{path}?weihted=true", "did you mean 'weighted'"),
            ("blend:{path}?limit=1&limit=2", "twice"),
            ("blend:{path}?limit", "key=value"),
            ("blend:{path}?places=Greece", "annotations/Greece_data.json"),
        ],
    )
    def test_mistakes_are_told(self, blend, spec, told):
        with pytest.raises(CarbError) as caught:
            open_task(spec.format(path=blend))
        assert told in str(caught.value)


def test_own_prompts_are_read_and_not_graded(tmp_path):
    line = {"id": "a", "prompt": "How?", "culture": "thai", "language": "th", "responses": []}
    file = tmp_path / "p.jsonl"
    file.write_text(json.dumps(line), encoding="utf-8")
    task = open_task(f"prompts:{file}")
    assert [(prompt.id, prompt.text, prompt.source_item) for prompt in task.prompts] == [
        ("a", "How?", "prompts:a")
    ]
    assert task.grade("a", "so") is None
    file.write_text(f"{json.dumps(line)}\n{json.dumps(line)}\n{{}}\n", encoding="utf-8")
    with pytest.raises(
        CarbError, match=r"(?s)p.jsonl:2: id: 'a' is there already.*p.jsonl:3: prompt: is missing"
    ):
        open_task(f"prompts:{file}")
    for spec, told in (
        ("prompts:none.jsonl", "Cannot read the prompts"),
        (f"prompts:{file}?limit=1", "no options"),
    ):
        with pytest.raises(CarbError, match=told):
            open_task(spec)


def test_evenly_takes_from_every_culture_in_order():
    prompts = [
        TaskPrompt(id=f"{culture}{n}", text="x", culture=culture, language="en", source_item=str(n))
        for culture in ("a", "b")
        for n in range(5)
    ]
    assert [prompt.id for prompt in evenly(prompts, 3)] == ["a0", "a1", "b0"]
    assert evenly(prompts, None) == tuple(prompts)


@pytest.mark.parametrize(
    ("response", "answer", "said"),
    [
        ("The Boxes of cherries", "cherry", True),
        ("around two", "2", True),
        ("1,000 dollars", "1000 dollars", True),
        ("A", "a", True),
        ("the price is high", "rice", False),
        ("10", "1", False),
        ("8:30", "30:8", False),
        ("", "x", False),
        ("x", "", False),
    ],
)
def test_a_word_is_said_in_its_forms_and_nowhere_else(response, answer, said):
    assert says(form(response), form(answer)) == said


@given(st.text(max_size=30))
def test_a_text_says_itself_if_it_says_anything(text):
    found = form(text)
    assert says(found, found) == bool(found)


def test_a_list_is_no_answer():
    for mark in (", ", "; ", "\n"):
        assert is_list(mark.join(["rice", "bread", "football", "water"]))
    assert is_list(" ".join(["rice bread football water"] * 5))
