"""Answers that a judge compares with published ones."""

import json

import pytest

from carb_data.tasks import open_task


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

    def open(self, omgeval, judge):
        return open_task(f"omgeval:{omgeval}?languages=spanish&reference=gpt4", judge=judge)

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
