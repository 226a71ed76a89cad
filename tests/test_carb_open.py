"""carb-open, built whole from the published files: what its page says of it, and the reference results on it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from carb_cli.results.entry import Candidates, check, found_in, read, shipped
from carb_data import BonSet, Dataset
from carb_data.card import card, cells
from carb_data.sources.base import rows

PAGE = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "sources.md"
NAME = "carb-open.jsonl"


@pytest.fixture(scope="module")
def carb_open(public_data: Path) -> Dataset:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CARB_DATA_DIR", str(public_data.resolve()))
        return Dataset(row for row in rows("carb-open") if isinstance(row, BonSet))


def test_the_page_says_what_is_built(carb_open: Dataset) -> None:
    page = " ".join(PAGE.read_text().split())
    counts = cells(carb_open)
    assert f"{len(carb_open):,} sets (fingerprint `{carb_open.fingerprint[:12]}…`)" in page
    cultural = sum(main + mirrors >= 100 for main, mirrors, _ in counts.values())
    without = sum(main >= 100 for main, _, _ in counts.values())
    every = sum(sum(cell) >= 100 for cell in counts.values())
    assert f"{cultural} of the 40 cells had 100 cultural sets or more ({without} counting only sets" in page
    assert f"that are no mirrors), {every} with school knowledge, toxicity and stereotypes" in page
    table = re.search(r"\| culture \| commonsense.*?\n\n", card(carb_open, "open"), re.DOTALL)
    assert table is not None
    assert [line for line in table[0].split("\n")[2:] if line and " ".join(line.split()) not in page] == []


def test_it_is_as_large_as_was_asked_for_and_no_cell_is_over_its_cap(carb_open: Dataset) -> None:
    """The goal: 6,000 sets, 30 cells of 100 or more, English and local."""
    counts = cells(carb_open)
    assert len(carb_open) >= 6000
    assert sum(sum(cell) >= 100 for cell in counts.values()) >= 30
    languages = {item.language for item in carb_open}
    assert {"en", "es", "zh", "ja", "ru", "th", "vi", "ar", "ko", "de"} <= languages
    assert all(item.provenance.tier for item in carb_open)


def test_reference_results_on_it_follow_from_their_rows(carb_open: Dataset) -> None:
    folders = [folder for folder in found_in(shipped()) if read(folder)[0].run.dataset.names == (NAME,)]
    assert folders, f"python benchmarks/reference_results.py WORK makes entries on {NAME}"
    candidates = Candidates([carb_open], builtin=())
    wrong = {folder.name: problems for folder in folders if (problems := check(folder, candidates))}
    assert wrong == {}, "after a change of carb-open: python benchmarks/reference_results.py WORK makes them again"
