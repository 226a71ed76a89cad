"""JSON Lines and Parquet hold the same content, and every defect is reported with its place."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_data import BonSet, CarbError, DataError, Dataset
from small_sets import small_set

VALID = small_set("s1", ["right", "wrong"]).model_dump(mode="json", exclude_unset=True)


def with_changes(**changes) -> str:
    return json.dumps({**VALID, **changes})


def without(field: str) -> str:
    return json.dumps({name: value for name, value in VALID.items() if name != field})


def problems_of(path: Path):
    with pytest.raises(DataError) as caught:
        Dataset.load(path)
    return caught.value.problems


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".parquet"])
@given(dataset=st.from_type(Dataset))
def test_what_is_saved_is_loaded_again(suffix, dataset):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"sets{suffix}"
        dataset.save(path)
        loaded = Dataset.load(path, registry=None)
    assert loaded == dataset
    assert loaded.fingerprint == dataset.fingerprint


def test_every_bad_line_is_reported_with_its_place_and_reason(tmp_path):
    chosen, rejected = VALID["responses"]
    lines = [
        with_changes(id="fine"),
        '{"id": "broken", ',
        with_changes(id="two", responses=[chosen, {**chosen, "id": "c"}, rejected]),
        without("prompt"),
        "",
        with_changes(id="lost", culture="tai"),
        with_changes(id="extra", colour="red"),
        with_changes(id="fine"),
        with_changes(id="both", domain="law", prompt="  "),
        "[1, 2]",
        with_changes(id="none", responses=[rejected, {**rejected, "id": "c"}]),
        with_changes(id="same", responses=[chosen, {**rejected, "text": chosen["text"] + " "}]),
    ]
    path = tmp_path / "bad.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    found = problems_of(path)
    assert {problem.file for problem in found} == {str(path)}
    fields = [
        "",
        "responses",
        "prompt",
        "culture",
        "colour",
        "id",
        "domain",
        "prompt",
        "",
        "responses",
        "responses",
    ]
    assert [problem.line for problem in found] == [2, 3, 4, 6, 7, 8, 9, 9, 10, 11, 12]
    assert [problem.field for problem in found] == fields
    reasons = [problem.reason for problem in found]
    assert "JSON" in reasons[0]
    assert reasons[1] == "exactly one response must be 'chosen', found 2"
    assert reasons[2] == "is missing"
    assert "Did you mean 'thai'?" in reasons[3]
    assert "is unknown" in reasons[4]
    assert reasons[5] == f"'fine' is the id of an earlier set, {path}:1"
    assert "commonsense" in reasons[6]
    assert "exactly one response must be 'chosen', found 0" in reasons[9]
    assert "the right answer is also a wrong one" in reasons[10]


def test_bytes_that_are_not_utf8_are_a_problem_of_their_line(tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(with_changes().encode() + b'\n{"id": "\xff"}\n')
    (problem,) = problems_of(path)
    assert problem.line == 2
    assert "utf-8" in problem.reason.lower() or "unicode" in problem.reason.lower()


def test_a_parquet_row_is_reported_by_number(tmp_path):
    path = tmp_path / "sets.parquet"
    good = BonSet.model_validate(VALID)
    bad = good.model_copy(update={"id": "s2", "culture": "klingon"})
    Dataset([good, bad]).save(path)
    (problem,) = problems_of(path)
    assert (problem.line, problem.field) == (2, "culture")
    assert "klingon" in problem.reason


def test_other_file_types_and_missing_files_are_refused(tmp_path):
    with pytest.raises(CarbError, match="unknown file type"):
        Dataset([]).save(tmp_path / "sets.txt")
    (tmp_path / "sets.txt").write_text("x")
    with pytest.raises(CarbError, match=r"unknown file type.*\.csv, \.tsv, \.xlsx"):
        Dataset.load(tmp_path / "sets.txt")
    with pytest.raises(CarbError, match="Cannot read"):
        Dataset.load(tmp_path / "absent.jsonl")


def test_ids_must_be_unique_across_the_files_of_a_folder(tmp_path):
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text(with_changes(), encoding="utf-8")
    (problem,) = problems_of(tmp_path)
    assert problem.file.endswith("b.jsonl")
    assert "a.jsonl:1" in problem.reason


TWO = {"prompt": ["Who?", "When?"], "chosen": ["we", "now"], "rejected": ["they", "never"]}


def table(path, rows=2):
    path.parent.mkdir(exist_ok=True)
    frame = pl.DataFrame(TWO)[:rows]
    if path.suffix == ".jsonl":
        frame.write_ndjson(path)
    elif path.suffix == ".csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)


@pytest.mark.parametrize("name", ["b.jsonl", "b.parquet", "x/a.csv", "sets.jsonl"])
@pytest.mark.parametrize("rows", [1, 2])
def test_a_file_whose_sets_another_file_holds_would_count_twice(tmp_path, name, rows):
    table(tmp_path / "a.csv")
    if name == "sets.jsonl":
        Dataset(Dataset.load(tmp_path / "a.csv")[:rows]).save(tmp_path / name)
    else:
        table(tmp_path / name, rows)
    with pytest.raises(CarbError, match=rf"{name}.*twice|twice.*{name}"):
        Dataset.load(tmp_path)


def test_parts_that_are_missing_are_said(tmp_path):
    names = [f"train-{number:05}-of-00003.parquet" for number in range(3)]
    for number, name in enumerate(names):
        pl.DataFrame(TWO).with_columns(prompt=pl.lit(f"{number}?")).write_parquet(tmp_path / name)
    assert not Dataset.load(tmp_path).notes
    (tmp_path / names[1]).unlink()
    assert "2 of the 3 parts" in " ".join(Dataset.load(tmp_path).notes)
    assert "1 of the 3 parts" in " ".join(Dataset.load(tmp_path / names[0]).notes)


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_a_file_without_sets_is_named(tmp_path, text):
    empty = tmp_path / "empty.jsonl"
    empty.write_text(text)
    for path in (empty, tmp_path):
        for fields in ({}, {"language": "en"}):
            sets = Dataset.load(path, **fields)
            assert len(sets) == 0
            assert "holds no sets" in sets.notes[0]
    table(tmp_path / "a.csv")
    sets = Dataset.load(tmp_path)
    assert (len(sets), *sets.notes) == (2, "empty.jsonl: It holds no sets.")


def test_the_error_message_lists_the_first_problems_and_counts_the_rest(tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text(
        "\n".join(['{"schema": null}'] * 30 + [f'{{"field{n}": 1}}' for n in range(20)]),
        encoding="utf-8",
    )
    with pytest.raises(DataError) as caught:
        Dataset.load(path)
    assert len(caught.value.problems) == 50 * 7 + 20
    assert "and 7 more" in str(caught.value)
    assert f"{path}:1: id: is missing (also in 49 more lines: 2, 3, 4, …)" in str(caught.value)


def test_rows_of_the_first_version_are_read_and_those_of_a_later_one_are_refused(tmp_path):
    path = tmp_path / "sets.jsonl"
    path.write_text(
        "\n".join([with_changes(id="old"), with_changes(id="same", schema="carb-set/1")]),
        encoding="utf-8",
    )
    assert len(Dataset.load(path)) == 2
    path.write_text(with_changes(schema="carb-set/4"), encoding="utf-8")
    (problem,) = problems_of(path)
    assert problem.field == "schema"
    assert "install a newer carb-data" in problem.reason


def test_a_flipped_bit_in_a_parquet_file_is_never_a_traceback(tmp_path):
    path = tmp_path / "sets.parquet"
    Dataset([BonSet.model_validate({**VALID, "id": f"s{n}"}) for n in range(20)]).save(path)
    whole = path.read_bytes()
    refused = 0
    for place in range(3, len(whole), 97):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:
            Dataset.load(path)
        except CarbError:
            refused += 1
    assert refused
