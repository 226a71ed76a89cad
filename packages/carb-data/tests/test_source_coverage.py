"""The table of the README is what the command prints on the real files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from carb_data.sources.coverage import _HEADER as HEADER
from carb_data.sources.coverage import END, START, main, table
from carb_data.sources.grouping import SameItems, of_mixed_length

PACKAGE = Path(__file__).parents[1]
REAL = Path(os.environ.get("CARB_DATA_DIR", PACKAGE / "../../../shared/data"))
needs_real = pytest.mark.skipif(
    not ((REAL / "blend").is_dir() and (PACKAGE / "README.md").exists()),
    reason=f"no public data at {REAL} (set CARB_DATA_DIR), or no README beside the tests",
)


@needs_real
def test_the_readme_shows_what_the_command_prints(capsys):
    assert main([str(REAL)]) == 0
    printed = capsys.readouterr().out.strip()
    section = (PACKAGE / "README.md").read_text(encoding="utf-8").partition(START)[2].partition(END)[0]
    assert printed in section
    assert "python -m carb_data.sources.coverage" in section


@needs_real
def test_the_table_goes_between_the_markers(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(f"# Title\n{START}\nSaid before.\n\n| kept |\n\n{HEADER}\n| old |\n{END}\nAfter.\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "care").symlink_to((REAL / "care").resolve())
    assert main([str(tmp_path / "data"), "--readme", str(readme)]) == 0
    text = readme.read_text()
    assert text.startswith(f"# Title\n{START}\nSaid before.\n\n| kept |\n\n| source |")
    assert text.endswith(f"| |\n{END}\nAfter.\n")
    assert "| old |" not in text
    readme.write_text("# Title\n")
    assert main([str(tmp_path / "data"), "--readme", str(readme)]) == 2


def test_an_empty_folder_is_wrong_use(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "holds no folder of the name of a source" in capsys.readouterr().err
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
