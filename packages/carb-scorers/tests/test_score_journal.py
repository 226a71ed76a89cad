"""The journal of results: what is kept. What is refused: ``test_runs.py``."""

import os
import stat
from pathlib import Path

import pytest

from carb_scorers import ScoreError, ScoreResult, ScorerSpec, Usage
from carb_scorers.run.score_journal import JournalHead, ScoreJournal, journal_path, read_journal

HEAD = JournalHead(
    fingerprint="f", seed=0, spec=ScorerSpec(name="s", kind="test"), version="carb-scorers 1"
)


def result(number: int, score: float = 0.1) -> ScoreResult:
    usage = Usage(input_tokens=number, served=(f"m-{number % 2}",))
    return ScoreResult(
        request_id=f"i{number}", scores={"1": score}, rationale="ก\n\u2028[[A]]", usage=usage
    )


def test_results_come_back_as_they_were(tmp_path: Path) -> None:
    error = ScoreResult(request_id="e", error=ScoreError(kind="http", message="503"))
    with ScoreJournal(tmp_path, HEAD) as journal:
        journal.append([result(1, 1 / 3), error])
        journal.append([])
        journal.append(result(n) for n in (2, 3))
    with ScoreJournal(tmp_path, HEAD) as journal:
        assert list(journal.values.values()) == [result(1, 1 / 3), error, result(2), result(3)]
        assert journal.spent == Usage(
            input_tokens=6, served=("m-0", "m-1")
        )  # a server that changed its model
    head, found = read_journal(journal_path(tmp_path, "s"))
    assert head == HEAD
    assert list(found) == ["i1", "e", "i2", "i3"]
    assert journal_path(tmp_path, "s").read_bytes().count(b"\n") == 3


@pytest.mark.skipif(os.name == "nt", reason="Windows cannot open folders")
def test_a_new_journal_and_its_name_in_the_folder_are_on_the_disk_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut after the first answers must not lose the file that holds them."""
    synced: list[int] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    with ScoreJournal(tmp_path, HEAD) as journal:
        file, folder = journal_path(tmp_path, "s").stat().st_ino, tmp_path.stat().st_ino
        assert stat.S_ISDIR(tmp_path.stat().st_mode)
        assert synced == [file, folder]
        journal.append([result(1)])
        assert synced == [file, folder, file]
