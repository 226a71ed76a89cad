"""Fixtures of the tests of the command line."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

from carb_cli import display, main
from carb_data import load

sys.path.insert(0, str(Path(__file__).parent))  # cli_helpers, a module of these tests

from cli_helpers import BASELINES, Carb, Ended, small_dataset

# The review's modules are those of the extra carb-cli[review].
collect_ignore_glob = [] if find_spec("starlette") else ["test_review_*.py"]

settings.register_profile("carb", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("carb")


@pytest.fixture
def carb(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Carb:
    """Run ``carb`` with arguments, in this process. It prints as wide as to a file, whatever runs
    the tests."""
    monkeypatch.setattr(display.console, "width", display.PIPED_WIDTH)

    def call(*arguments: object) -> Ended:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return call


@pytest.fixture
def data_file(tmp_path: Path) -> Path:
    """A valid file of twelve sets."""
    path = tmp_path / "small.jsonl"
    small_dataset().save(path)
    return path


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of three baselines on the sets of the seed that have no mirrors."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    data = folder.with_name("singles.jsonl")
    seed = load("carb-seed").filter(languages=["en", "de", "th", "vi", "ko", "ja"])
    seed.filter(lambda item: item.family is None).save(data)
    options = ["--data", str(data), "--limit", "80", "--perturbed"]
    assert (
        main(["run", *options, "--scorer", *BASELINES, "--out", str(folder), "--quiet", "--json"])
        == 0
    )
    return folder
