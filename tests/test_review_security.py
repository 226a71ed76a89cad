"""The interface refuses what the page does not send: other hosts, other origins, guesses, other
people's sessions."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from review_server import Client, Server, event, question

PROXY = "https://Review.example.org/thai"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(
        tmp_path_factory.mktemp("secure") / "a.reviews", "--invite", "8", "--public-url", PROXY
    )
    yield made
    made.stop()


@pytest.fixture(scope="module")
def local(server: Server) -> str:
    """The address on this machine; the links name the public one."""
    return f"http://127.0.0.1:{server.said['port']}/"


def client(local: str, link: str) -> Client:
    return Client(f"{local}#{link.partition('#')[2]}")


def test_the_page_carries_a_strict_policy(server: Server, local: str) -> None:
    reader = client(local, server.links[0])
    for path in ("", "app.js", "device.js", "api/me", "thai/", "nothing"):
        reader.call(path)
        headers = reader.headers
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';")
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Server"] is None
    status, page = reader.call("thai/")  # a proxy that keeps the prefix
    assert status == 200
    assert b'<script src="app.js">' in page


def test_requests_from_other_sites_are_refused(server: Server, local: str) -> None:
    victim = client(local, server.links[0])
    victim.enter()
    (item,) = victim.items(1)
    body = {"events": [event(item)]}
    for headers, status in [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Host": "evil.example"}, 421),
        ({"Cookie": ""}, 401),
        ({"X-Reviewer": "0" * 16}, 401),
    ]:
        assert victim.call("api/events", body, headers)[0] == status, headers
    assert victim.call("api/me", {})[1]["revisions"] == {}
    public = {
        "Origin": "https://review.example.org",
        "Host": "review.example.org",
        "Sec-Fetch-Site": "same-origin",
    }
    assert victim.call("api/events", body, public)[1][0]["state"] == "kept"


def test_nothing_before_the_consent(server: Server, local: str) -> None:
    visitor = client(local, server.links[2])
    visitor.call("api/enter", {"token": visitor.token})
    assert visitor.call("api/next", {})[0] == 403
    assert visitor.call("api/events", {"events": [{}]})[0] == 403
    assert visitor.call("api/beat", {"id": "x"})[0] == 403


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[",
        b"[]",
        b"null",
        b"[" * 50_000,
        b'{"events": []}',
        b'{"events": 1}',
        b'{"consent": %d}' % 10**30,
    ],
)
def test_other_bodies_are_refused(server: Server, local: str, body: bytes) -> None:
    visitor = client(local, server.links[3])
    visitor.enter()
    for path in ("api/events", "api/person"):
        assert visitor.call(path, body)[0] == 422, path


def test_a_large_body_is_refused_with_every_header(server: Server, local: str) -> None:
    visitor = client(local, server.links[4])
    visitor.enter()
    status, answer = visitor.call("api/events", b" " * 600_000)
    assert (status, "at most" in json.loads(answer)["reason"]) == (413, True)
    assert "default-src 'none'" in visitor.headers["Content-Security-Policy"]
    assert visitor.call("api/me/", {})[0] == 404
    assert visitor.call("api/me")[0] == 405


def test_a_link_can_be_replaced_while_serving(server: Server, local: str) -> None:
    out = next(Path(arg) for arg in server.process.args if str(arg).endswith(".reviews"))
    visitor = client(local, server.links[5])
    name = visitor.enter()["name"]
    run = [
        sys.executable,
        "-m",
        "carb_cli",
        "review",
        "collect",
        str(out),
        "--renew",
        name,
        "--json",
    ]
    said = subprocess.run(run, capture_output=True, text=True, check=True)
    assert visitor.call("api/me", {})[0] == 401
    assert visitor.call("api/enter", {"token": visitor.token})[0] == 403
    link = json.loads(said.stdout)["link"]
    assert link.startswith(PROXY)
    new = client(local, link)
    assert new.enter()["name"] == name


def test_wrong_links_lock_nobody_out(server: Server, local: str) -> None:
    guesser, owner = client(local, "x#y"), client(local, server.links[6])
    assert {guesser.call("api/enter", {"token": f"guess {n}"})[0] for n in range(30)} == {403}
    assert guesser.call("api/enter", {"token": "\ud800"})[0] == 403
    assert owner.call("api/enter", {"token": owner.token})[0] == 200


def test_two_reviews_on_one_host_do_not_share_a_cookie(
    server: Server, local: str, tmp_path: Path
) -> None:
    other = Server(tmp_path / "b.reviews", "--invite", "1")
    clients = client(local, server.links[7]), Client(other.links[0])
    entered = [one.enter()["reviewer"] for one in clients]
    sent = {
        "Cookie": "; ".join(one.cookie for one in clients)
    }  # a browser sends a host's cookies to all of its ports
    assert [one.call("api/me", {}, sent)[1]["reviewer"] for one in clients] == entered
    assert clients[0].call("api/me", {}, {"Cookie": clients[1].cookie})[0] == 401
    other.stop()


def test_a_model_is_asked_about_one_s_own_question_only_and_a_failure_is_no_verdict(
    tmp_path: Path,
) -> None:
    out = tmp_path / "a.reviews"
    made = Server(out, "--invite", "2", "--beat", "baseline:length")
    writer, other = (Client(link) for link in made.links)
    assert writer.enter()["model"]
    other.enter()
    sent = [question(0), question(1, "longer than that", "that"), question(2, "one", "two")]
    assert {one["state"] for one in writer.call("api/events", {"events": [*sent, *sent]})[1]} == {
        "kept",
        "known",
    }
    verdicts = [writer.call("api/beat", {"id": one["id"]})[1] for one in sent]
    assert verdicts == [{"verdict": "fooled"}, {"verdict": "not fooled"}, {"verdict": "undecided"}]
    assert other.call("api/beat", {"id": sent[0]["id"]})[0] == 404
    for headers, status in [
        ({"Origin": "https://evil.example"}, 403),
        ({"Content-Type": "text/plain"}, 415),
    ]:
        assert writer.call("api/events", {"events": [question(3)]}, headers)[0] == status
        assert writer.call("api/beat", {"id": sent[0]["id"]}, headers)[0] == status
    long = question(4, right="x" * 501)
    assert "500 characters" in writer.call("api/events", {"events": [long]})[1][0]["reason"]
    assert writer.call("api/me", {})[1]["written"] == {one["id"]: 1 for one in sent}
    made.stop()
    unreachable = "judge:m?backend=openai&url=http://127.0.0.1:9/v1&retries=0&patience=0"
    made = Server(out, "--invite", "3", "--beat", unreachable)
    late = Client(made.links[0])
    late.enter()
    asked = question(5)
    assert [one["state"] for one in late.call("api/events", {"events": [1, asked]})[1]] == [
        "refused",
        "kept",
    ]
    assert late.call("api/beat", {"id": "\ud800"})[0] == 404
    assert late.call("api/beat", {"id": asked["id"]})[1] == {"verdict": "failed"}
    made.process.terminate()
    assert "The model gave no answer" in made.process.communicate()[1]


def test_a_review_stays_on_this_machine_unless_asked(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "carb_cli",
        "review",
        "serve",
        "--data",
        "carb-seed",
        "--out",
        str(tmp_path / "a"),
    ]
    for extra, message in [
        (["--host", "0.0.0.0"], "--public-url"),
        (["--public-url", "example.org"], "must be an address"),
    ]:
        done = subprocess.run([*command, *extra], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert message in done.stderr
    assert not (tmp_path / "a").exists()
