"""A set's JSON Schema is what ships, and Croissant metadata describes the file that it names."""

from __future__ import annotations

import hashlib
import json
from importlib import resources

from hypothesis import given
from hypothesis import strategies as st

from carb_data import BonSet, Dataset, load
from carb_data.describe import croissant, set_schema
from carb_data.files import VERSION, to_json


def test_the_shipped_schema_is_that_of_the_model():
    shipped = (resources.files("carb_data") / "resources" / "carb-set-2.json").read_text(encoding="utf-8")
    assert json.loads(shipped) == set_schema(), "run docs/make_reference.py"
    assert set_schema()["title"] == VERSION


@given(item=st.from_type(BonSet))
def test_every_line_of_a_file_has_only_fields_of_the_schema(item):
    made = set_schema()
    line = json.loads(to_json(item))
    assert set(line) <= set(made["properties"])
    assert set(made["required"]) <= set(line)
    for response in line["responses"]:
        assert set(response) <= set(made["$defs"]["Response"]["properties"])


def test_croissant_describes_the_file(tmp_path):
    path = tmp_path / "some.jsonl"
    some = Dataset(load("carb-seed@1")[:20])
    some.save(path)
    made = croissant(some, "some", path)
    (file,) = made["distribution"]
    assert file["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert made["license"] == ["Apache-2.0"]
    assert made["identifier"].endswith(some.fingerprint)
    names = {field["name"] for field in made["recordSet"][0]["field"]}
    assert names <= set.intersection(*(set(json.loads(line)) for line in path.read_text("utf-8").splitlines()))
    assert croissant(some, "some")["distribution"] == []
