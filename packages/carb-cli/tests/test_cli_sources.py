"""``carb data fetch`` from a server on the loopback."""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from carb_data.sources import source_files
from carb_data.sources.declaration import Declaration
from cli_helpers import Carb

COMMIT = "0" * 40
SOURCE = """name = "made"
description = "Made up"
license = "MIT"
url = "https://example.com"
tier = "human-written"
method = "authored"
[[parts]]
name = "all"
files = ["*.csv"]
format = "csv"
culture = "german"
language = "de"
domain = "values"
make = { rule = "options", prompt = "{question}", options = ["a", "b"] }
"""
TABLE = "question,a,b\nWas gilt hier?,Das,Jenes\nWas gilt dort?,Dies,Anderes\n"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "served" / "o" / "n" / COMMIT
    folder.mkdir(parents=True)
    (folder / "rows.csv").write_text(TABLE, encoding="utf-8")
    served = partial(Quiet, directory=str(tmp_path / "served"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), served) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_source_is_fetched_once_and_a_wrong_file_refused(
    carb: Carb, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pooch")
    monkeypatch.setenv("CARB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CARB_DATA_DIR", raising=False)

    def publish(sha256: str, licence: str = "MIT") -> None:
        file = {"path": "rows.csv", "bytes": len(TABLE), "sha256": sha256}
        made = {"name": "made", "description": "Made up", "license": licence, "reader": "a.b"}
        made["published"] = {"repository": "o/n", "commit": COMMIT, "files": [file]}
        monkeypatch.setattr(source_files, "fetchable", lambda: {"made": Declaration.model_validate(made)})

    publish(hashlib.sha256(TABLE.encode()).hexdigest())
    ended = carb("data", "fetch", "made", "--mirror", address)
    assert ended.code == 0, ended.err
    assert "MIT" in ended.out + ended.err
    assert (tmp_path / "cache" / "sources" / "made" / "rows.csv").read_text(encoding="utf-8") == TABLE
    assert carb("data", "fetch", "made", "--mirror", "http://127.0.0.1:1").code == 0  # it is there
    publish("1" * 64)
    wrong = carb("data", "fetch", "made", "--mirror", address)
    assert wrong.code == 2
    assert "is not the file that was pinned" in wrong.err


def test_files_without_a_licence_are_fetched_only_after_consent(carb: Carb, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("CARB_CACHE", str(tmp_path / "cache"))
    refused = carb("data", "fetch", "carb-sample", "--mirror", "http://127.0.0.1:1")
    assert refused.code == 2
    assert "states no licence" in refused.err
    assert "carb data fetch carb-sample --accept-no-licence" in refused.err
    pytest.importorskip("pooch")
    accepted = carb("data", "fetch", "carb-sample", "--accept-no-licence", "--mirror", "http://127.0.0.1:1")
    assert accepted.code == 2
    assert "Cannot fetch http://127.0.0.1:1/AzureStarz/" in accepted.err


def test_what_was_built_is_shown_by_culture_with_its_varieties(carb: Carb, tmp_path: Path) -> None:
    told = SOURCE.replace('culture = "german"', 'culture = "{place}"')
    (tmp_path / "made.toml").write_text(told, encoding="utf-8")
    (tmp_path / "rows.csv").write_text(
        "question,a,b,place\nEins?,Das,Jenes,german-at\nZwei?,Dies,Anderes,german\nDrei?,Hier,Dort,turkish\n",
        encoding="utf-8",
    )
    ended = carb("data", "build", tmp_path / "made.toml", "--source", tmp_path, "--out", tmp_path / "o.jsonl")
    assert ended.code == 0, ended.err
    rows = [line.split() for line in ended.out.splitlines() if line.split()[:1] in (["german"], ["elsewhere"])]
    assert rows == [["german", "0", "2", "0", "0", "2"], ["elsewhere", "0", "1", "0", "0", "1"]]
