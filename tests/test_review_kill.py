"""kill -9 of a real review server at random moments loses no answer that it acknowledged."""

from __future__ import annotations

import random
import sqlite3
import threading
from http.client import HTTPException
from pathlib import Path

from review_server import Client, Server, event, question

ROUNDS = 3
CLIENTS = 4
MOST_WRITTEN = 25
"""Questions of a reviewer in a round; a review takes 100 of one person."""


class Sender(threading.Thread):
    """A reviewer who sends without rest until the server is gone, and keeps a list of what was
    acknowledged."""

    def __init__(
        self, client: Client, items: list[dict], seed: int, enough: threading.Semaphore
    ) -> None:
        super().__init__()
        self.client, self.items, self.rng, self.enough = client, items, random.Random(seed), enough
        self.revisions = dict.fromkeys((item["id"] for item in items), 0)
        self.acknowledged: list[str] = []
        self.unsure: list[dict] = []
        self.written = 0

    def run(self) -> None:
        while True:
            item = self.rng.choice(self.items)
            sent = event(item, self.rng.randrange(4), self.revisions[item["id"]])
            if self.written < MOST_WRITTEN and self.rng.random() < 0.3:
                item = sent = question(self.written)
                self.written += 1
            self.unsure = [sent]
            try:
                status, found = self.client.call("api/events", {"events": [sent]})
            except (
                OSError,
                HTTPException,
            ):  # the server was killed; this event may or may not be kept
                return
            assert status == 200, found
            assert found[0]["state"] == "kept", found
            self.revisions[item["id"]] = found[0]["revision"]
            self.acknowledged.append(sent["id"])
            self.unsure = []
            self.enough.release()


def test_no_acknowledged_answer_is_lost(tmp_path: Path) -> None:
    rng = random.Random(1)
    out = tmp_path / "thai.reviews"
    server = Server(out, "--invite", str(CLIENTS), "--beat", "none")
    port = str(server.url.rstrip("/").rpartition(":")[2])
    clients = [Client(link) for link in server.links]
    for client in clients:
        client.enter()
    items = [client.items(6) for client in clients]
    shown = [item["shown"] for own in items for item in own]
    assert any(order != sorted(order) for order in shown), (
        "answers in a fixed order have a liked place"
    )
    revisions: list[dict[str, int]] = [{} for _ in clients]
    acknowledged: list[str] = []
    for number in range(ROUNDS):
        enough = threading.Semaphore(0)
        senders = [
            Sender(c, i, number * 10 + n, enough)
            for n, (c, i) in enumerate(zip(clients, items, strict=True))
        ]
        for sender, before in zip(senders, revisions, strict=True):
            sender.revisions |= before
            sender.start()
        for _ in range(rng.randrange(15, 60)):
            assert enough.acquire(timeout=30)
        server.kill()
        for sender in senders:
            sender.join()
            acknowledged += sender.acknowledged
        server = Server(out, "--invite", str(CLIENTS), "--beat", "none", "--port", port)
        assert server.links == []  # the old ones stay valid
        for place, (client, sender) in enumerate(zip(clients, senders, strict=True)):
            if sender.unsure:  # the page sends again what was not acknowledged; it counts once
                status, found = client.call("api/events", {"events": sender.unsure * 2})
                assert status == 200
                assert {one["state"] for one in found} <= {"kept", "known"}
                acknowledged.append(sender.unsure[0]["id"])
            revisions[place] = client.call("api/me", {})[1]["revisions"]
    server.stop()
    with sqlite3.connect(out) as db:
        kept = [row[0] for row in db.execute("SELECT id FROM event")]
        written = [row[0] for row in db.execute("SELECT set_id FROM item WHERE writer IS NOT NULL")]
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        behind = db.execute(
            "SELECT count(*) FROM assignment WHERE revision != (SELECT count(*) FROM event "
            "WHERE event.assignment = assignment.id)"
        ).fetchone()[0]
    db.close()
    assert len(acknowledged) >= 15 * ROUNDS
    assert len(written) >= ROUNDS
    assert sorted(kept + written) == sorted(acknowledged)
    assert behind == 0
