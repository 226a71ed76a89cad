"""Every path that a docstring, a message or a page names is there."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = "docs|examples|benchmarks|studies|packages|tests"
ENDS = "py|md|toml|jsonl?|csv|txt"
NAMED = re.compile(rf"(?<![\w/.@-])(?:{FOLDERS})/[\w.@/-]+\.(?:{ENDS})\b")
READ = {".py", ".md", ".toml", ".js", ".html", ".yml", ".yaml", ".cff", ".jinja"}


def texts() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [ROOT / name for name in listed.splitlines() if Path(name).suffix in READ]


def test_every_path_that_is_named_can_be_opened() -> None:
    """A docstring sent authors of forms to a page that did not exist."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs the checkout")
    gone = []
    for path in texts():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for name in NAMED.findall(line):
                beside = path.parent / name
                if not (ROOT / name).exists() and not beside.exists():
                    gone.append(f"{path.relative_to(ROOT)}:{number}: {name}")
    assert gone == []


def test_a_form_s_fields_stand_on_one_page() -> None:
    from carb_scorers.judge.form import FormFile, Wording

    page = (ROOT / "docs" / "evaluate.md").read_text(encoding="utf-8")
    section = page.partition("## A form of your own")[2].partition("\n## ")[0]
    fields = [*FormFile.model_fields, *Wording.model_fields]
    assert [name for name in fields if f"`{name}`" not in section] == []
