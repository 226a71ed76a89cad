"""The table of docs/how-to/sources.md is what the command prints on the real files."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from carb_data import BonSet, Dataset
from carb_data.audit import audit
from carb_data.sources import rows
from carb_data.sources.coverage import _HEADER as HEADER
from carb_data.sources.coverage import END, START, main, table
from carb_data.sources.grouping import SameItems, of_mixed_length

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "sources.md"
REAL = Path(os.environ.get("CARB_DATA_DIR", "none"))
needs_real = pytest.mark.skipif(
    not ((REAL / "care").is_dir() and PAGE.exists()),
    reason="no public data (set CARB_DATA_DIR), or no docs beside the packages",
)


@needs_real
def test_the_page_shows_what_the_command_prints(capsys):
    assert main(["care", "einbuergerungstest-de", "talpco", "tydip"]) == 0
    printed = capsys.readouterr().out.strip().splitlines()
    section = PAGE.read_text(encoding="utf-8").partition(START)[2].partition(END)[0]
    assert len(printed) > 6
    assert [line for line in printed if line not in section] == []
    assert "python -m carb_data.sources.coverage" in section


@needs_real
@pytest.mark.parametrize("name", ["blend-families", "idioviet", "isannlp-dialect-th", "refranes-mexicanos", "talpco"])
def test_the_page_says_how_many_families_there_are_and_what_attacks_earn(name):
    sets = Dataset(row for row in rows(name) if isinstance(row, BonSet))
    families = {item.family: (item.language, len(item.responses)) for item in sets}
    counts = sorted(Counter(families.values()).items())
    by = ", ".join(f"{language} {n}{' of two' if size == 2 else ''}" for (language, size), n in counts)
    attacks = {one.attack: one for one in audit(sets, learn=False).attacks if one.level == "all"}
    overlap = attacks.pop("overlap")
    del attacks["least overlap"]
    assert len(attacks) == 23
    (chance,) = {f"{one.chance:.1%}".rstrip("%") for one in attacks.values()}
    (earned,) = {f"{one.accuracy:.1%}".rstrip("%") for one in attacks.values()}
    assert all(one.accuracy == pytest.approx(one.chance, abs=1e-12) for one in attacks.values())
    reads = f"{overlap.accuracy:.1%} [{overlap.low:.1%}, {overlap.high:.1%}]".replace("%", "")
    line = f"| `{name}` | {len(families)} | {by} | {chance} | {earned} | {reads} |"
    assert line in PAGE.read_text(encoding="utf-8")


@needs_real
def test_the_table_goes_between_the_markers(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n{START}\nSaid before.\n\n| kept |\n\n{HEADER}\n| old |\n{END}\nAfter.\n")
    assert main(["care", "--page", str(page)]) == 0
    text = page.read_text()
    assert text.startswith(f"# Title\n{START}\nSaid before.\n\n| kept |\n\n| source |")
    assert text.endswith(f"|\n{END}\nAfter.\n")
    assert "| old |" not in text
    page.write_text("# Title\n")
    assert main(["care", "--page", str(page)]) == 2


def test_files_that_are_not_there_are_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CARB_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("CARB_CACHE", str(tmp_path))
    assert main(["care"]) == 2
    assert "Run: carb data fetch care" in capsys.readouterr().err
    assert table([]).count("\n") == 1


def test_items_that_share_a_text_are_one():
    same = SameItems()
    for item, text in [
        ("c", "One text!"),
        ("b", "another"),
        ("a", "ONE  text"),
        ("b", "third"),
        ("d", "third?"),
        ("e", ""),
    ]:
        same.add(item, text)
    assert [same.name(item) for item in "abcdef"] == ["a", "b", "a", "b", "e", "f"]


def test_lengths_are_mixed_as_far_as_there_are_enough():
    import random

    ranked = [3, 9, 4, 8, 2, 7]
    chosen = [of_mixed_length(5, ranked, lambda n: n, 3, random.Random(seed)) for seed in range(200)]
    assert {sum(n > 5 for n in three) for three in chosen} == {0, 1, 2, 3}
    assert all(len(set(three)) == 3 for three in chosen)
    assert of_mixed_length(5, [9, 8, 7], lambda n: n, 3, random.Random(1)) == [9, 8, 7]
    assert len(of_mixed_length(5, [9, 1], lambda n: n, 3, random.Random(1))) == 2
