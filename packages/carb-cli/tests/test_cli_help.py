"""Every command's help shows an example, and every example runs."""

from __future__ import annotations

import inspect
import re
import shlex
import shutil
from importlib import import_module
from pathlib import Path

import pytest

from carb_cli.main import COMMANDS, GROUPS, application
from carb_data import load
from cli_helpers import Carb, write_construct_config, write_review

EVERY = {name: place for name, (place, _) in COMMANDS.items()} | {
    f"{group} {name}": place for group, (commands, _) in GROUPS.items() for name, (place, _) in commands.items()
}
DOWNSTREAM = "scorer,benchmark,downstream\na,0.7,0.5\nb,0.6,0.45\nc,0.72,0.55\nd,0.5,0.43\ne,0.4,0.3\n"
NEEDS_PUBLIC_DATA = {"bon", "data build", "data fetch", "models"}
SERVES = {"review serve"}


def examples(command: str) -> list[str]:
    """The example lines of a command's docstring."""
    module, _, function = EVERY[command].partition(":")
    text = inspect.getdoc(getattr(import_module(module), function)) or ""
    part = re.search(r"For example:\n\n(.*?)(?:\n\n\S|\Z)", text, flags=re.DOTALL)
    return [] if part is None else [line.strip() for line in part[1].splitlines() if line.strip()]


@pytest.mark.parametrize("command", EVERY)
def test_help_shows_what_the_function_says(carb: Carb, command: str) -> None:
    ended = carb(*command.split(), "--help")
    assert ended.code == 0
    shown = " ".join(ended.out.replace(" \\\n", " ").split())
    lines = examples(command)
    assert lines, f"`carb {command}` has no example"
    for line in lines:
        assert line in shown
        assert line.startswith(f"carb {command}")


@pytest.mark.parametrize("command", EVERY)
def test_examples_can_be_pasted_from_a_narrow_terminal(
    carb: Carb, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    shown = carb(*command.split(), "--help").out.splitlines()
    assert all(len(line) <= 60 for line in shown)
    starts = [place for place, line in enumerate(shown) if line.startswith("    carb ")]
    pasted = []
    for place in starts:
        end = next(end for end in range(place, len(shown)) if not shown[end].endswith("\\"))
        pasted.append(shlex.split("\n".join(shown[place : end + 1]).replace("\\\n", " ")))
    assert pasted == [shlex.split(line) for line in examples(command)]


@pytest.mark.parametrize("command", EVERY)
def test_a_wide_terminal_shows_a_paragraph_as_one_line(
    carb: Carb, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "2000")
    said, _, options = carb(*command.split(), "--help").out.partition("╭")
    prose = [part for part in said.split("\n\n") if not part.lstrip("\n").startswith((" ", "* ", "- "))]
    assert all("\n" not in part.strip() for part in prose)
    assert [line for line in options.splitlines() if re.match(r"│ {9,}", line)] == []


@pytest.mark.parametrize("command", sorted(set(EVERY) - NEEDS_PUBLIC_DATA - SERVES))
def test_examples_run(
    carb: Carb, command: str, finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if command != "run":
        shutil.copytree(finished_run, tmp_path / "runs" / "first")
    (tmp_path / "downstream.csv").write_text(DOWNSTREAM)
    (tmp_path / "train.txt").write_text("A text about something else.\n")
    load("carb-seed")[:8].save(tmp_path / "my-sets.jsonl")
    write_construct_config(tmp_path)
    if command.startswith("review"):
        write_review(tmp_path / "thai.reviews")
    if command in ("results check", "results site"):
        assert carb("results", "add", "runs/first").code == 0
    for line in examples(command):
        ended = carb(*shlex.split(line)[1:])
        if ended.code == 2 and "which is not installed" in ended.err:
            pytest.skip(ended.err.strip())
        assert ended.code == 0, (line, ended.err)


def test_all_commands_are_listed(carb: Carb) -> None:
    shown = carb("--help").out
    for name, (_, line) in COMMANDS.items():
        assert f" {name} " in shown
        assert line in " ".join(shown.replace("│", " ").split())
    for group, (commands, line) in GROUPS.items():
        assert line in " ".join(shown.replace("│", " ").split())
        listed = carb(group, "--help").out
        assert all(f" {name} " in listed for name in commands)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_completion_knows_every_command(shell: str) -> None:
    script = application().generate_completion(shell=shell)
    assert all(name in script for name in (*COMMANDS, *(name for commands, _ in GROUPS.values() for name in commands)))


def test_completion_is_installed_where_asked(carb: Carb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ZSH_CUSTOM", raising=False)
    ended = carb("--install-completion", "--shell", "bash")
    assert ended.code == 0
    assert any(path.is_file() for path in tmp_path.rglob("carb*"))
