"""200 reviewers at once on the loopback: no acknowledged answer lost, and how long each waits.

A real server in a process of its own; the reviewers keep one connection each, as browsers do. Two
figures: with a pause of half a second to a second and a half between answers, which is about twenty
times as fast as people are; and without any pause, where all 200 wait in one queue.

Usage: python benchmarks/bench_review.py [--json]
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from review_server import Server, event

REVIEWERS, ANSWERS, LIMIT_MS = 200, 20, 200.0


class Page:
    """One reviewer's connection."""

    def __init__(self, link: str) -> None:
        self.token = link.partition("#")[2]
        self.port = int(link.partition("#")[0].rstrip("/").rpartition(":")[2])
        self.cookie, self.waits, self.acknowledged = "", [], []

    async def call(self, path: str, body: Any = None) -> Any:
        host = f"127.0.0.1:{self.port}"
        data = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{'GET' if body is None else 'POST'} /api/{path} HTTP/1.1\r\nHost: "
            f"{host}\r\nOrigin: http://{host}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\nCookie: "
            f"{self.cookie}\r\n\r\n"
        )
        self.writer.write(head.encode() + data)
        answer = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = {k.lower(): v for k, _, v in (line.partition(": ") for line in answer[1:])}
        if "set-cookie" in fields:
            self.cookie = fields["set-cookie"].partition(";")[0]
        content = await self.reader.readexactly(int(fields["content-length"]))
        if " 200 " not in answer[0]:
            raise RuntimeError(f"{answer[0]}: {content.decode()}")
        return json.loads(content)

    async def begin(self) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        await self.call("enter", {"token": self.token})
        await self.call("person", {"consent": 1})

    async def take(self) -> None:
        self.items = await self.call("next", {})

    async def answer(self, pause: bool) -> None:
        self.waits = []
        for item in self.items[:ANSWERS]:
            if pause:
                await asyncio.sleep(random.uniform(0.5, 1.5))
            sent = event(item, random.randrange(4)) | {"id": str(uuid.uuid4())}
            start = time.perf_counter()
            (outcome,) = await self.call("events", {"events": [sent]})
            self.waits.append((time.perf_counter() - start) * 1000)
            if outcome["state"] != "kept":
                raise RuntimeError(str(outcome))
            self.acknowledged.append(sent["id"])


def figures(pages: list[Page], seconds: float) -> dict[str, float]:
    waits = sorted(wait for page in pages for wait in page.waits)
    at = {f"p{p}_ms": round(waits[int(len(waits) * p / 100)], 1) for p in (50, 95, 99)}
    return {
        "answers": len(waits),
        "per_second": round(len(waits) / seconds),
        **at,
        "longest_ms": round(waits[-1], 1),
    }


async def measure(links: list[str]) -> tuple[dict[str, Any], list[str]]:
    pages = [Page(link) for link in links]
    start = time.perf_counter()
    await asyncio.gather(*(page.begin() for page in pages))
    found: dict[str, Any] = {
        "reviewers": len(pages),
        "entered_seconds": round(time.perf_counter() - start, 2),
    }
    for name, pause in (("paced", True), ("without_pause", False)):
        await asyncio.gather(*(page.take() for page in pages))
        start = time.perf_counter()
        await asyncio.gather(*(page.answer(pause) for page in pages))
        found[name] = figures(pages, time.perf_counter() - start)
    for page in pages:
        page.writer.close()
    return found, [id_ for page in pages for id_ in page.acknowledged]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "a.reviews"
        server = Server(out, "--invite", str(REVIEWERS))
        found, acknowledged = asyncio.run(measure(server.links))
        server.kill()  # what was acknowledged is on the disk, however the server ends
        with sqlite3.connect(out) as db:
            kept = {row[0] for row in db.execute("SELECT id FROM event")}
        db.close()
    found["acknowledged"], found["lost"] = len(acknowledged), len(set(acknowledged) - kept)
    found["limit_ms"], found["load_average"] = LIMIT_MS, round(os.getloadavg()[0], 1)
    if "--json" in sys.argv:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name}: {value}")
    good = found["lost"] == 0 and found["paced"]["p95_ms"] < LIMIT_MS
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
