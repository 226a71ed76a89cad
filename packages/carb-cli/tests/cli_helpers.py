"""What the tests of the command line share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from carb_data import BonSet, Dataset, Provenance, Response

BASELINES = ("baseline:random", "baseline:length", "baseline:label")


@dataclass(frozen=True)
class Ended:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Carb = Callable[..., Ended]


def small_set(number: int, **changes: object) -> BonSet:
    """A valid set; ``changes`` replace its fields."""
    texts = ["right answer", "wrong one", "another wrong one", "the last wrong one"]
    fields: dict[str, object] = {
        "id": f"set-{number}",
        "culture": "japanese" if number % 2 else "thai",
        "domain": "values" if number % 3 else "safety",
        "topic": "food",
        "language": "en",
        "prompt": f"Question {number}?",
        "responses": tuple(
            Response(
                id=f"r{i}",
                text=f"{text} {number}",
                role="rejected" if i else "chosen",
                language="en",
            )
            for i, text in enumerate(texts)
        ),
        "provenance": Provenance(source="test", license="CC0-1.0", method="authored"),
    }
    return BonSet.model_validate(fields | changes)


def small_dataset(size: int = 12) -> Dataset:
    return Dataset(small_set(number) for number in range(size))


def small_family(number: int) -> list[BonSet]:
    """Four mirrored sets, the first of them a main set: each of the same four answers is right in
    one."""
    made = []
    for place, culture in enumerate(("english-us", "thai", "japanese", "french")):
        responses = tuple(
            Response(
                id=f"r{i}",
                text=f"answer {i} {number}",
                role="rejected" if i != place else "chosen",
                language="en",
            )
            for i in range(4)
        )
        changes = {
            "id": f"f{number}-{place}",
            "culture": culture,
            "family": f"f{number}",
            "responses": responses,
        }
        made.append(
            small_set(
                number, **changes, prompt=f"Question {number} in place {place}?", domain="values"
            )
        )
    return made


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@contextmanager
def answering(answer: Callable[[str, Any], tuple[int, Any]]) -> Iterator[str]:
    """The address of a server.

    Args:
        answer: makes a status and an object of a path and of what was posted; null where nothing
            was.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, content = answer(self.path, json.loads(sent or "null"))
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Patient(ThreadingHTTPServer):
        """One that lets as many callers wait as a scorer has under way: by default five may, and
        another one tries again after a second, and then after ever longer ones."""

        request_queue_size = 64

    with Patient(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def write_review(path: Path) -> None:
    """A review of the seed's Thai sets with two reviewers; beside it answers as the page saves
    them."""
    from uuid import uuid4

    from carb_cli.review import handing_out
    from carb_cli.review.review_file import given
    from carb_data import load

    db = handing_out.create(path, load("carb-seed").filter(cultures=["thai"]), "carb-seed")
    handing_out.invite(db, 2)
    first, _ = given(db)[0]
    db.close()
    verdicts = {
        token: {"verdict": "best" if token == first.key else "wrong"} for token in first.tokens
    }
    answer = {"status": "answered", "opinions": verdicts}
    event = {
        "id": str(uuid4()),
        "item": first.id,
        "shown": first.tokens,
        "base": 0,
        "answer": answer,
    }
    saved = {
        "form": "carb.review.answers/1",
        "reviewer": str(uuid4()),
        "person": {"consent": 1},
        "events": [event],
    }
    path.with_name("answers.json").write_text(json.dumps(saved))
