"""``carb data`` as a user types it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from carb_data import Dataset, load
from carb_data.files import to_json
from cli_helpers import Carb, small_dataset, small_set, write_lines


def test_list(carb: Carb) -> None:
    found = carb("data", "list", "--json").json
    assert "carb-seed@3" in [dataset["name"] for dataset in found["datasets"]]
    assert {source["name"] for source in found["sources"]} >= {"blend"}
    assert "carb-seed" in carb("data", "list").out


def test_show_counts_every_set_once(carb: Carb, data_file: Path) -> None:
    found = carb("data", "show", data_file, "--json").json
    assert found["sets"] == 12 == sum(found["cultures"].values()) == sum(found["domains"].values())
    assert found["fingerprint"] == small_dataset().fingerprint
    assert found["licenses"] == {"CC0-1.0": 12}
    assert "japanese 6, thai 6" in carb("data", "show", data_file).out


def test_show_prints_families_as_tables_and_one_by_name(carb: Carb) -> None:
    shown = carb("data", "show", "carb-seed").out
    assert sum("right" in line and "·" in line for line in shown.splitlines()) >= 8
    assert "Always the home's answer" in shown
    sizes = Counter(item.family for item in load("carb-seed") if item.family)
    name = next(family for family, size in sizes.items() if size == 4)
    found = carb("data", "show", "carb-seed", "--family", name, "--json").json
    assert found["family"] == name
    assert found["right"] == [[row == column for column in range(4)] for row in range(4)]
    assert len(found["places"]) == len(found["answers"]) == 4
    alone = carb("data", "show", "carb-seed", "--family", name).out
    assert all(answer[:20] in alone for answer in found["answers"])
    assert "fingerprint" not in alone
    wrong = carb("data", "show", "carb-seed", "--family", f"{name}x")
    assert wrong.code == 2
    assert name in wrong.err


def test_show_gives_the_home_line_by_language(carb: Carb, data_file: Path) -> None:
    found = carb("data", "show", "carb-seed", "--json").json
    assert found["home_line"]["n"] == sum(line["n"] for line in found["home_by_language"].values())
    assert 0.5 < found["home_line"]["accuracy"] < 1
    silent = carb("data", "show", data_file, "--json").json
    assert silent["home_line"] == {"accuracy": None, "n": 0}
    assert "home's answer" not in carb("data", "show", data_file).out


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_the_form_alone_is_checked_against_training_data_too(
    carb: Carb, data_file: Path, tmp_path: Path, options: list[str]
) -> None:
    checked = [data_file, "--form-only", *options]
    ended = carb("data", "check", *checked, "--against", data_file)
    assert ended.code == 1
    assert "set-3" in ended.out
    other = tmp_path / "other.txt"
    other.write_text("Nothing of note.\n")
    assert carb("data", "check", *checked, "--against", other).code == 0
    assert carb("data", "check", *checked).code == 0
    hard = carb("data", "check", *checked, "--write-hard", tmp_path / "hard.jsonl")
    assert hard.code == 2
    assert "--write-hard" in hard.err
    assert "--form-only" in hard.err
    assert not (tmp_path / "hard.jsonl").exists()


def test_check_reports_findings_attacks_and_hard_sets(carb: Carb, tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="needs the extra carb-data[checks]")
    pytest.importorskip("lingua", reason="needs the extra carb-data[checks]")
    path, hard = tmp_path / "d.jsonl", tmp_path / "hard.jsonl"
    Dataset([*small_dataset(24), small_set(1, id="copy")]).save(path)
    ended = carb("data", "check", path, "--write-hard", hard, "--json")
    assert ended.code == 1  # its right answers all begin with the same word
    found = ended.json
    assert {(f["check"], f["item_id"]) for f in found["findings"] if f["severity"] == "error"} == {
        ("duplicate", "copy")
    }
    attacks = {
        attack["attack"]: attack for attack in found["audit"]["attacks"] if attack["level"] == "all"
    }
    assert attacks["bag of words"]["accuracy"] == 1
    assert found["audit"]["hard"] == []
    assert len(load(hard)) == 0
    shown = carb("data", "check", path).out
    assert "From the answers alone" in shown
    assert "Leaks: " in shown


def test_check_against_training_data(carb: Carb, data_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("lingua", reason="needs the extra carb-data[checks]")
    train = tmp_path / "train.txt"
    train.write_text("Nothing of note.\nQuestion 3?\n")
    ended = carb("data", "check", data_file, "--against", train, "--json")
    assert ended.code == 1
    (found,) = [o for o in ended.json["contamination"]["overlaps"] if o["item_id"] == "set-3"]
    assert found["train_position"] == 1
    assert (
        "sets are in the training data"
        in carb("data", "check", data_file, "--against", data_file).out
    )
    assert carb("data", "check", data_file, "--against", tmp_path / "none.txt").code == 2
    one = tmp_path / "one.jsonl"
    one.write_text(data_file.read_text(encoding="utf-8").partition("\n")[0], encoding="utf-8")
    assert "too few to detect" in carb("data", "check", one).out
    train.write_bytes(b"\xff\xfe")
    assert carb("data", "check", data_file, "--against", train).code == 2


def test_check_reports_every_defect_and_exits_with_1(carb: Carb, tmp_path: Path) -> None:
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
    ended = carb("data", "check", path, "--json")
    assert ended.code == 1
    problems = ended.json["problems"]
    assert [problem["line"] for problem in problems] == [2, 3, 4, 5]
    assert all(problem["file"] == str(path) for problem in problems)
    assert "found 2" in problems[1]["reason"]
    assert "Did you mean 'japanese'?" in problems[2]["reason"]

    plain = carb("data", "check", path)
    assert plain.code == 1
    assert f"{path}:2:" in plain.out
    assert "4 problems in the data" in plain.out


def test_split_by_source_item(carb: Carb, data_file: Path, tmp_path: Path) -> None:
    ended = carb(
        "data",
        "split",
        data_file,
        "--out",
        tmp_path / "parts",
        "--train",
        0.5,
        "--dev",
        0,
        "--test",
        0.5,
        "--json",
    )
    parts = ended.json["parts"]
    assert set(parts) == {"train", "test"}
    together = [item for part in parts.values() for item in load(part["path"])]
    assert Dataset(together).fingerprint == load(data_file).fingerprint
