"""The store: what was appended is there, all of a line or nothing, whatever interrupted it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_data import CarbError
from carb_data.journal import DiskError, OtherHeadError, Store, read_store, write_whole
from carb_data.models import Citation, Frozen


class Head(Frozen):
    what: str = "a"


class Row(Frozen):
    key: str
    value: int = 0


def opened(path: Path | None, head: Head | None = None, **options) -> Store[Head, Row, str]:
    return Store(path, head or Head(), Row, lambda row: row.key, **options)


batches = st.lists(
    st.lists(st.builds(Row, key=st.text(max_size=3), value=st.integers()), max_size=4), max_size=4
)


@given(given_batches=batches, cut=st.integers(0, 400))
def test_a_torn_file_keeps_whole_batches(tmp_path_factory, given_batches, cut):
    path = tmp_path_factory.mktemp("store") / "x.jsonl"
    with opened(path) as store:
        head = path.stat().st_size
        ends = [head]
        for batch in given_batches:
            store.append(batch)
            ends.append(path.stat().st_size)
        whole = store.values
    with opened(path) as store:
        assert store.values == whole
    cut = max(head, ends[-1] - cut)
    os.truncate(path, cut)
    kept = [
        row
        for batch, end in zip(given_batches, ends[1:], strict=True)
        if end <= cut
        for row in batch
    ]
    assert read_store(path, Head, Row) == (Head(), kept)
    with opened(path) as store:
        assert store.values == {row.key: row for row in kept}


def test_one_writer_one_head_and_damaged_lines(tmp_path, caplog):
    path = tmp_path / "new" / "x.jsonl"
    with opened(path) as store:
        store.append([Row(key="a", value=1)])
        with pytest.raises(CarbError, match="Another process is writing"):
            opened(path)
    with pytest.raises(OtherHeadError, match="something else: what differ"):
        opened(path, Head(what="b"))
    with path.open("ab") as file:
        file.write(b"{}\n")
    with opened(path, better=lambda new, old: new.value > old.value) as store:
        assert "x.jsonl:3 is damaged (0.key: is missing)" in caplog.text
        store.append([Row(key="a", value=0), Row(key="b", value=2)])
        assert [row.value for row in store.values.values()] == [1, 2]
    path.write_text("no head\n")
    with pytest.raises(CarbError, match=r"x.jsonl:1 .*Remove the file"):
        opened(path)
    with opened(None) as store:
        store.append([Row(key="a")])
        assert "a" in store.values


HOLD = """
import sys
from pathlib import Path
from carb_data.journal import Store
from carb_data.models import Citation
store = Store(Path(sys.argv[1]), Citation(), Citation, lambda row: row.fact)
store.append([Citation(fact="a")])
print("open", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_until_the_first_ends_however(tmp_path):
    path = tmp_path / "x.jsonl"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(CarbError, match="Another process is writing"):
            Store(path, Citation(), Citation, lambda row: row.fact)
        other.kill()
    with Store(path, Citation(), Citation, lambda row: row.fact) as store:
        assert list(store.values) == ["a"]


def test_a_full_disk_is_a_sentence_and_changes_nothing(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    write_whole(tmp_path / "f", "old")
    with opened(tmp_path / "j") as store:
        store.append([Row(key="one")])
        before = (tmp_path / "j").read_bytes()
        monkeypatch.setattr(os, "fsync", full)
        for write in (
            lambda: store.append([Row(key="two")]),
            lambda: write_whole(tmp_path / "f", "new"),
        ):
            with pytest.raises(
                DiskError, match=r"No space left on device\. What was .*; free some space and"
            ):
                write()
        assert list(store.values) == ["one"]
    monkeypatch.undo()
    os.mkfifo(tmp_path / "pipe")  # a stand-in for a device, which root could replace
    for no_file in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(DiskError, match=r"It is no file\. .*; choose another folder and run"):
            write_whole(no_file, "new")
    (tmp_path / "pipe").unlink()
    assert (tmp_path / "j").read_bytes() == before
    assert (tmp_path / "f").read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == [".j.lock", "f", "j"]
    write_whole(tmp_path / "f", lambda path: path.write_text("made"))
    assert (tmp_path / "f").read_text() == "made"


def test_a_changed_character_is_noticed_wherever_it_stands(tmp_path, caplog):
    """A digit of a score that a disk had changed was read as it stood."""
    path = tmp_path / "x.jsonl"
    with opened(path) as store:
        store.append([Row(key="a", value=1234)])
        store.append([Row(key="b", value=5), Row(key="c")])
        whole = dict(store.values)
    content = path.read_bytes()
    start = content.index(b"\n") + 1
    for place in range(start, len(content) - 1):
        for changed in {content[place] ^ 1, content[place] ^ 4} - {10}:
            path.write_bytes(content[:place] + bytes([changed]) + content[place + 1 :])
            caplog.clear()
            _, rows = read_store(path, Head, Row)
            assert all(whole[row.key] == row for row in rows), bytes([changed])
            assert len(rows) < 3
            assert "is damaged" in caplog.text
