"""The record of the first version: each of its sets once, with an outcome that the bank and its families bear out."""

from __future__ import annotations

import json

import pytest

from carb_data import load
from carb_data.audit.carried import Carried, check_carried, main, read_carried
from carb_data.dataset import SEED_2_FOLDER
from carb_data.facts import Line, read_bank

OLD = load("carb-seed@1")


@pytest.fixture(scope="module")
def bank():
    return read_bank(SEED_2_FOLDER, [])


def test_every_set_of_the_first_version_has_an_outcome(bank):
    problems = []
    lines = read_carried(SEED_2_FOLDER, problems)
    assert [*problems, *check_carried(lines, OLD, bank)] == []
    assert [line.content.set for line in lines] == [item.id for item in OLD]


def line(**changes) -> Carried:
    given = {"set": OLD[0].id, "verdict": "fine", "trivial": False, "outcome": "dropped", "reason": "unstated",
             "note": "No page."}  # fmt: skip
    return Carried.model_validate({**given, **changes})


def found(bank, *lines: Carried) -> list[str]:
    numbered = [Line("carried.jsonl", n, one) for n, one in enumerate(lines, 1)]
    return [p.reason.partition(": ")[2] or p.reason for p in check_carried(numbered, OLD.filter(culture), bank)]


def culture(item) -> bool:
    return item.id == OLD[0].id


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"set": "seed-xx-01"}, "is no set of the first version, or is there twice"),
        ({"reason": None}, "a dropped set has a reason, any other a topic"),
        ({"topic": "ramadan-eating"}, "a dropped set has a reason, any other a topic"),
        ({"outcome": "carried"}, "a dropped set has a reason, any other a topic"),
        ({"outcome": "carried", "reason": None}, "a dropped set has a reason, any other a topic"),
        ({"outcome": "carried", "reason": None, "topic": "ramadan-eating"}, None),
        ({"outcome": "carried", "reason": None, "topic": "es-kite"}, "no family in ar asks about 'es-kite' at home"),
        ({"reason": "trivial"}, "'trivial' is not what the reader found"),
        ({"reason": "doubtful"}, "'doubtful' is not what the reader found"),
        ({"note": None}, "'unstated' needs a note"),
    ],
)
def test_what_is_wrong_with_an_outcome_is_said(bank, change, reason):
    assert [one for one in found(bank, line(**change)) if "no outcome" not in one] == [reason] * (reason is not None)


def test_a_set_is_there_once(bank):
    assert found(bank, line(), line()) == ["is no set of the first version, or is there twice"]
    assert found(bank) == [f"{OLD[0].id} has no outcome"]


def test_the_command_fails_on_a_record_with_a_gap(tmp_path, capsys):
    for part in ("facts", "families"):
        (tmp_path / part).symlink_to(SEED_2_FOLDER / part)
    kept = (SEED_2_FOLDER / "carried.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    (tmp_path / "carried.jsonl").write_text("\n".join(kept), encoding="utf-8")
    assert main(tmp_path) == 1
    assert f"{json.loads(kept[0])['set'][:-1]}1 has no outcome" in capsys.readouterr().out
