"""The journal: whatever happens to the file, complete lines are kept and everything else is noticed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data import CarbError
from carb_data.journal import DiskError, Journal
from carb_scorers import ScoreError, ScoreResult, ScorerSpec, Usage
from carb_scorers.folder import RunFolder
from carb_scorers.journal import JournalHead, ScoreJournal, check_journals, journal_path, read_journals

HEAD = JournalHead(fingerprint="f", seed=0, spec=ScorerSpec(name="s", kind="test"), version="carb-scorers 1")


def result(number: int, score: float = 0.1) -> ScoreResult:
    return ScoreResult(
        request_id=f"i{number}", scores={"1": score}, rationale="ก\n\u2028[[A]]", usage=Usage(input_tokens=number)
    )


def test_results_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    error = ScoreResult(request_id="e", error=ScoreError(kind="http", message="503"))
    with ScoreJournal(path, HEAD) as journal:
        journal.append([result(1, 1 / 3), error])
        journal.append([])
        journal.append(result(n) for n in (2, 3))
    with ScoreJournal(path, HEAD) as journal:
        assert list(journal.results.values()) == [result(1, 1 / 3), error, result(2), result(3)]
        assert journal.spent == Usage(input_tokens=6)
    assert path.read_bytes().count(b"\n") == 3


def test_of_several_results_the_first_that_is_no_error_counts(tmp_path: Path) -> None:
    """Errors may be retried; and a task that was lost on a cluster may be done twice."""
    path = tmp_path / "j.jsonl"
    spent = Usage(input_tokens=5)
    errors = [
        ScoreResult(request_id="i5", error=ScoreError(kind=k, message=""), usage=spent) for k in ("http", "timeout")
    ]
    for one in (*errors, result(5, 1.0), result(5, 2.0), errors[0]):
        with ScoreJournal(path, HEAD) as journal:
            journal.append([one])
            if one is errors[1]:
                assert journal.results["i5"] == errors[1]
    with ScoreJournal(path, HEAD) as journal:
        assert journal.results["i5"].scores == {"1": 1.0}
        assert journal.spent == Usage(input_tokens=25)  # all were paid for


@given(st.lists(st.integers(1, 4), max_size=6), st.data())
@settings(deadline=None, max_examples=60)
def test_cut_anywhere_it_keeps_whole_lines_and_goes_on(
    tmp_path_factory: pytest.TempPathFactory, groups: list[int], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("cut") / "j.jsonl"
    ends, number = [], 0
    with ScoreJournal(path, HEAD) as journal:
        for size in groups:
            journal.append([result(number + n) for n in range(size)])
            number += size
            ends.append((path.stat().st_size, number))
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    kept = max((count for end, count in ends if end <= cut), default=0)
    with ScoreJournal(path, HEAD) as journal:
        assert list(journal.results) == [f"i{n}" for n in range(kept)]
        journal.append([result(n) for n in range(kept, number)])
    with ScoreJournal(path, HEAD) as journal:
        assert journal.results == {f"i{n}": result(n) for n in range(number)}


@pytest.mark.parametrize("line", [b"{}\n", b"[{}]\n", b"\x00\x00\x00\n", b"[1]\n", b"\n"])
def test_a_damaged_line_costs_its_own_results_and_is_named(
    tmp_path: Path, line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "j.jsonl"
    with ScoreJournal(path, HEAD) as journal:
        journal.append([result(1)])
    with path.open("ab") as file:
        file.write(line)
    with ScoreJournal(path, HEAD) as journal:
        assert journal.results == {"i1": result(1)}
        journal.append([result(2)])
    assert "j.jsonl:3 is damaged" in caplog.text
    with ScoreJournal(path, HEAD) as journal:
        assert journal.results == {"i1": result(1), "i2": result(2)}
    path.write_bytes(line)
    with pytest.raises(CarbError, match=r"j\.jsonl:1 is not the head of a journal"):
        ScoreJournal(path, HEAD)


WRITER = """
import sys
from pathlib import Path
from carb_data.journal import Journal

with Journal(Path(sys.argv[1])) as journal:
    journal.append([b"one"])
    print("open", flush=True)
    sys.stdin.readline()
    journal.append([b"two"])
"""


def test_a_second_process_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        assert first.stdout.readline() == "open\n"
        with path.open("ab") as torn:
            torn.write(b"half a li")  # as the first writer's own line looks in the middle of a write
        second = subprocess.run(command, input="", capture_output=True, text=True, check=False)
        assert second.returncode != 0
        assert "Another process is writing into" in second.stderr
        assert path.read_bytes() == b"one\nhalf a li"
        first.stdin.write("go on\n")
        first.stdin.close()
        assert first.wait() == 0
    third = subprocess.run(command, input="\n", capture_output=True, text=True, check=False)
    assert third.returncode == 0
    with Journal(path) as journal:
        assert journal.lines[0] == b"one"
        assert journal.lines[-2:] == [b"one", b"two"]


def test_a_journal_of_the_format_before_is_gone_on_with(tmp_path: Path) -> None:
    path = journal_path(tmp_path / "journal", "s")
    with ScoreJournal(path, HEAD.model_copy(update={"format": 2})) as journal:
        journal.append([result(1)])
    path.write_bytes(path.read_bytes().replace(b'"request_id"', b'"item_id"'))
    with ScoreJournal(path, HEAD) as journal:
        assert journal.results == {"i1": result(1)}
        journal.append([result(2)])
    ((_, found),) = read_journals(path.parent)
    assert found == {"i1": result(1), "i2": result(2)}


def test_the_result_with_most_scores_counts(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    error = ScoreError(kind="too-long", message="")
    part = ScoreResult(request_id="i1", scores={"1": 1.0}, errors={"2": error})
    whole = ScoreResult(request_id="i1", scores={"1": 1.0, "2": 2.0})
    for results, expected in (([part, ScoreResult(request_id="i1", error=error)], part), ([whole, part], whole)):
        with ScoreJournal(path, HEAD) as journal:
            journal.append(results)
            assert journal.results == {"i1": expected}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"fingerprint": "g"}, "another data set"),
        ({"seed": 1}, "another seed"),
        ({"version": "carb-scorers 2"}, "another version"),
        ({"spec": ScorerSpec(name="s", kind="test", revision="abc")}, "another scorer"),
        ({"format": 1}, "another format"),
    ],
)
def test_results_of_something_else_are_refused(tmp_path: Path, change: dict[str, object], said: str) -> None:
    path = journal_path(tmp_path / "run" / "journal", "s")
    with ScoreJournal(path, HEAD.model_copy(update=change)) as journal:
        journal.append([result(1)])
    before = path.read_bytes()
    with pytest.raises(CarbError, match=said) as caught:
        ScoreJournal(path, HEAD)
    assert "--fresh" in str(caught.value)
    assert str(tmp_path / "run") in str(caught.value)
    assert path.read_bytes() == before


def test_other_journals_of_a_folder_are_looked_at_first(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    ScoreJournal(journal_path(folder, "s"), HEAD).close()
    (folder / "torn.jsonl").write_bytes(b'{"form')
    check_journals(folder, fingerprint="f", seed=0)
    check_journals(tmp_path / "none", fingerprint="f", seed=0)
    for fingerprint, seed, said in (("g", 0, "another data set"), ("f", 1, "another seed")):
        with pytest.raises(CarbError, match=said):
            check_journals(folder, fingerprint=fingerprint, seed=seed)


def test_names_become_files_of_their_own(tmp_path: Path) -> None:
    names = [
        "judge:/a/b?x=1",
        "judge:/a/b?x=2",
        "judge:_a_b?x=1",
        "x" * 500 + "1",
        "x" * 500 + "2",
        "日本",
        "../../etc",
    ]
    paths = {journal_path(tmp_path, name) for name in names}
    assert len(paths) == len(names)
    assert all(path.parent == tmp_path and len(path.name) < 100 for path in paths)


def test_a_full_disk_leaves_the_journal_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "j.jsonl"
    with ScoreJournal(path, HEAD) as journal:
        journal.append([result(1)])
        before = path.read_bytes()

        class Full:
            """Takes ten bytes, then nothing."""

            def __init__(self, file: object) -> None:
                self.file, self.room = file, 10

            def write(self, content: memoryview) -> int:
                if not self.room:
                    raise OSError(28, "No space left on device")
                self.room = 0
                return self.file.write(content[:10])

            def __getattr__(self, name: str) -> object:
                return getattr(self.file, name)

        inner = journal._journal
        file = inner._file
        inner._file = Full(file)
        with pytest.raises(DiskError, match=r"No space left on device.*same command again"):
            journal.append([result(2)])
        assert path.read_bytes() == before
        assert "i2" not in journal.results
        inner._file = file
        journal.append([result(2)])
    with ScoreJournal(path, HEAD) as journal:
        assert list(journal.results) == ["i1", "i2"]


def test_results_are_on_the_disk_before_they_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(descriptor), real(descriptor)))
    with ScoreJournal(tmp_path / "j.jsonl", HEAD) as journal:
        synced.clear()
        journal.append([result(1), result(2)])
        assert len(synced) == 1


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run"):
        with pytest.raises(CarbError, match="Another process is writing"):
            RunFolder(tmp_path / "run")
        with RunFolder(tmp_path / "other"):
            pass
    with RunFolder(tmp_path / "run"):
        pass


def test_a_folder_that_cannot_be_made_is_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CarbError, match="Cannot write into"):
        RunFolder(tmp_path / "file" / "run")


def test_fresh_discards_results_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    for name in ("journal/a.jsonl", "run.json", "scores.parquet", "errors.jsonl", "notes.txt", "report.html"):
        (tmp_path / name).write_text("x")
    RunFolder(tmp_path, fresh=True).close()
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != ".lock") == ["notes.txt", "report.html"]


def test_files_are_there_whole_or_not_at_all(tmp_path: Path) -> None:
    def half(path: Path) -> None:
        path.write_text("ne")
        raise OSError(28, "No space left on device")

    with RunFolder(tmp_path) as folder:
        folder.write("a.txt", lambda path: path.write_text("old"))
        with pytest.raises(DiskError, match=r"a\.txt: No space left"):
            folder.write("a.txt", half)
        assert (tmp_path / "a.txt").read_text() == "old"
        assert not list(tmp_path.glob(".partial*"))
