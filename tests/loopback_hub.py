"""A model hub on loopback, as the hub's client asks it: the files of ``ROOT/owner/name``.

Usage: python loopback_hub.py ROOT. It prints its port. The commit of a model is the content of
``ROOT/owner/name.commit``.
"""

from __future__ import annotations

import hashlib
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Hub(BaseHTTPRequestHandler):
    """Answers what loading a model asks."""

    protocol_version = "HTTP/1.1"
    root: Path

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        parts = self.path.partition("?")[0].strip("/").split("/")
        model = parts[2:4] if parts[:2] == ["api", "models"] else parts[:2]
        folder = self.root.joinpath(*model)
        if len(model) < 2 or not folder.is_dir():
            self._send(200 if parts == [""] else 404, b"", {"X-Error-Code": "RepoNotFound"})
            return
        commit = folder.with_suffix(".commit").read_text(encoding="utf-8")
        headers = {"X-Repo-Commit": commit}
        file = folder.joinpath(*parts[4:])
        if parts[0] == "api" and "tree" not in parts:
            names = [{"rfilename": path.name} for path in folder.iterdir()]
            told = {"id": "/".join(model), "sha": commit, "siblings": names}
            self._send(200, json.dumps(told).encode(), headers)
        elif parts[2] == "resolve" and file.is_file():
            content = file.read_bytes()
            self._send(200, content, headers | {"ETag": hashlib.sha256(content).hexdigest()})
        else:
            self._send(404, b"", headers | {"X-Error-Code": "EntryNotFound"})

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    Hub.root = Path(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    print(server.server_address[1], flush=True)
    server.serve_forever()
