"""Parts of a journal that many workers write."""

from pathlib import Path

import pytest

from carb_data import CarbError
from carb_data.journal import DiskError
from carb_scorers import ScoreError, ScoreResult, Usage
from carb_scorers.parts import read_parts, write_part


def results(*numbers: int) -> list[ScoreResult]:
    return [
        ScoreResult(request_id=f"i{n}", scores={"1": n / 3}, rationale="ก\n", usage=Usage(output_tokens=n))
        for n in numbers
    ]


def test_parts_come_back_as_they_were(tmp_path: Path) -> None:
    error = ScoreResult(request_id="e", error=ScoreError(kind="http", message="503"))
    write_part(tmp_path / "p", "one", [*results(1, 2), error])
    write_part(tmp_path / "p", "one", results(3))
    found = sorted(read_parts(tmp_path / "p"), key=lambda r: r.request_id)
    assert found == [error, *results(1, 2, 3)]
    assert list(read_parts(tmp_path / "none")) == []


def test_a_task_done_twice_is_one_part(tmp_path: Path) -> None:
    assert write_part(tmp_path, "one", results(1, 2)) == write_part(tmp_path, "one", results(2, 1))
    assert len(list(tmp_path.iterdir())) == 1
    write_part(tmp_path, "two", results(1, 2))  # another attempt, as when errors are retried
    assert len(list(tmp_path.iterdir())) == 2


def test_what_a_killed_worker_left_is_not_read(tmp_path: Path) -> None:
    path = write_part(tmp_path, "one", results(1))
    (tmp_path / f".{path.name}.123").write_bytes(path.read_bytes()[:20])
    assert list(read_parts(tmp_path)) == results(1)


def test_a_damaged_part_is_reported(tmp_path: Path) -> None:
    path = write_part(tmp_path, "one", results(1))
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(CarbError, match=path.name):
        list(read_parts(tmp_path))


def test_a_folder_that_cannot_be_written_is_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DiskError, match="same command again"):
        write_part(tmp_path / "file" / "parts", "one", results(1))
