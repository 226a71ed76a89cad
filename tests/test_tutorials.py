"""Each tutorial works as it is written, from an empty folder."""

from __future__ import annotations

import csv
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from carb_cli import main
from pages import SILENT, Page, blocks

ROOT = Path(__file__).parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"
sys.path.insert(0, str(ROOT / "packages" / "carb-scorers" / "tests"))


def go(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, server: str = "") -> None:
    """Run all blocks of a tutorial in a folder, with the address of a server of the test in place of the page's."""
    monkeypatch.chdir(folder)
    page = Page(folder, main)
    for block in blocks(TUTORIALS / f"{name}.md"):
        if block.language in SILENT or block.reason is not None:
            continue
        if "carb review collect" in block.text:
            fill_sheets(folder)
        page.run(replace(block, text=block.text.replace("http://127.0.0.1:8000/v1", server)))


def fill_sheets(folder: Path) -> None:
    """What three people write who agree with the author."""
    openpyxl = pytest.importorskip("openpyxl", reason="needs the extra carb-cli[review]")
    with (folder / "swahili.csv").open(encoding="utf-8") as file:
        right = {row["chosen"] for row in csv.DictReader(file)}
    for number, path in enumerate(sorted(folder.glob("*.xlsx"))):
        book = openpyxl.load_workbook(path)
        book["you"]["B1"], book["you"]["B4"] = f"person {number}", "yes"
        sheet = book["answers"]
        head = [cell.value for cell in sheet[1]]
        for row in sheet.iter_rows(min_row=2):
            cells = dict(zip(head, row, strict=True))
            shown = {n: cells[f"answer {n}"].value for n in range(1, 5)}
            question = cells["question"].value
            wanted = "Marahaba." if "anajibu" in question else "Shikamoo."
            assert wanted in right
            cells["best"].value = next(n for n, text in shown.items() if text == wanted)
        book.save(path)


def test_my_classifier(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")
    import tiny_models

    (tmp_path / "my-classifier").symlink_to(tiny_models.folder(base, "llama", "SequenceClassification", chat=True))
    go("my-classifier", tmp_path, monkeypatch)
    assert "classifier" in (tmp_path / "runs" / "try" / "run.json").read_text(encoding="utf-8")


def test_a_judge_behind_an_api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from openai_server import Server, chat

    server = Server(lambda _number, _body: chat("The first fits. [[A]]"))
    try:
        go("api-judge", tmp_path, monkeypatch, server=server.url)
    finally:
        server.close()
    assert len(server.bodies) == 8, "the dry run asks nothing, and each set is asked about once"
    assert (tmp_path / "report.html").is_file()


def test_my_spreadsheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go("my-spreadsheet", tmp_path, monkeypatch)
    head = (tmp_path / "thai.csv").read_text(encoding="utf-8-sig").splitlines()[0]
    assert (tmp_path / "sets.csv").read_text(encoding="utf-8").startswith(head), "the page shows the sheet's columns"


def test_my_culture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go("my-culture", tmp_path, monkeypatch)
    assert re.search(r'id="human-line">100\.0%', (tmp_path / "report.html").read_text(encoding="utf-8"))


def test_two_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go("two-models", tmp_path, monkeypatch)
    assert r"\toprule" in (tmp_path / "table.tex").read_text(encoding="utf-8")


def test_every_tutorial_is_tested() -> None:
    written = {path.stem for path in TUTORIALS.glob("*.md")}
    assert written == {"my-classifier", "api-judge", "my-spreadsheet", "my-culture", "two-models"}
