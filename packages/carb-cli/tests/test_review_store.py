"""The review file: what it keeps, what it refuses, what it forgets."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_cli.review import auth, handing_out
from carb_cli.review.asking import Person, ReviewAnswer, ReviewItem
from carb_cli.review.handing_out import next_items
from carb_cli.review.page_server import ReviewPage
from carb_cli.review.review_file import connect, introduce, record, setting, transaction
from carb_data import CarbError
from review_helpers import a_set, an_event, current_answers, items, panel, picked, sets, truthful

THAI = sets(4)


def ids(db: sqlite3.Connection) -> list[str]:
    return [row["id"] for row in db.execute("SELECT id FROM reviewer ORDER BY rowid")]


@pytest.fixture
def db(tmp_path: Path) -> sqlite3.Connection:
    made = handing_out.create(tmp_path / "a.reviews", THAI, "test")
    handing_out.invite(made, 2)
    yield made
    made.close()


def test_what_is_shown_does_not_say_which_answer_is_the_key() -> None:
    one = ReviewItem(a_set(1))
    moved = a_set(1, responses=tuple(reversed(a_set(1).responses)))
    shown = str(one.shown)
    assert set(one.shown) == {"id", "language", "turns", "options", "region", "place"}
    assert not any(f"'r{n}'" in shown for n in range(4))
    assert ReviewItem(moved).shown == one.shown  # the order in the data set leaves no trace
    assert one.key is not None
    assert one.options[one.key].id == "r0"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6), st.integers(0, 3)), max_size=25))
def test_the_current_answer_is_the_last_kept_event(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple]
) -> None:
    """Whatever arrives, in whatever order and however often: nothing is kept twice, no newer answer
    is overwritten."""
    db = handing_out.create(tmp_path_factory.mktemp("p") / "a.reviews", THAI, "test")
    handing_out.invite(db, 1)
    (name,) = ids(db)
    known = list(items(db).values())
    sent, model = [], {}
    with transaction(db):
        for which, base, token in steps:
            item = known[which]
            event = an_event(item, picked(item, item.tokens[token]), base)
            sent.append(event)
            outcome = record(db, name, event)
            current = model.get(item.id, (0, None))
            if base < current[0]:
                assert (outcome.state, outcome.revision) == ("conflict", current[0])
            else:
                assert outcome.state == "kept"
                model[item.id] = (base + 1, event.answer)
        for event in sent:  # everything again: nothing changes
            assert record(db, name, event).state in ("known", "conflict")
    assert {one.item.id: one.event.answer for one in current_answers(db)} == {
        id_: last for id_, (_, last) in model.items()
    }
    db.close()


def test_an_event_that_fits_no_item_or_is_another_person_s_is_refused(
    db: sqlite3.Connection,
) -> None:
    name, other = ids(db)
    one, two = list(items(db).values())[:2]
    cases = [
        an_event(one, picked(one, one.tokens[0])).model_copy(update={"item": "0" * 20}),
        an_event(one, picked(two, two.tokens[0])),
        an_event(one, picked(one, None)),
        an_event(one, ReviewAnswer(status="answered", opinions={})),
        an_event(one, picked(one, one.tokens[0])).model_copy(update={"shown": two.tokens}),
    ]
    for event in cases:
        with transaction(db):
            assert record(db, name, event).state == "refused"
    assert not current_answers(db)
    event = an_event(one, picked(one, one.key))
    with transaction(db):
        assert record(db, name, event).state == "kept"
        assert record(db, other, event).state == "refused"


def test_a_restored_backup_takes_the_newer_answers_again(
    db: sqlite3.Connection, tmp_path: Path
) -> None:
    name = ids(db)[0]
    item = next(iter(items(db).values()))
    with closing(sqlite3.connect(tmp_path / "old.reviews")) as copy:
        db.backup(copy)
    first, second = (
        an_event(item, picked(item, token), base) for base, token in enumerate(item.tokens[:2])
    )
    with transaction(db):
        assert [record(db, name, e).revision for e in (first, second)] == [1, 2]
    restored = connect(tmp_path / "old.reviews")
    with transaction(restored):
        assert record(restored, name, second).revision == 2  # all that the page still has
    assert [given.event.answer for given in current_answers(restored)] == [second.answer]
    restored.close()


def test_a_file_of_another_version_is_refused(db: sqlite3.Connection, tmp_path: Path) -> None:
    db.execute("PRAGMA application_id=1")
    with pytest.raises(CarbError, match="another carb"):
        connect(tmp_path / "a.reviews")


@pytest.mark.parametrize("statement", ["", "CREATE TABLE of_another_program (x)"])
def test_a_file_that_is_no_review_is_refused_and_left_as_it_is(
    tmp_path: Path, statement: str
) -> None:
    """An empty file became a review, and another program's database got another journal."""
    path = tmp_path / "answers.json"
    path.touch()
    with closing(sqlite3.connect(path)) as other:
        other.execute(statement)
    before = path.read_bytes()
    with pytest.raises(CarbError, match="another program"):
        connect(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_forgotten_means_gone_from_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.reviews"
    db = panel(path, THAI, [truthful(1), truthful(1)])
    first, second = ids(db)
    with transaction(db):
        introduce(db, first, Person(consent=1, name="Somchai-the-first", region="Isan-region"))
    assert handing_out.forget(db, "Somchai-the-first") == 4
    assert {g.reviewer for g in current_answers(db)} == {second}
    for file in tmp_path.iterdir():
        assert b"Somchai-the-first" not in file.read_bytes()
        assert b"Isan-region" not in file.read_bytes()
        assert first.encode() not in file.read_bytes()
    with pytest.raises(CarbError, match="no reviewer 'Somchai"):
        handing_out.forget(db, "Somchai-the-first")
    db.close()


def test_links_are_stored_hashed_expire_and_end(db: sqlite3.Connection, tmp_path: Path) -> None:
    name = ids(db)[0]
    with transaction(db):
        token = auth.make_link(db, name)
        assert auth.reviewer_of(db, token) == name
        assert auth.reviewer_of(db, token[:-1]) is None
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for file in tmp_path.iterdir():
        assert token.encode() not in file.read_bytes()
    with transaction(db):
        late = auth.make_link(db, name)
        assert auth.reviewer_of(db, token) is None
        db.execute("UPDATE reviewer SET expires = expires - ?", (auth.LINK_SECONDS + 1,))
        assert auth.reviewer_of(db, late) is None


def test_one_refused_job_harms_no_other(db: sqlite3.Connection) -> None:
    page = ReviewPage(db, port=0)

    def write(db: sqlite3.Connection, number: int) -> None:
        db.execute("INSERT INTO project VALUES (?, '')", (f"n{number}",))
        if number % 3 == 0:
            raise CarbError(f"refused {number}")

    async def at_once() -> list[CarbError | None]:
        return await asyncio.gather(
            *(page.run(partial(write, number=n)) for n in range(30)), return_exceptions=True
        )

    assert {n for n, outcome in enumerate(asyncio.run(at_once())) if outcome is not None} == set(
        range(0, 30, 3)
    )
    found = db.execute("SELECT name FROM project WHERE name LIKE 'n%'")
    assert {row["name"] for row in found} == {f"n{number}" for number in range(30) if number % 3}


def test_a_full_disk_is_told_and_keeps_nothing(db: sqlite3.Connection) -> None:
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    db.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(sqlite3.OperationalError, match="full"), transaction(db):
        db.execute("INSERT INTO project VALUES ('big', ?)", ("x" * 200_000,))
    assert setting(db, "big") == ""
    with transaction(db):
        assert db.in_transaction


@settings(max_examples=25, deadline=None)
@given(batch=st.integers(1, 7))
def test_everybody_is_asked_each_item_once_and_first_what_the_fewest_answered(
    tmp_path_factory: pytest.TempPathFactory, batch: int
) -> None:
    db = handing_out.create(tmp_path_factory.mktemp("p") / "a", sets(9), "test")
    handing_out.invite(db, 3)
    early, late, last = ids(db)
    with transaction(db):
        at_once = [item.id for name in ids(db) for item in next_items(db, name, 3)]
        assert len(set(at_once)) == 9, "people who begin together get different sets"
        db.execute("DELETE FROM assignment")
        done = [item.id for item in next_items(db, early, batch)]
        for item in [items(db)[id_] for id_ in done]:
            assert record(db, early, an_event(item, picked(item, item.key))).state == "kept"
        assert not {item.id for item in next_items(db, late, 9 - batch)} & set(done)
    for name in (late, last):
        asked: list[str] = []
        with transaction(db):
            while got := next_items(db, name, batch):
                assert next_items(db, name, len(got)) == got
                for item in got:
                    answer = picked(item, item.key)
                    assert record(db, name, an_event(item, answer)).state == "kept"
                    asked.append(item.id)
        assert len(asked) == len(set(asked)) == 9
    db.close()
