"""Questions that people write: read blind by a second person, and a data set with the person as its
source."""

from __future__ import annotations

import json
import sqlite3
import uuid
from pathlib import Path

import pytest
from pydantic import ValidationError

from carb_cli.review import handing_out
from carb_cli.review.asking import Person, Question
from carb_cli.review.findings import WHOLE, find
from carb_cli.review.page_server import verdict
from carb_cli.review.review_file import introduce, record, transaction
from carb_data import CarbError, Dataset, load
from carb_scorers import ScoreError, ScoreRequest, ScoreResult, ScorerSpec
from cli_helpers import Carb
from review_helpers import a_set, an_event, items, picked, sets


def a_question(number: int = 0, **changes: object) -> Question:
    fields = {
        "question": f"What now {number}?",
        "right": f"this {number}",
        "wrong": f"that {number}, as elsewhere",
    }
    return Question(**{"id": uuid.uuid4(), **fields, **changes})


@pytest.fixture
def db(tmp_path: Path) -> sqlite3.Connection:
    made = handing_out.create(tmp_path / "a.reviews", sets(2), "test", beat="")
    handing_out.create(
        tmp_path / "a.reviews", sets(2), "test"
    ).close()  # a page for a disk, too: nothing changes
    handing_out.invite(made, 3)
    with transaction(made):
        for row in made.execute("SELECT id FROM reviewer").fetchall():
            introduce(made, row["id"], Person(consent=1))
    yield made
    made.close()


def people(db: sqlite3.Connection) -> list[str]:
    return [row["id"] for row in db.execute("SELECT id FROM reviewer ORDER BY rowid")]


def test_a_question_counts_once_and_belongs_to_its_writer(db: sqlite3.Connection) -> None:
    writer, other, _ = people(db)
    sent = a_question()
    with transaction(db):
        assert [record(db, writer, sent).state for _ in range(2)] == ["kept", "known"]
        assert record(db, other, sent).state == "refused"
        assert len(handing_out.next_items(db, writer, 50)) == 2, (
            "nobody is asked their own question"
        )
        shown = [item.shown for item in handing_out.next_items(db, other, 50)]
    assert len(shown) == 3
    assert shown[0]["turns"] == [sent.question], "people's questions come first"
    assert "wrong" not in json.dumps(shown[0]).replace(sent.wrong, "")
    assert str(sent.id) not in json.dumps(shown[0])
    (own,) = items(db, written=True).values()
    with transaction(db):
        assert record(db, writer, an_event(own, picked(own, own.key))).state == "refused"
    for number in range(200):
        with transaction(db):
            last = record(db, writer, a_question(number))
    assert last.state == "refused"
    assert "100 questions" in last.reason


@pytest.mark.parametrize(
    "changes",
    [
        {"question": "x" * 1001},
        {"right": "x" * 501},
        {"wrong": " \n"},
        {"question": ""},
        {"right": "Same", "wrong": " same "},
        {"question": "\ud800"},
        {"more": 1},
    ],
)
def test_what_is_no_question_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        a_question(**changes)


def test_a_review_takes_questions_about_one_place_and_only_where_it_was_asked_to(
    tmp_path: Path,
) -> None:
    mixed = Dataset([a_set(0), a_set(1, culture="japanese", language="ja")])
    db = handing_out.create(tmp_path / "b.reviews", mixed, "test")
    handing_out.invite(db, 1)
    with transaction(db):
        assert "takes no questions" in record(db, people(db)[0], a_question()).reason
    db.close()
    with pytest.raises(CarbError, match="--culture"):
        handing_out.create(tmp_path / "b.reviews", mixed, "test", beat="")


def test_what_people_wrote_is_a_data_set_that_says_who_agreed(
    db: sqlite3.Connection, tmp_path: Path, carb: Carb
) -> None:
    writer, second, third = people(db)
    with transaction(db):
        for number in range(3):
            assert record(db, writer, a_question(number)).state == "kept"
        agreed, disputed, _ = items(db, written=True).values()
        for who in (second, third):
            assert record(db, who, an_event(agreed, picked(agreed, agreed.key))).state == "kept"
        other = next(token for token in disputed.tokens if token != disputed.key)
        assert record(db, second, an_event(disputed, picked(disputed, other))).state == "kept"
    found = find(db)
    assert (found.lines[WHOLE].n, len(found.sets)) == (0, 2), (
        "the human line is of the data set alone"
    )
    out = tmp_path / "written.jsonl"
    ended = carb("review", "collect", tmp_path / "a.reviews", "--written", out)
    assert ended.code == 0, ended.err
    assert "other people agree on 1." in " ".join(ended.out.split())
    made = load(out)
    assert {(item.culture, item.language, item.provenance.source) for item in made} == {
        ("thai", "th", "person")
    }
    assert {item.provenance.license for item in made} == {"CC0-1.0"}
    tiers = {
        item.chosen.text: (item.provenance.tier, item.provenance.notes, item.chosen.votes)
        for item in made
    }
    assert tiers["this 0"][0] == "human-voted"
    assert "2 of 2 other people agree" in tiers["this 0"][1]
    assert (tiers["this 0"][2].asked, tiers["this 0"][2].right) == (2, 2)
    assert (tiers["this 1"][0], tiers["this 1"][2].right) == ("human-written", 0)
    assert "0 of 1 other people agree" in tiers["this 1"][1]
    assert "nobody else has read it" in tiers["this 2"][1]
    assert tiers["this 2"][2] is None
    name = db.execute("SELECT name FROM reviewer WHERE id = ?", (writer,)).fetchone()["name"]
    assert name not in out.read_text()
    assert writer not in out.read_text()
    assert carb("data", "check", out).code == 0
    assert carb("eval", "baseline:length", out, "--out", tmp_path / "run").code == 0
    assert handing_out.forget(db, name) == 0
    assert items(db, written=True) == {}
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert all(b"as elsewhere" not in file.read_bytes() for file in tmp_path.glob("a.reviews*"))


def test_a_saved_file_brings_questions_too(
    db: sqlite3.Connection, tmp_path: Path, carb: Carb
) -> None:
    person = {"name": "Noi", "consent": 1}
    events = [a_question().model_dump(mode="json")]
    saved = {
        "form": "carb.review.answers/1",
        "reviewer": str(uuid.uuid4()),
        "person": person,
        "events": events,
    }
    (tmp_path / "answers.json").write_text(json.dumps(saved))
    for new in (1, 0):
        ended = carb(
            "review", "collect", tmp_path / "a.reviews", tmp_path / "answers.json", "--json"
        )
        assert (ended.code, ended.json["new"]) == (0, new), ended.err
    assert len(items(db, written=True)) == 1


class Asked:
    """A scorer that keeps what it was asked, and gives each text a score, or fails with an error
    without words."""

    def __init__(self, scores: dict[str, float]) -> None:
        self.spec = ScorerSpec(name="asked", kind="test", model="asked", revision="1")
        self.scores, self.requests = scores, []

    async def score(self, requests: list[ScoreRequest]) -> list[ScoreResult]:
        self.requests += requests
        failed = {} if self.scores else {"error": ScoreError(kind="refused", message="")}
        return [
            ScoreResult(
                request_id=one.request_id,
                scores={c.id: self.scores[c.text] for c in one.candidates if c.text in self.scores},
                **failed,
            )
            for one in requests
        ]

    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ({"a": 1.0, "b": 0.5}, ("not fooled", "fooled")),
        ({"a": 0.5, "b": 1.0}, ("fooled", "not fooled")),
        ({"a": 0.5, "b": 0.5}, ("undecided", "undecided")),
        ({}, ("failed", "failed")),
    ],
)
def test_a_scorer_is_asked_blind_and_what_fails_is_no_verdict(
    scores: dict[str, float], said: tuple[str, str]
) -> None:
    scorer = Asked(scores)
    for (right, wrong), wanted in zip([("a", "b"), ("b", "a")], said, strict=True):
        assert verdict(scorer, a_question(right=right, wrong=wrong).as_set("thai", "th")) == wanted
    one, two = scorer.requests
    assert one == two, "a request does not change with the answer that is right"
    assert {candidate.text for candidate in one.candidates} == {"a", "b"}
