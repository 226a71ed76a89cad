"""Multiple choice and OMGEval as downstream tasks, and tasks of other distributions."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from carb_data import CarbError
from carb_data.tasks import open_task


@pytest.fixture
def choices(tmp_path: Path) -> Path:
    """Two questions in INCLUDE's form."""
    rows = [
        {
            "question": f"Which tea do people pour first, round {number}?",
            "choices": ["green tea", "black tea", "mint tea", "none"],
            "answer": number,
            "language": "English",
            "country": "Japan",
        }
        for number in (0, 2)
    ]
    path = tmp_path / "include.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_a_choice_is_graded_by_its_letter_its_text_or_both(choices: Path) -> None:
    task = open_task(f"choice:{choices}")
    assert len(task.prompts) == 2
    for prompt, right in zip(task.prompts, ("green tea", "mint tea"), strict=True):
        lines = prompt.text.splitlines()
        letter = next(line[0] for line in lines if line.endswith(f". {right}"))
        for text in (letter, f"({letter})", f"[[{letter}]]", right, f"{letter}. {right}"):
            assert task.grade(prompt.id, text) == 1, text
        wrong = "A" if letter != "A" else "B"
        for text in (wrong, f"{wrong}. {right}", "black tea", f"{letter} or {wrong}", "", "Z"):
            assert task.grade(prompt.id, text) == 0, text
    assert len(open_task(f"choice:{choices}?limit=1").prompts) == 1


def test_a_letter_counts_as_one_where_options_are_letters(tmp_path: Path) -> None:
    row = {"id": "x", "prompt": "Which letter comes last?", "chosen": "D"}
    (tmp_path / "l.jsonl").write_text(json.dumps(row | {"rejected": ["A", "B", "C"]}))
    task = open_task(f"choice:{tmp_path / 'l.jsonl'}")
    lines = task.prompts[0].text.splitlines()
    letter = next(line[0] for line in lines if line.endswith(". D"))
    grades = {text: task.grade(task.prompts[0].id, text) for text in "ABCD"}
    assert grades == {text: float(text == letter) for text in "ABCD"}


def test_more_options_than_letters_are_refused(tmp_path: Path) -> None:
    """The right one might not be shown."""
    rejected = [f"wrong {number}" for number in range(26)]
    row = {"id": "x", "prompt": "Which?", "chosen": "right", "rejected": rejected}
    (tmp_path / "w.jsonl").write_text(json.dumps(row))
    with pytest.raises(CarbError, match="26"):
        open_task(f"choice:{tmp_path / 'w.jsonl'}")


def test_the_order_of_options_is_the_same_every_time(choices: Path) -> None:
    first, second = (open_task(f"choice:{choices}").prompts for _ in range(2))
    assert first == second


def test_omgeval_is_asked_and_not_graded(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "Japanese_local.txt").write_text("お茶は？\n\n餅は？\n", encoding="utf-8")
    task = open_task(f"omgeval:{tmp_path}?languages=ja")
    assert [(p.culture, p.text) for p in task.prompts] == [
        ("japanese", "お茶は？"),
        ("japanese", "餅は？"),
    ]
    assert task.grade(task.prompts[0].id, "緑茶") is None
    with pytest.raises(CarbError, match="Arabic_local"):
        open_task(f"omgeval:{tmp_path}?languages=ar")
    with pytest.raises(CarbError, match="th"):
        open_task(f"omgeval:{tmp_path}?languages=th")


def test_the_real_omgeval() -> None:
    folder = Path(os.environ.get("CARB_DATA_DIR", "")) / "omgeval"
    if not folder.is_dir():
        pytest.skip("needs OMGEval in CARB_DATA_DIR")
    prompts = open_task(f"omgeval:{folder}").prompts
    counts = Counter(prompt.language for prompt in prompts)
    assert counts == {"ar": 212, "es": 197, "ja": 212, "ko": 204, "ru": 181, "zh": 231}


def test_another_distribution_registers_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[carb.tasks]\nmine = my_task:made\n")
    (tmp_path / "my_task.py").write_text(
        "from carb_data.tasks import Task, TaskPrompt\n"
        "def made(name, path, options):\n"
        "    text = f\"{path}{options['word']}\"\n"
        "    about = {'culture': 'thai', 'language': 'th', 'source_item': 'x'}\n"
        "    return Task(name, (TaskPrompt(id='1', text=text, **about),))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert open_task("mine:folder?word=!").prompts[0].text == "folder!"
    with pytest.raises(CarbError, match="mine"):
        open_task("unknown:folder")
