"""What the documentation mentions exists: options of commands, files, sessions of nox, and where links lead.

It looks at blocks that are not run, too, and at what stands within a sentence.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from carb_cli.main import COMMANDS, GROUPS

ROOT = Path(__file__).parents[1]
GROUPED = {f"{group} {name}" for group, (commands, _) in GROUPS.items() for name in commands}
FENCE = re.compile(r"^```.*?^```$", flags=re.DOTALL | re.MULTILINE)
PAGES = sorted(
    str(path.relative_to(ROOT))
    for folder in (".", "docs", "docs/[!r]*", "packages/*")
    for path in ROOT.glob(f"{folder}/*.md")
)


def code(page: str) -> list[str]:
    """The lines of all blocks, those that go on joined, and all code within sentences."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [line for block in FENCE.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    return found + re.findall(r"`([^`\n]+)`", FENCE.sub("", text))


@cache
def options() -> dict[str, set[str]]:
    """Command to its options, from the reference, which ``test_docs`` holds to the code."""
    reference = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (.*)$", reference, flags=re.MULTILINE)[1:]
    return {name: set(re.findall(r"--[a-z][a-z-]*", text)) for name, text in zip(parts[::2], parts[1::2], strict=True)}


@cache
def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text(encoding="utf-8")), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def unknown_options(line: str) -> list[str]:
    """Commands and options of a line that there are not."""
    wrong = []
    for words in (found.split() for found in re.findall(r"(?:^|[\s;|&(])carb ([a-z][^;|&#]*)", line)):
        command = " ".join(words[:2] if words[0] in ("data", "review") and len(words) > 1 else words[:1])
        if words[0] not in COMMANDS and command not in {"data", "review", *GROUPED}:
            continue  # a sentence about carb, and no command
        given = {re.split("[=\\]]", word)[0] for word in words if re.match("--[a-z]", word)}
        wrong += [f"carb {command} {option}" for option in sorted(given - options()[f"carb {command}"])]
    return wrong


def test_unknown_options_are_seen() -> None:
    assert unknown_options("carb run --data carb-seed --scorers x") == ["carb run --scorers"]
    assert unknown_options("FOO=1 carb data build blend --form=x | carb report r --jsn") == [
        "carb data build --form",
        "carb report --jsn",
    ]
    assert unknown_options("carb data split x --out y; carb compare a b --json") == []


def test_every_option_says_what_it_is_for() -> None:
    reference = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    silent = re.findall(r"^│ [ *]  --\S+(?: [A-Z]\S*)?\s+(?:\[.*)?│$", reference, flags=re.MULTILINE)
    assert silent == [], "options without a description"


@pytest.mark.parametrize("page", PAGES)
def test_options_of_commands_exist(page: str) -> None:
    assert [wrong for line in code(page) for wrong in unknown_options(line)] == []


@pytest.mark.parametrize("page", PAGES)
def test_files_exist(page: str) -> None:
    named = [path for line in code(page) for path in re.findall(r"(?<![\w/.-])(?:tests|packages|docs)/[\w./-]+", line)]
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_sessions_of_nox_exist(page: str) -> None:
    sessions = {node.name for node in ast.parse((ROOT / "noxfile.py").read_text()).body if hasattr(node, "name")}
    named = [words.split() for line in code(page) for words in re.findall(r"\bnox -s ((?:[a-z]\w* ?)+)", line)]
    assert [word for words in named for word in words if word not in sessions] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_headings_that_are_there(page: str) -> None:
    source = ROOT / page
    lost = []
    for target in re.findall(r"\]\(([^()\s]+)\)", FENCE.sub("", source.read_text(encoding="utf-8"))):
        path, _, anchor = target.partition("#")
        goal = source.parent / path if path else source
        if "://" not in target and (not goal.exists() or (anchor and anchor not in anchors(goal))):
            lost.append(target)
    assert lost == []
