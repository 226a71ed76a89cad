"""Downstream tasks: reading published forms, and grades worked out by hand."""

import csv
import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_data import CarbError
from carb_data.tasks import open_task
from carb_data.tasks.base import TaskPrompt, evenly
from carb_data.tasks.choices import read_choice, with_options
from carb_data.tasks.include import LANGUAGES as INCLUDE_LANGUAGES
from carb_data.tasks.matching import first_line, form, says

OPTIONS = ("green tea", "tea", "Coffee", "rice wine")


def entry(answers, english, count):
    return {"answers": answers, "en_answers": english, "count": count}


@pytest.fixture
def blend(tmp_path: Path) -> Path:
    """A folder of BLEnD's form with two places and four questions."""
    (tmp_path / "annotations").mkdir()
    (tmp_path / "questions").mkdir()
    known = {"idk": 0, "no-answer": 0, "not-applicable": 0}
    china = {
        "q1": {
            "question": "喝啤酒时吃什么？",
            "en_question": "What goes with beer in China?",
            "annotations": [
                entry(["花生米", "花生"], ["peanuts"], 3),
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
        "q4": {"question": "问", "en_question": "Nobody?", "annotations": [], "idks": {**known, "idk": 5}},
    }
    uk = {
        "q1": {
            "question": "What goes with beer in the UK?",
            "en_question": "What goes with beer in the UK?",
            "annotations": [entry(["crisps"], ["crisps"], 4), entry(["salted peanuts"], ["salted peanuts"], 1)],
            "idks": known,
        }
    }
    for place, content in {"China": china, "UK": uk}.items():
        (tmp_path / "annotations" / f"{place}_data.json").write_text(json.dumps(content), encoding="utf-8")
        rows = [["", "ID", "Topic", "Source", "Question", "Translation"]]
        rows += [[n, number, "Food", "x", "y", "z"] for n, number in enumerate(content)]
        with (tmp_path / "questions" / f"{place}_questions.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
    return tmp_path


class TestBlend:
    def test_asks_the_questions_that_count(self, blend):
        task = open_task(f"blend:{blend}?places=China,UK")
        assert [prompt.id for prompt in task.prompts] == ["China/q1/en", "China/q2/en", "UK/q1/en"]
        first = task.prompts[0]
        assert (first.culture, first.language, first.topic, first.source_item) == (
            "chinese-cn",
            "en",
            "Food",
            "blend:q1",
        )

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

    def test_an_answer_alone_is_itself_and_not_a_part_of_it(self, blend):
        """'salted peanuts' is in neither's way where both are answers; the whole answer is tried first."""
        task = open_task(f"blend:{blend}?places=UK&weighted=true")
        assert task.grade("UK/q1/en", "salted peanuts") == 0.25
        assert task.grade("UK/q1/en", "Crisps!") == 1

    def test_times_in_one_piece(self, blend):
        task = open_task(f"blend:{blend}?places=China")
        assert task.grade("China/q2/en", "at 08:00") == 1
        assert task.grade("China/q2/en", "18:00") == 0
        assert task.grade("China/q2/en", "30 past 7") == 0

    def test_the_language_of_the_place_takes_both_languages(self, blend):
        task = open_task(f"blend:{blend}?places=China&language=local")
        assert task.prompts[0].text == "喝啤酒时吃什么？"
        assert task.grade("China/q1/zh", "我们吃花生米。") == 1
        assert task.grade("China/q1/zh", "peanuts") == 1
        assert task.grade("China/q1/zh", "花") == 0

    def test_exact_asks_for_nothing_else(self, blend):
        task = open_task(f"blend:{blend}?places=China&match=exact")
        assert task.grade("China/q1/en", "The peanut.") == 1
        assert task.grade("China/q1/en", "some peanuts") == 0

    def test_whole_reads_beyond_the_first_line(self, blend):
        assert open_task(f"blend:{blend}?places=China&whole=true").grade("China/q1/en", "beer\npeanuts") == 1

    def test_leaves_out_the_questions_of_another_benchmark(self, blend, tmp_path):
        (tmp_path / "ids.txt").write_text("q1\n\n")
        task = open_task(f"blend:{blend}?places=China,UK&without={tmp_path / 'ids.txt'}")
        assert [prompt.id for prompt in task.prompts] == ["China/q2/en"]

    def test_leaves_out_source_items(self, blend, tmp_path):
        """As a run of policy optimisation lists what it was trained on."""
        (tmp_path / "trained-on.txt").write_text("blend:q2\n")
        task = open_task(f"blend:{blend}?places=China&without={tmp_path / 'trained-on.txt'}")
        assert [prompt.id for prompt in task.prompts] == ["China/q1/en"]

    def test_leaves_out_the_questions_of_a_data_set(self, blend, tmp_path):
        item = {
            "id": "x",
            "culture": "chinese-cn",
            "domain": "commonsense",
            "language": "en",
            "prompt": "?",
            "responses": [
                {"id": "a", "text": "x", "role": "chosen", "language": "en"},
                {"id": "b", "text": "y", "role": "rejected", "language": "en"},
            ],
            "provenance": {"source": "blend", "source_id": "q1", "license": "x", "method": "human-vote"},
        }
        (tmp_path / "sets.jsonl").write_text(json.dumps(item) + "\n")
        task = open_task(f"blend:{blend}?places=China,UK&without={tmp_path / 'sets.jsonl'}")
        assert [prompt.id for prompt in task.prompts] == ["China/q2/en"]

    def test_distinct_asks_each_question_once(self, blend):
        task = open_task(f"blend:{blend}?places=China,UK&distinct=true")
        assert sorted(prompt.source_item for prompt in task.prompts) == ["blend:q1", "blend:q2"]

    def test_grade_all_is_grade(self, blend):
        task = open_task(f"blend:{blend}?places=China")
        answers = [("China/q1/en", "peanuts"), ("China/q2/en", "9:00")]
        assert task.grade_all(answers) == [1.0, 0.0]

    @pytest.mark.parametrize(
        ("spec", "told"),
        [
            ("blend", "is not a task"),
            ("blnd:{path}", "Did you mean 'blend'"),
            ("blend:{path}?places=Chian", "Did you mean 'China'"),
            ("blend:{path}?weihted=true", "did you mean 'weighted'"),
            ("blend:{path}?limit=0", "limit='0'"),
            ("blend:{path}?limit=1&limit=2", "twice"),
            ("blend:{path}?limit", "key=value"),
            ("blend:{path}/questions", "does not hold BLEnD"),
            ("blend:{path}?places=Greece", "questions/Greece_questions.csv"),
            ("blend:{path}?places=China&ids=nothing", "no questions left"),
            ("blend:{path}?without=absent.txt", "absent.txt"),
        ],
    )
    def test_mistakes_are_told(self, blend, spec, told):
        with pytest.raises(CarbError) as caught:
            open_task(spec.format(path=blend))
        assert told in str(caught.value)


@pytest.mark.parametrize(
    ("language", "response", "answer"),
    [
        ("en", "The Boxes of cherries", "cherry"),
        ("en", "around two", "2"),
        ("en", "1,000 dollars", "1000 dollars"),
        ("en", "A", "a"),
        ("es", "Los plátanos fritos", "platano"),
        ("es", "¡Feliz Navidad!", "la navidad"),
        ("ar", "يأكلون التَّمْر والحليب", "تمر"),
        ("ar", "الساعة ٨:٣٠", "8:30"),
        ("fa", "كباب می\u200cخورند", "کباب"),
        ("zh", "我觉得是红包。", "红包"),
        ("ko", "저는 김치를 먹습니다", "김치"),
        ("az", "Plovu yeyirlər", "plov"),
        ("el", "Το ΨΩΜΊ", "ψωμι"),
        ("ha", "ɗan wake", "dan wake"),
        ("am", "ዳቦ፣ ሻይ", "ሻይ"),
        ("as", "ভাত আৰু মাছ।", "মাছ"),
    ],
)
def test_each_language_in_its_form(language, response, answer):
    assert says(form(response, language), form(answer, language), language)


@pytest.mark.parametrize(
    ("language", "response", "answer"),
    [
        ("en", "the price is high", "rice"),
        ("en", "10", "1"),
        ("en", "8:30", "30:8"),
        ("zh", "100", "10"),
        ("ko", "김치찌개", "김치"),  # another dish, not a particle
        ("az", "su", "s"),
        ("en", "", "x"),
        ("en", "x", ""),
    ],
)
def test_what_is_not_said(language, response, answer):
    assert not says(form(response, language), form(answer, language), language)


LANGUAGES = ["en", "es", "ar", "zh", "ko", "fa", "el", "am", "as", "az", "id", "su", "ha"]


@given(st.text(max_size=30), st.sampled_from(LANGUAGES))
def test_a_text_says_itself_if_it_says_anything(text, language):
    found = form(text, language)
    assert says(found, found, language) == bool(found.words)
    assert form(found.joined, language).words is not None


def test_first_line_of_anything():
    assert first_line("\n  \n a b \nc") == "a b"
    assert first_line("\n") == ""


class TestChoices:
    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ("B", 1),
            (" C.", 2),
            ("(D)", 3),
            ("**A**", 0),
            ("A) green tea", 0),
            ('{"answer_choice": "C"}', 2),
            ("I think the answer is B, because people like it.", 1),
            ("Answer: D", 3),
            ("[[A]]", 0),
            ("Coffee", 2),
            ("coffee.", 2),
            ("People drink green tea there", 0),
            ("A lot of coffee", 2),  # "A" is an article here
            ("[[A]] or [[B]]", None),
            ("coffee and rice wine", None),
            ("E", None),
            ("", None),
            ("I do not know", None),
        ],
    )
    def test_reads(self, text, place):
        assert read_choice(text, OPTIONS) == place

    @given(st.text(max_size=80))
    def test_any_text_gives_a_place_or_nothing(self, text):
        assert read_choice(text, OPTIONS) in (None, 0, 1, 2, 3)

    def test_long_runs_of_spaces_cost_nothing(self):
        assert read_choice("answer" + " " * 200_000 + "B", OPTIONS) == 1
        assert read_choice("answer is" + " " * 200_000 + "?", OPTIONS) is None

    def test_shows_options_by_letter(self):
        assert with_options("Which? ", ["x", " y"]) == "Which?\nA. x\nB. y"


class TestBlendChoice:
    def test_reads_the_published_file(self, tmp_path):
        file = tmp_path / "mc_questions_file.csv"
        shown = "What goes with beer in China? Without any explanation, choose only one ...\n\nA. crisps\nB. peanuts\n"
        row = {
            "MCQID": "q1_0",
            "ID": "q1",
            "country": "China",
            "prompt": shown,
            "choices": json.dumps({"A": "crisps", "B": "peanuts", "C": "olives", "D": "fish"}),
            "choice_countries": json.dumps({"A": "UK", "B": "China", "C": "Greece", "D": "dummy"}),
            "answer_idx": "B",
        }
        with file.open("w", newline="", encoding="utf-8") as lines:
            writer = csv.DictWriter(lines, list(row))
            writer.writeheader()
            writer.writerows([row, {**row, "country": "Iran"}])
        task = open_task(f"blend-choice:{file}")
        (prompt,) = task.prompts
        assert prompt.text == "What goes with beer in China?\nA. crisps\nB. peanuts\nC. olives\nD. fish"
        assert [task.grade(prompt.id, text) for text in ("B", "peanuts", "A", "?")] == [1, 1, 0, 0]

    def test_a_broken_row_is_told_with_its_line(self, tmp_path):
        file = tmp_path / "mc.csv"
        file.write_text("MCQID,ID,country,prompt,choices,choice_countries,answer_idx\nq,q,UK,p,nonsense,{},A\n")
        with pytest.raises(CarbError, match=r"mc\.csv:2"):
            open_task(f"blend-choice:{file}")


class TestInclude:
    ROWS = (
        ("Welches Amt?", "explicit", "Social Science", 2),
        ("Was ist 2 + 2?", "agnostic", "STEM", 0),
        ("Wer darf fahren?", "implicit", "Driving License", 3),
    )

    @pytest.fixture
    def include(self, tmp_path):
        for split, rows in {"test": self.ROWS, "validation": (("Beispiel?", "agnostic", "STEM", 1),)}.items():
            frame = pl.DataFrame(
                [
                    {
                        "language": "German",
                        "country": "Germany",
                        "domain": domain,
                        "subject": "x",
                        "regional_feature": feature,
                        "level": "Academic",
                        "question": question,
                        **{f"option_{letter}": f"{question} {letter}" for letter in "abcd"},
                        "answer": answer,
                    }
                    for question, feature, domain, answer in rows
                ]
            )
            folder = tmp_path / "German"
            folder.mkdir(exist_ok=True)
            frame.write_parquet(folder / f"{split}-00000-of-00001.parquet")
        return tmp_path

    def test_asks_and_grades(self, include):
        task = open_task(f"include:{include}?languages=German")
        assert len(task.prompts) == 3
        first = task.prompts[0]
        assert (first.culture, first.language, first.topic) == ("german", "de", "Social Science")
        assert first.text.endswith("\nD. Welches Amt? d")
        assert task.grade(first.id, "C") == 1
        assert task.grade(first.id, "B") == 0
        assert task.shots == (("Beispiel?\nA. Beispiel? a\nB. Beispiel? b\nC. Beispiel? c\nD. Beispiel? d", "B"),)

    def test_forty_four_languages_have_a_code_each(self):
        assert len(INCLUDE_LANGUAGES) == len(set(INCLUDE_LANGUAGES.values())) == 44

    def test_regional_questions_only(self, include):
        assert len(open_task(f"include:{include}?regional=true").prompts) == 2
        assert len(open_task(f"include:{include}?domains=STEM").prompts) == 1

    def test_a_list_of_choices_will_do(self, tmp_path):
        (tmp_path / "Dutch").mkdir()
        row = {"question": "Wat?", "choices": ["a1", "b1", "c1", "d1"], "answer": 1, "domain": None, "subject": "y"}
        pl.DataFrame([row]).write_parquet(tmp_path / "Dutch" / "test-0.parquet")
        task = open_task(f"include:{tmp_path}")
        assert (task.prompts[0].culture, task.prompts[0].topic) == ("nl", "y")
        assert task.grade(task.prompts[0].id, "b1") == 1

    @pytest.mark.parametrize(
        ("change", "told"), [({"answer": 4}, "answer 4"), ({"question": " "}, "is not a question")]
    )
    def test_bad_rows_are_told(self, tmp_path, change, told):
        (tmp_path / "Dutch").mkdir()
        row = {"question": "Wat?", "choices": ["a1", "b1", "c1", "d1"], "answer": 1, **change}
        pl.DataFrame([row]).write_parquet(tmp_path / "Dutch" / "test-0.parquet")
        with pytest.raises(CarbError, match=told):
            open_task(f"include:{tmp_path}")

    def test_another_folder_is_told(self, tmp_path, include):
        with pytest.raises(CarbError, match="not a copy of INCLUDE"):
            open_task(f"include:{tmp_path / 'German'}")
        with pytest.raises(CarbError, match="Did you mean 'German'"):
            open_task(f"include:{include}?languages=Germn")


class TestOmgeval:
    @pytest.fixture
    def omgeval(self, tmp_path):
        (tmp_path / "data").mkdir()
        (tmp_path / "model_outputs" / "spanish").mkdir(parents=True)
        (tmp_path / "data" / "OMGEval_Spanish_local.txt").write_text(
            "¿Quién escribió esto?\n¿Vacío?\n", encoding="utf-8"
        )
        rows = [
            {"instruction": "¿Quién escribió  esto?", "output": "Nadie.", "generator": "m"},
            {"instruction": "¿Otra cosa?", "output": "Sí.", "generator": "m"},
            {"instruction": "¿Vacío?", "output": " ", "generator": "m"},
        ]
        (tmp_path / "model_outputs" / "spanish" / "gpt4.json").write_text(json.dumps(rows), encoding="utf-8")
        return tmp_path

    def open(self, omgeval, judge, questions="local"):
        return open_task(f"omgeval:{omgeval}?languages=spanish&reference=gpt4&questions={questions}", judge=judge)

    def test_local_questions_with_an_answer_to_beat(self, omgeval):
        assert [prompt.id for prompt in self.open(omgeval, None).prompts] == ["omgeval/spanish/0"]
        assert len(self.open(omgeval, None, "all").prompts) == 2

    def test_both_orders_cancel_a_judge_that_likes_the_first(self, omgeval):
        task = self.open(omgeval, lambda asked: [1.0 for _ in asked])
        assert task.grade("omgeval/spanish/0", "Alguien.") == 0.5

    def test_the_better_answer_wins_both(self, omgeval):
        seen = []

        def judge(asked):
            seen.extend((one.first, one.second) for one in asked)
            return [1.0 if len(one.first) > len(one.second) else 0.0 for one in asked]

        task = self.open(omgeval, judge)
        assert task.grade("omgeval/spanish/0", "Una respuesta larga.") == 1
        assert task.grade("omgeval/spanish/0", "No.") == 0
        assert seen[:2] == [("Una respuesta larga.", "Nadie."), ("Nadie.", "Una respuesta larga.")]

    def test_a_judge_that_fails_once_gives_no_grade_and_an_empty_answer_loses(self, omgeval):
        task = self.open(omgeval, lambda asked: [1.0, None][: len(asked)])
        assert task.grade_all([("omgeval/spanish/0", "x"), ("omgeval/spanish/0", " ")]) == [None, 0.0]

    def test_without_a_judge_it_says_so(self, omgeval):
        with pytest.raises(CarbError, match="needs a judge"):
            self.open(omgeval, None).grade("omgeval/spanish/0", "x")


def test_evenly_takes_from_every_culture_in_order():
    prompts = [
        TaskPrompt(id=f"{culture}{n}", text="x", culture=culture, language="en", source_item=str(n))
        for culture in ("a", "b")
        for n in range(5)
    ]
    assert [prompt.id for prompt in evenly(prompts, 3)] == ["a0", "a1", "b0"]
    assert evenly(prompts, None) == tuple(prompts)
