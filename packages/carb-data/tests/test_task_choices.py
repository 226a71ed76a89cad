"""Tasks of multiple choice, and those that a judge compares."""

import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_data import CarbError
from carb_data.tasks import open_task
from carb_data.tasks.choices import read_choice, with_options
from carb_data.tasks.include import LANGUAGES as INCLUDE_LANGUAGES

OPTIONS = ("green tea", "tea", "Coffee", "rice wine")


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
        assert (task.prompts[0].culture, task.prompts[0].topic) == ("dutch", "y")
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


@pytest.mark.parametrize(
    "text",
    [
        "Antwort: B",
        "Die richtige Antwort ist B.",
        "La respuesta correcta es la opción B",
        "Resposta: (B)",
        "La réponse est B",
        "正解はBです。",
        "答案：Ｂ",
        "정답은 B입니다.",
        "คำตอบ: B",
        "Ответ: B",
        "Правильный ответ — B",
        "الإجابة الصحيحة هي B",
        "תשובה: B",
        "Đáp án: B",
        "Câu trả lời đúng là B",
        "Doğru cevap: B",
        "A helyes válasz: B",
        "Vastaus on B",
        "სწორი პასუხია B",
        "उत्तर: B",
        "Jawaban yang benar adalah B",
        "Η απάντηση είναι B",
        "Odpowiedź: B",
        "Erantzuna: B",
    ],
)
def test_a_choice_is_read_in_every_language(text):
    assert read_choice(text, ["one", "two", "three", "four"]) == 1


def test_two_letters_are_no_choice_in_any_language():
    assert read_choice("Antwort: B. Nein, die Antwort ist C.", ["one", "two", "three", "four"]) is None
