"""Fetching: pinned, resumed, refused; against a server on the loopback."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

import pytest

from carb_data import CarbError
from carb_data.declaration import Declaration, shipped
from carb_data.sources.source_files import fetch, fetchable, find_files

pytest.importorskip("pooch")

COMMIT = "0" * 40
CONTENT = bytes(range(256)) * 1000


class Server(BaseHTTPRequestHandler):
    """Serves CONTENT; breaks off after ``breaks_after`` bytes once."""

    asked: ClassVar[list[str]] = []
    breaks_after: int | None = None

    def do_GET(self) -> None:
        cls = type(self)
        cls.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        body = CONTENT
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
    """Publishes a file for the source ``made``."""
    monkeypatch.setenv("CARB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CARB_DATA_DIR", raising=False)
    monkeypatch.setattr(Server, "asked", [])
    monkeypatch.setattr(Server, "breaks_after", None)

    def publish(
        path: str = "a b.json",
        *,
        licence: str = "MIT",
        sha256: str | None = None,
        place: str | None = None,
    ):
        file = {
            "path": path,
            "sha256": sha256 or PIN,
            "bytes": len(CONTENT),
            **({"as": place} if place else {}),
        }
        published = {"repository": "o/n", "commit": COMMIT, "files": [file]}
        content = {
            "name": "made",
            "description": "made up",
            "license": licence,
            "published": published,
        }
        monkeypatch.setitem(shipped(), "made", Declaration.model_validate(content))
        return tmp_path / "cache" / "sources" / "made" / (place or path)

    return publish


PIN = hashlib.sha256(CONTENT).hexdigest()


def test_a_pinned_file_is_fetched_once_and_found(made, address):
    file = made(place="deep/er.json")
    with pytest.raises(CarbError, match="Run: carb data fetch made"):
        find_files("made")
    first = fetch("made", mirror=address)
    assert file.read_bytes() == CONTENT
    assert first.new == 1
    assert fetch("made", mirror=address).new == 0
    assert len(Server.asked) == 1
    assert find_files("made") == file.parents[1]


def test_an_interrupted_fetch_leaves_nothing_and_can_be_repeated(made, address):
    file = made()
    Server.breaks_after = 100_000
    with pytest.raises(
        CarbError, match=r"Run the same command again|is not the file that was pinned"
    ):
        fetch("made", mirror=address)
    assert not file.exists()
    fetch("made", mirror=address)
    assert file.read_bytes() == CONTENT


def test_a_cache_that_cannot_be_written_is_answered_with_the_variable_that_moves_it(
    made, address, tmp_path, monkeypatch
):
    made()
    (tmp_path / "file").touch()
    monkeypatch.setenv("CARB_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(CarbError, match=r"Cannot write .*file.*CARB_CACHE"):
        fetch("made", mirror=address)


def test_without_a_network_a_fetch_says_what_to_do_and_keeps_nothing(made):
    file = made()
    with pytest.raises(
        CarbError, match=r"Cannot fetch http://127\.0\.0\.1:9/.*Run the same command again"
    ):
        fetch("made", mirror="http://127.0.0.1:9")
    assert not file.exists()


def test_another_content_than_pinned_is_refused_and_not_kept(made, address):
    file = made(sha256="1" * 64)
    with pytest.raises(CarbError, match="is not the file that was pinned"):
        fetch("made", mirror=address)
    assert not list(file.parent.iterdir())


def test_what_nobody_licensed_must_be_accepted(made, address):
    made(licence="LicenseRef-none-stated")
    with pytest.raises(CarbError, match=r"o/n states no licence.*--accept-no-licence"):
        fetch("made", mirror=address)
    assert not Server.asked
    assert fetch("made", mirror=address, accept_no_licence=True).new == 1


@pytest.mark.parametrize("place", ["../out.json", "/etc/out.json"])
def test_no_file_is_put_outside_of_the_cache(made, address, place):
    made(place=place)
    with pytest.raises(CarbError, match="outside"):
        fetch("made", mirror=address)


def test_every_source_states_its_licence_and_where_its_files_come_from():
    assert all(declaration.license for declaration in shipped().values())
    assert {name for name, declaration in shipped().items() if declaration.needs_consent} == {
        "idiomkb",
        "carb-sample",
    }
    for declaration in fetchable().values():
        files = declaration.published.files
        assert len({file.kept_as for file in files}) == len(files)
    with pytest.raises(CarbError, match="Did you mean 'blend'"):
        fetch("blendd")
