"""Every command's help shows an example, and every example runs; and ``carb doctor``."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from carb_cli.commands.doctor import WHAT_FOR, broken, owners_of_modules
from carb_cli.main import COMMANDS, GROUPS, Invocation, application, what_runs
from carb_data import install_line, load
from cli_helpers import Carb, write_review

EVERY = {name: place for name, (place, _) in COMMANDS.items()} | {
    f"{group} {name}": place
    for group, (commands, _) in GROUPS.items()
    for name, (place, _) in commands.items()
}
DOWNSTREAM = (
    "scorer,benchmark,downstream\na,0.7,0.5\nb,0.6,0.45\nc,0.72,0.55\nd,0.5,0.43\ne,0.4,0.3\n"
)
NEEDS_PUBLIC_DATA = {"bon", "data build", "data fetch"}
SERVES = {"review serve", "serve"}
NEEDS_A_SERVER = {"data construct", "data perturb"}


def examples(command: str) -> list[str]:
    """The example lines of a command's docstring."""
    module, _, function = EVERY[command].partition(":")
    text = inspect.getdoc(getattr(import_module(module), function)) or ""
    part = re.search(r"For example:\n\n(.*?)(?:\n\n\S|\Z)", text, flags=re.DOTALL)
    return [] if part is None else [line.strip() for line in part[1].splitlines() if line.strip()]


@pytest.mark.parametrize("command", EVERY)
def test_examples_can_be_pasted_from_a_narrow_terminal(
    carb: Carb, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    ended = carb(*command.split(), "--help")
    assert ended.code == 0
    shown = ended.out.splitlines()
    assert all(len(line) <= 60 for line in shown)
    pasted = []
    for place in (place for place, line in enumerate(shown) if line.startswith("    carb ")):
        end = next(end for end in range(place, len(shown)) if not shown[end].endswith("\\"))
        pasted.append(shlex.split("\n".join(shown[place : end + 1]).replace("\\\n", " ")))
    assert pasted == [shlex.split(line) for line in examples(command)]
    assert pasted, f"`carb {command}` has no example"
    assert all(words[: len(command.split()) + 1] == ["carb", *command.split()] for words in pasted)
    assert "--culture-file" in ended.out, "what every command takes is said below"


@pytest.mark.parametrize(
    "command", sorted(set(EVERY) - NEEDS_PUBLIC_DATA - SERVES - NEEDS_A_SERVER)
)
def test_examples_run(
    carb: Carb, command: str, finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if command != "run":
        shutil.copytree(finished_run, tmp_path / "runs" / "first")
    (tmp_path / "downstream.csv").write_text(DOWNSTREAM)
    (tmp_path / "train.txt").write_text("A text about something else.\n")
    load("carb-seed")[:8].save(tmp_path / "my-sets.jsonl")
    for name in {
        word
        for line in examples(command)
        for word in shlex.split(line)
        if word.endswith(".reviews")
    }:
        write_review(tmp_path / name)
    if command in ("results check", "results site"):
        assert carb("results", "add", "runs/first").code == 0
    for line in examples(command):
        ended = carb(*shlex.split(line)[1:])
        if ended.code == 2 and "which is not installed" in ended.err:
            pytest.skip(ended.err.strip())
        assert ended.code == 0, (line, ended.err)


def test_all_commands_are_listed(carb: Carb) -> None:
    shown = " ".join(carb("--help").out.replace("│", " ").split())
    assert all(f" {name} {line}" in shown for name, (_, line) in COMMANDS.items())
    for group, (commands, line) in GROUPS.items():
        assert line in shown
        listed = carb(group, "--help").out
        assert all(f" {name} " in listed for name in commands)
    script = application().generate_completion(shell="bash")
    assert all(
        name in script
        for name in (*COMMANDS, *(name for commands, _ in GROUPS.values() for name in commands))
    )


def test_what_the_doctor_says(carb: Carb) -> None:
    found = carb("doctor", "--json").json
    assert set(found["packages"]) >= {"carb-data", "carb-cli"}
    assert all(
        extra["install"] == install_line(f"{extra['package']}[{extra['extra']}]")
        for extra in found["extras"]
    )
    plain = carb("doctor")
    said = [line for line in plain.err.splitlines() if not line.startswith("carb doctor:")]
    assert said, "imports take some seconds"
    shown = "".join(plain.out.split())  # a long path is folded
    assert "".join(install_line("carb-scorers[hf]").split()) in shown


def test_the_doctor_says_installed_only_of_what_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "limping.py").write_text("raise ImportError('lame leg')")
    (tmp_path / "walking.py").write_text("")
    for name in ("limping", "walking"):
        info = tmp_path / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (info / "RECORD").write_text(f"{name}.py,,\n")
    monkeypatch.syspath_prepend(tmp_path)
    owners = owners_of_modules()
    assert broken("walking", owners) is None
    assert broken("limping", owners) == "ImportError: lame leg"


def test_every_extra_says_what_it_is_for() -> None:
    declared = set()
    for file in Path(__file__).parents[2].glob("*/pyproject.toml"):
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        extras = project.get("optional-dependencies", {}).keys() - {"all", "test"}
        declared |= {f"{project['name']}[{extra}]" for extra in extras}
    assert declared == WHAT_FOR.keys()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a pipe with a name")
def test_a_command_says_what_it_does_while_it_is_silent(tmp_path: Path) -> None:
    """A pipe without a writer keeps it waiting."""
    os.mkfifo(tmp_path / "waits.csv")
    command = [sys.executable, "-m", "carb_cli", "validity", str(tmp_path / "waits.csv")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        process.kill()
    assert "carb validity: Test whether" in first


@pytest.mark.parametrize("silencing", [["--quiet"], ["--help"], []])
def test_a_command_that_shall_not_print_has_no_summary(silencing: list[str]) -> None:
    command = Invocation(("results", "check", *silencing), quiet="--quiet" in silencing)
    assert ("carb results check: Recompute" in (what_runs(command) or "")) == (not silencing)


def test_a_command_that_has_printed_prints_no_summary() -> None:
    """A process of its own: whether something was printed is a matter of the whole process."""
    code = "from carb_cli.main import invoked, say_what_runs\n"
    code += "invoked.arguments = ('results', 'check')\nsay_what_runs()\nsay_what_runs()\n"
    command = [sys.executable, "-c", code]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert printed.count("carb results check: Recompute") == 1
