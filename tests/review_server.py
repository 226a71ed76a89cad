"""A real review server in a process of its own, and a client that speaks to it as the page does."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class Server:
    """``carb review serve`` on a port of this machine."""

    def __init__(
        self,
        out: Path,
        *arguments: str,
        data: str = "carb-seed",
        cultures: Sequence[str] = ("thai",),
    ) -> None:
        chosen = [part for culture in cultures for part in ("--culture", culture)]
        port = [] if "--port" in arguments else ["--port", "0"]
        command = [
            sys.executable,
            "-m",
            "carb_cli",
            "review",
            "serve",
            "--data",
            data,
            *chosen,
            "--out",
            str(out),
        ]
        self.process = subprocess.Popen(
            [*command, *port, "--json", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        lines = []
        while line := self.process.stdout.readline():
            lines.append(line)
            if line == "}\n":
                break
        if self.process.poll() is not None or not lines:
            raise RuntimeError(self.process.communicate()[1])
        self.said = json.loads("".join(lines))
        self.url: str = self.said["address"]
        self.links: list[str] = list(self.said["links"].values())

    def kill(self) -> None:
        """As a power cut would: nothing can be tidied up."""
        self.process.kill()
        self.process.communicate()

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate()


class Client:
    """What a page does: enter, agree, ask for items, send events."""

    def __init__(self, link: str) -> None:
        self.url, _, self.token = link.partition("#")
        parts = urlsplit(self.url)
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self.cookie = ""

    def call(
        self, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Send a request; a body makes it a POST."""
        sent = {
            "Origin": self.origin,
            "Content-Type": "application/json",
            "Cookie": self.cookie,
        } | (headers or {})
        data = (
            None
            if body is None
            else (body if isinstance(body, bytes) else json.dumps(body).encode())
        )
        request = urllib.request.Request(
            self.url + path, data, {k: v for k, v in sent.items() if v}
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                self.headers = response.headers
                if cookie := response.headers.get("Set-Cookie"):
                    self.cookie = cookie.partition(";")[0]
                text = response.read()
                return response.status, json.loads(text) if "json" in response.headers[
                    "Content-Type"
                ] else text
        except urllib.error.HTTPError as error:
            self.headers = error.headers
            return error.code, error.read().decode()

    def enter(self) -> Any:
        status, text = self.call("api/enter", {"token": self.token})
        assert status == 200, text
        assert self.call("api/person", {"consent": 1, "language": "th"})[0] == 200
        return self.call("api/me", {})[1]

    def items(self, count: int) -> list[dict[str, Any]]:
        status, found = self.call("api/next", {})
        assert status == 200, found
        return found[:count]


def event(item: dict[str, Any], pick: int = 0, base: int = 0) -> dict[str, Any]:
    """An answer that picks the option at a place of the screen."""
    opinions = {
        t: {"verdict": "best" if n == pick else "wrong"} for n, t in enumerate(item["shown"])
    }
    return {
        "id": str(uuid.uuid4()),
        "item": item["id"],
        "shown": item["shown"],
        "base": base,
        "answer": {"status": "answered", "opinions": opinions},
        "active_ms": 1000,
    }


def question(
    number: int = 0, right: str = "this", wrong: str = "that, as elsewhere"
) -> dict[str, Any]:
    """A question that a reviewer wrote."""
    return {
        "id": str(uuid.uuid4()),
        "question": f"What now {number}?",
        "right": right,
        "wrong": wrong,
    }
