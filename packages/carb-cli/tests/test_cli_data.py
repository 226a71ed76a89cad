"""``carb data`` as a user types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from carb_data import Dataset, ScoreTable, cultures, load
from carb_data.files import to_json
from carb_data.registry import Registry
from carb_scorers import evaluate
from cli_helpers import Carb, small_dataset, small_set, write_culture, write_lines


def test_list(carb: Carb) -> None:
    found = carb("data", "list", "--json").json
    assert found["schema"] == "carb.data.list/1"
    assert [dataset["name"] for dataset in found["datasets"]] == ["carb-seed", "carb-seed@1"]
    assert {source["name"] for source in found["sources"]} >= {"blend"}
    assert "carb-seed" in carb("data", "list").out


def test_info_counts_every_set_once(carb: Carb, data_file: Path) -> None:
    found = carb("data", "info", data_file, "--json").json
    assert found["sets"] == 12 == sum(found["cultures"].values()) == sum(found["domains"].values())
    assert found["fingerprint"] == small_dataset().fingerprint
    assert found["licenses"] == {"CC0-1.0": 12}
    assert "japanese 6, thai 6" in carb("data", "info", data_file).out


def test_validate_says_yes(carb: Carb, data_file: Path) -> None:
    ended = carb("data", "validate", data_file, "--form-only")
    assert (ended.code, ended.err) == (0, "")
    assert "12 sets, all valid" in ended.out


def test_validate_passes_sound_sets_and_fails_those_whose_answers_give_themselves_away(
    carb: Carb, data_file: Path, tmp_path: Path
) -> None:
    pytest.importorskip("sklearn", reason="needs the extra carb-data[checks]")
    load("carb-seed@1").filter(cultures=["german"]).save(tmp_path / "sound.jsonl")
    assert carb("data", "validate", tmp_path / "sound.jsonl", "--json").json["valid"] is True
    ended = carb("data", "validate", data_file)  # its right answers all begin with the same word
    assert ended.code == 1
    assert "Given away by" in ended.out


def test_audit_names_what_works_and_exits_with_1_where_asked(carb: Carb, data_file: Path) -> None:
    pytest.importorskip("sklearn", reason="needs the extra carb-data[checks]")
    ended = carb("data", "audit", data_file, "--model", "baseline:length", "--json")
    assert ended.code == 0
    attacks = {a["attack"] for a in ended.json["attacks"]}
    assert {"longest", "bag of words", "baseline:length"} <= attacks
    assert ended.json["worst"]
    ended = carb("data", "audit", data_file, "--check")
    assert ended.code == 1
    assert "works" in ended.out


def test_audit_asks_a_model_once_about_the_answers_that_a_family_shares(
    carb: Carb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn", reason="needs the extra carb-data[checks]")
    family = [item for item in load("carb-seed@2") if item.family == "ko-safety-alcohol-allowance"]
    Dataset(family).save(tmp_path / "family.jsonl")
    asked: list[int] = []

    def counted(dataset: Dataset, scorers: list[str]) -> ScoreTable:
        asked.append(len(dataset))
        return evaluate(dataset, scorers)

    monkeypatch.setattr("carb_scorers.evaluate", counted)
    ended = carb("data", "audit", tmp_path / "family.jsonl", "--model", "baseline:length", "--json")
    rows = {a["attack"]: a for a in ended.json["attacks"] if a["level"] == "all"}
    assert (len(family), asked) == (4, [1])
    assert rows["baseline:length"]["accuracy"] == rows["longest"]["accuracy"] == 0.25


def test_validate_reports_every_defect_and_exits_with_1(carb: Carb, tmp_path: Path) -> None:
    good = to_json(small_set(1))
    path = write_lines(
        tmp_path / "bad.jsonl",
        [
            good,
            "{not json",
            to_json(small_set(2)).replace('"role":"rejected"', '"role":"chosen"', 1),
            to_json(small_set(3)).replace('"culture":"japanese"', '"culture":"japanes"'),
            good,
        ],
    )
    ended = carb("data", "validate", path, "--json")
    assert ended.code == 1
    problems = ended.json["problems"]
    assert [problem["line"] for problem in problems] == [2, 3, 4, 5]
    assert all(problem["file"] == str(path) for problem in problems)
    assert "found 2" in problems[1]["reason"]
    assert "Did you mean 'japanese'?" in problems[2]["reason"]

    plain = carb("data", "validate", path)
    assert plain.code == 1
    assert f"{path}:2:" in plain.out
    assert "4 problems in the data" in plain.out


def test_a_file_without_sets_is_not_valid(carb: Carb, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("", encoding="utf-8")
    ended = carb("data", "validate", tmp_path / "empty.jsonl")
    assert ended.code == 2
    assert "holds no sets" in ended.err


def test_split_by_source_item(carb: Carb, data_file: Path, tmp_path: Path) -> None:
    ended = carb(
        "data", "split", data_file, "--out", tmp_path / "parts", "--train", 0.5, "--dev", 0, "--test", 0.5, "--json"
    )
    parts = ended.json["parts"]
    assert set(parts) == {"train", "test"}
    together = [item for part in parts.values() for item in load(part["path"])]
    assert Dataset(together).fingerprint == load(data_file).fingerprint


def test_split_of_bad_fractions(carb: Carb, data_file: Path, tmp_path: Path) -> None:
    ended = carb("data", "split", data_file, "--out", tmp_path, "--train", 0.9)
    assert ended.code == 2
    assert "sum to 1" in ended.err


def test_build_of_an_unknown_source(carb: Carb, tmp_path: Path) -> None:
    ended = carb("data", "build", "blendd", "--source", tmp_path, "--out", tmp_path / "x.jsonl")
    assert ended.code == 2
    assert "Did you mean 'blend'?" in ended.err


def test_build_option_without_value(carb: Carb, tmp_path: Path) -> None:
    ended = carb("data", "build", "blend", "--source", tmp_path, "--out", tmp_path / "x.jsonl", "-o", "places")
    assert ended.code == 2
    assert "name=value" in ended.err


def test_culture_file(carb: Carb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cultures, "_known", dict(cultures._known))
    monkeypatch.setattr(cultures, "_shown", dict(cultures._shown))
    path = tmp_path / "swahili.jsonl"
    Dataset([small_set(1, culture="swahili")]).save(path)
    assert carb("data", "validate", path).code == 1
    extra = write_culture(tmp_path / "cultures.json", "swahili")
    assert carb("data", "validate", path, "--culture-file", extra).code == 0
    assert isinstance(cultures, Registry)
