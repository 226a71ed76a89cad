"""The files for a review on a small server, read by the tools that would run them: Compose,
hadolint and Caddy."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from carb_cli.main import application
from review_server import Client, Server

pytestmark = pytest.mark.kit
KIT = Path(__file__).parents[1] / "examples" / "review_server"
NAMES = {"REVIEW_HOST": "review.example.org", "REVIEW_CULTURE": "thai"}


def composed(**names: str) -> subprocess.CompletedProcess[str]:
    """The compose file as Docker Compose reads it."""
    command = ["docker-compose", "-f", str(KIT / "compose.yaml"), "config", "--format", "json"]
    return subprocess.run(
        command, env={"PATH": os.environ["PATH"], **names}, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    read = composed(**NAMES)
    assert read.stdout, read.stderr  # the package's command ends with 0, whatever Compose says
    return json.loads(read.stdout)["services"]


def test_the_container_file_has_no_fault() -> None:
    read = subprocess.run(["hadolint", str(KIT / "Containerfile")], capture_output=True, text=True)
    assert (read.returncode, read.stdout) == (0, ""), read


def test_compose_builds_the_container_and_says_which_name_is_missing(
    services: dict[str, Any],
) -> None:
    build = services["review"]["build"]
    assert (Path(build["context"]) / build["dockerfile"]).samefile(KIT / "Containerfile")
    for name in NAMES:
        read = composed(**{other: value for other, value in NAMES.items() if other != name})
        assert read.stdout == ""
        assert f"{name} is missing a value: name " in read.stderr


def test_the_container_starts_a_review_that_the_command_understands(
    services: dict[str, Any],
) -> None:
    entry = re.search(r"^ENTRYPOINT (.*)$", (KIT / "Containerfile").read_text(), re.MULTILINE)
    assert entry is not None
    carb, *arguments = [*json.loads(entry[1]), *services["review"]["command"]]
    assert carb == "carb"
    _, bound, _ = application().parse_args(arguments, exit_on_error=False, print_error=False)
    assert (bound.arguments["host"], bound.arguments["culture"]) == ("0.0.0.0", ("thai",))
    assert bound.arguments["public_url"] == "https://review.example.org/"
    assert f":{bound.arguments['port']}" in services["caddy"]["command"][-1]


def test_caddy_offers_the_review_to_people(services: dict[str, Any], tmp_path: Path) -> None:
    """Without TLS, for which Caddy needs a public name."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        outside = f"http://localhost:{taken.getsockname()[1]}"
    server = Server(tmp_path / "r.reviews", "--invite", "1", "--public-url", f"{outside}/")
    replaced = {"review.example.org": outside, "review:8765": f"127.0.0.1:{server.said['port']}"}
    command = [replaced.get(word, word) for word in services["caddy"]["command"]]
    assert {*replaced} < {*services["caddy"]["command"]}
    folders = {
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    caddy = subprocess.Popen(
        command, env={**os.environ, **folders}, stderr=subprocess.PIPE, text=True
    )
    try:
        assert caddy.stderr is not None
        assert any("caddy proxying" in line.casefold() for line in caddy.stderr)
        client = Client(server.links[0])
        assert client.url == f"{outside}/"
        client.enter()
        assert client.items(1)
    finally:
        caddy.terminate()
        caddy.communicate()
        server.stop()
