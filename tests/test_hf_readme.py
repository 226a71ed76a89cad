"""What the README of carb-scorers says about options and tests is so."""

from __future__ import annotations

import re
from typing import Any

import pytest

from carb_data import load
from carb_scorers.implicit import ImplicitOptions
from carb_scorers.judge import JudgeOptions
from carb_scorers.models.openai import OpenAIOptions
from carb_scorers.models.transformers.loading import HFOptions
from carb_scorers.models.transformers.rewards import RewardOptions
from carb_scorers.models.vllm_engine import VLLMOptions
from carb_scorers.specs import kinds
from readme_examples import SCORERS, example

TEXT = SCORERS.read_text(encoding="utf-8")


def options(section: str) -> dict[str, str]:
    """Name to default in the table whose first column is headed ``section``."""
    head = rf"^\| {re.escape(section)} \| default \|.*\n\|[-|]+\|\n"
    (table,) = re.findall(head + r"((?:\|.*\n)+)", TEXT, flags=re.MULTILINE)
    found: dict[str, str] = {}
    for line in table.splitlines():
        names, default = (cell.strip() for cell in line.split("|")[1:3])
        listed = re.findall(r"`([^`]+)`", names)
        defaults = [default] * len(listed) if default.startswith("as for") else default.split(", ")
        if len(listed) != len(defaults):
            defaults = [default] * len(listed)
        found.update(zip(listed, (value.strip("`") for value in defaults), strict=True))
    return found


def same(default: str, value: Any) -> bool:
    """Whether a default of the README is that of the code."""
    if isinstance(value, bool) or value is None:
        return default == ("none" if value is None else str(value).lower())
    return float(default) == value if isinstance(value, int | float) else default == value


@pytest.mark.parametrize(
    ("section", "model", "inherited"),
    [
        ("`judge`", JudgeOptions, None),
        ("`classifier` on `hf`", RewardOptions, HFOptions),
        ("`implicit`", ImplicitOptions, None),
        ("`backend=hf`", HFOptions, None),
        ("`backend=vllm`", VLLMOptions, None),
        ("option", OpenAIOptions, None),
    ],
)
def test_options_and_their_defaults(section: str, model: Any, inherited: Any) -> None:
    known = {name: field.default for name, field in model.model_fields.items() if name != "backend"}
    for name in inherited.model_fields if inherited else ():
        del known[name]
    listed = options(section)
    assert set(listed) == set(known)
    for name, default in listed.items():
        if default.startswith("as for"):
            assert known[name] == HFOptions.model_fields[name].default
        elif name != "url":  # OpenAI's
            assert same(default, known[name]), name


def test_every_kind_is_named() -> None:
    assert set(re.findall(r"^\| `(\w+):", TEXT, flags=re.MULTILINE)) >= set(kinds()) - {"overlap"}


def test_ways_of_testing_are_explained_and_there() -> None:
    _, _, part = TEXT.partition("## What is tested, and how")
    part = part.partition("\n## ")[0]
    explained = set(re.findall(r"\*\*(\w+)\*\*", part))
    rows = [line for line in part.splitlines() if re.match(r"\| `", line) and line.count("|") == 7]
    assert len(rows) == 14
    for row in rows:
        for cell in row.split("|")[4:7]:
            words = set(re.findall(r"[a-z]+", re.sub(r"\(.*?\)", "", cell)))
            assert words <= explained or cell.strip() in ("not tested", "tal-rlvr's own tests"), cell
    for link in re.findall(r"\]\(([^)]*test_\w+\.py)\)", TEXT):
        assert (SCORERS.parent / link).resolve().is_file(), link


def test_the_first_example(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(example("baseline:label"), names)
    responses = sum(len(item.responses) + len(item.perturbed) for item in load("carb-seed"))
    assert names["table"].frame.height == 2 * responses
    assert capsys.readouterr().out
