"""Fetching: pinned, resumed, refused; against a server on the loopback."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from carb_data import CarbError
from carb_data.sources import published as places
from carb_data.sources import rows
from carb_data.sources.fetching import fetch
from carb_data.sources.published import Published, find_files, published, published_names

pytest.importorskip("pooch")

COMMIT = "0" * 40
CONTENT = bytes(range(256)) * 1000


class Server(BaseHTTPRequestHandler):
    """Serves CONTENT, by ranges; breaks off after ``breaks_after`` bytes once."""

    asked: ClassVar[list[str | None]] = []
    content = CONTENT
    breaks_after: int | None = None

    def do_GET(self) -> None:
        cls = type(self)
        cls.asked.append(self.headers.get("Range"))
        if "missing" in self.path:
            self.send_error(404)
            return
        start = int(found[1]) if (found := re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))) else 0
        if start >= len(self.content):
            self.send_error(416)
            return
        body = self.content[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if cls.breaks_after is not None:
            body, cls.breaks_after = body[: cls.breaks_after], None
            self.close_connection = True
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Publishes files for the source ``made``, with or without a pin."""
    monkeypatch.setenv("CARB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CARB_DATA_DIR", raising=False)
    monkeypatch.setattr(Server, "asked", [])
    monkeypatch.setattr(Server, "content", CONTENT)
    monkeypatch.setattr(Server, "breaks_after", None)

    def publish(path: str = "a b.json", *, licence: str = "MIT", sha256: str | None = None, place: str | None = None):
        file = {"path": path, "sha256": sha256, **({"as": place} if place else {})}
        made = Published.model_validate({"repository": "o/n", "commit": COMMIT, "license": licence, "files": [file]})
        monkeypatch.setattr(places, "_all", lambda: {"made": made})
        return tmp_path / "cache" / "sources" / "made" / (place or path)

    return publish


PIN = hashlib.sha256(CONTENT).hexdigest()


def test_a_pinned_file_is_fetched_once_and_found(made, address):
    file = made(sha256=PIN, place="deep/er.json")
    with pytest.raises(CarbError, match="Run: carb data fetch made"):
        find_files("made")
    first = fetch("made", mirror=address, retries=0)
    assert file.read_bytes() == CONTENT
    assert (first.new, first.bytes) == (1, len(CONTENT))
    assert fetch("made", mirror=address, retries=0).new == 0
    assert len(Server.asked) == 1
    assert find_files("made") == file.parents[1]


def test_an_interrupted_fetch_goes_on_where_it_stopped(made, address):
    file = made(sha256=PIN)
    Server.breaks_after = 100_000
    with pytest.raises(CarbError, match="goes on where it stopped"):
        fetch("made", mirror=address, retries=0)
    assert not file.exists()
    fetch("made", mirror=address, retries=0)
    assert file.read_bytes() == CONTENT
    assert Server.asked[0] is None
    assert 0 < int(re.findall(r"\d+", Server.asked[1])[0]) <= 100_000


def test_another_content_than_pinned_is_refused_and_not_kept(made, address):
    file = made(sha256="1" * 64)
    with pytest.raises(CarbError, match="is not the file that was pinned"):
        fetch("made", mirror=address, retries=0)
    assert not list(file.parent.iterdir())


def test_a_file_that_is_not_there_is_named(made, address):
    made("missing.json", sha256=PIN)
    with pytest.raises(CarbError, match=r"Cannot fetch .*missing\.json: 404"):
        fetch("made", mirror=address, retries=0)


def test_without_a_pin_the_first_download_is_trusted_and_a_later_change_refused(made, address):
    file = made()
    fetch("made", mirror=address, retries=0)
    file.unlink()
    Server.content = CONTENT + b"!"
    with pytest.raises(CarbError, match="is not the file that was pinned"):
        fetch("made", mirror=address, retries=0)
    Server.content = CONTENT
    assert fetch("made", mirror=address, retries=0).new == 1


def test_what_nobody_licensed_must_be_accepted(made, address):
    made(licence="LicenseRef-none-stated", sha256=PIN)
    with pytest.raises(CarbError, match="--accept"):
        fetch("made", mirror=address, retries=0)
    assert not Server.asked
    assert fetch("made", mirror=address, retries=0, accept=True).new == 1


@pytest.mark.parametrize("place", ["../out.json", "/etc/out.json"])
def test_no_file_is_put_outside_of_the_cache(made, address, place):
    made(sha256=PIN, place=place)
    with pytest.raises(CarbError, match="outside"):
        fetch("made", mirror=address, retries=0)


def test_every_published_file_has_a_pin_and_a_place():
    for name in published_names():
        found = published(name)
        assert all(file.sha256 and file.bytes for file in found.files)
        assert len({file.place for file in found.files}) == len(found.files)
    with pytest.raises(CarbError, match="Did you mean 'blend'"):
        published("blendd")


def test_a_source_without_files_says_what_to_run(tmp_path, monkeypatch):
    monkeypatch.setenv("CARB_CACHE", str(tmp_path))
    monkeypatch.setenv("CARB_DATA_DIR", str(tmp_path / "nothing"))
    with pytest.raises(CarbError, match="Run: carb data fetch blend"):
        list(rows("blend-families"))
    with pytest.raises(CarbError, match="--source PATH"):
        list(rows("wvs"))
    (tmp_path / "nothing" / "more" / "tydip").mkdir(parents=True)
    assert find_files("tydip") == Path(tmp_path / "nothing" / "more" / "tydip")
