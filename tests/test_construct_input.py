"""What the pipeline is given: references, a configuration, and texts that are never read as anything else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("anyio", reason="needs the extra 'construct'")
pytest.importorskip("httpx", reason="needs the extra 'construct'")
pytest.importorskip("numpy", reason="needs the extra 'construct'")

from carb_data import CarbError, DataError, Dataset, Domain
from carb_data.construct import load_config, plan
from carb_data.construct.pipeline import clean, mismatched
from carb_data.construct.prompts import Prompts, fill
from carb_data.sources.models import Reference
from construct_server import config_for, construct, references, serving, writer


def test_given_questions_are_used_and_lone_references_reported(tmp_path):
    known = references(1)[0].model_copy(update={"question": "What is eaten at night?"})
    lone = known.model_copy(update={"id": "lone", "domain": Domain.VALUES})
    path = tmp_path / "references.jsonl"
    path.write_text("\n".join(r.model_dump_json() for r in [known, *references(1)[1:], lone]), encoding="utf-8")
    with serving(writer) as server:
        report = construct(config_for(server, tmp_path), tmp_path / "sets.jsonl")
    assert report.unused == {"no reference of another culture in its domain": 1}
    assert report.built == 5
    assert Dataset.load(tmp_path / "sets.jsonl")["constructed/thai-0"].prompt == "What is eaten at night?"


def test_references_of_varieties_are_not_foreign_to_each_other():
    def at(culture: str, topic: str) -> Reference:
        return references(1)[0].model_copy(update={"id": culture + topic, "culture": culture, "topic": topic})

    own = at("spanish-mx", "food")
    others = [at("spanish-es", "food"), at("spanish", "x"), at("thai", "x"), at("thai", "food"), at("german", "food")]
    order = mismatched(own, others, seed=3)
    assert {r.culture for r in order} == {"thai", "german"}
    assert [r.topic for r in order] == ["food", "food", "x"]  # the same topic first, cultures in turn


def test_bad_references_are_all_reported(tmp_path):
    good = references(1)[0].model_dump_json()
    (tmp_path / "references.jsonl").write_text(f'{good}\n{{"id": "x"}}\nnonsense\n{good}\n')
    with pytest.raises(DataError) as caught:
        plan(config_for("http://localhost:1/v1", tmp_path))
    assert {problem.line for problem in caught.value.problems} == {2, 3, 4}


TOML = """
name = "mine"
references = "refs.jsonl"
window = [0.1, 0.9]
[question]
model = "m"
url = "http://localhost:8000/v1"
[chosen]
kind = "transformers"
model = "folder"
chat = false
[[rejected]]
model = "m"
url = "http://localhost:8000/v1"
[prompts]
question = "Ask in $language about: $reference"
"""


def test_a_config_is_read_from_toml_and_json(tmp_path):
    (tmp_path / "c.toml").write_text(TOML)
    config = load_config(tmp_path / "c.toml")
    assert config.references == tmp_path / "refs.jsonl"
    assert config.chosen.kind == "transformers"
    content = config.model_copy(update={"references": "refs.jsonl"}).model_dump(mode="json")
    (tmp_path / "c.json").write_text(json.dumps(content))
    assert load_config(tmp_path / "c.json") == config


def test_the_config_of_the_page_is_one(tmp_path):
    page = (Path(__file__).parents[1] / "docs/how-to/construct.md").read_text(encoding="utf-8")
    (tmp_path / "c.toml").write_text(re.search(r"```toml .*?\n(.*?)```", page, re.DOTALL)[1], encoding="utf-8")
    config = load_config(tmp_path / "c.toml")
    assert [model.kind for model in config.rejected] == ["openai", "transformers"]
    assert config.rejected[1].stop == ("\n",)
    assert config.embedder.kind == "openai"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('url = "http', 'uri = "http', "'question.uri' is unknown"),
        ("[0.1, 0.9]", "[0.9, 0.1]", "smaller one first"),
        ("$language about", "$tongue about", r"unknown fields \['tongue'\]"),
        ("$language about", "$ about", "a '\\$' must be followed"),
        ("window =", "window", "is not TOML"),
    ],
)
def test_a_bad_config_is_a_plain_error(tmp_path, old, new, reason):
    (tmp_path / "c.toml").write_text(TOML.replace(old, new, 1))
    with pytest.raises(CarbError, match=reason):
        load_config(tmp_path / "c.toml")


def test_a_missing_config_and_a_bad_output_are_plain_errors(tmp_path):
    with pytest.raises(CarbError, match="Cannot read the construction config"):
        load_config(tmp_path / "absent.toml")
    with serving(writer) as server, pytest.raises(CarbError, match="unknown file type"):
        construct(config_for(server, tmp_path), tmp_path / "sets.csv")


def test_what_stands_in_a_reference_is_never_read_as_a_field():
    text = fill(
        Prompts().answer, culture="c", language="l", question="$reference $$ {x}", reference="$question", text=""
    )
    assert "$reference $$ {x}" in text
    assert "\n$question\n" in text


@pytest.mark.parametrize(
    ("raw", "text"),
    [('  "a b" ', "a b"), ("“a”", "a"), ("「あ」", "あ"), ('"a" and "b"', '"a" and "b"'), ('"', '"'), (" ", "")],
)
def test_quotation_marks_around_an_answer_go(raw, text):
    assert clean(raw) == text
