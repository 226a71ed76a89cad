"""Rehearses a release: the built wheels come from an index, and the five walks of the guide run
with nothing else.

Usage: python tests/rehearse_release.py PYTHON WHEELS [EXTRAS MODEL]

PYTHON makes an empty environment. ``carb-cli`` (with EXTRAS, such as ``[all]``) is installed into
it from an index on loopback that serves the wheels. Blocks that need a model run where the folder
MODEL is named.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pages import SILENT, blocks

ROOT = Path(__file__).parents[1]
FIRST = "carb eval --no-open --limit 40 --out runs/first"


def write_index(wheels: Path, folder: Path) -> None:
    """A simple index (PEP 503): a page for each project, with its wheels and their hashes."""
    for wheel in wheels.glob("*.whl"):
        project = folder / "simple" / wheel.name.partition("-")[0].replace("_", "-")
        project.mkdir(parents=True)
        (project / wheel.name).symlink_to(wheel.resolve())
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        (project / "index.html").write_text(
            f'<a href="{wheel.name}#sha256={digest}">{wheel.name}</a>'
        )


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of an index on loopback."""
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=folder)
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/simple/"
    server.shutdown()


def run(command: list[str] | str, where: Path, binaries: Path | None = None) -> None:
    """Run a command in a folder; with an environment's binaries first, and nothing of this
    repository on the path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if binaries is not None:
        environment["PATH"] = f"{binaries}{os.pathsep}{environment['PATH']}"
    print("+", command if isinstance(command, str) else " ".join(command), flush=True)
    subprocess.run(command, cwd=where, env=environment, shell=isinstance(command, str), check=True)


def walk(where: Path, binaries: Path, model: Path | None) -> None:
    """The first command of a newcomer, then every block of the guide's first page."""
    run(FIRST, where, binaries)
    for block in blocks(ROOT / "docs" / "start.md"):
        needs = block.note.partition("model: ")[2]
        if block.language in SILENT or block.reason is not None or (needs and model is None):
            continue
        if needs and model is not None:
            (where / needs).parent.mkdir(parents=True, exist_ok=True)
            (where / needs).symlink_to(model.resolve())
        if block.language == "python":
            run([str(binaries / "python"), "-c", block.text], where)
        else:
            for command in block.commands:
                run(command, where, binaries)


def main(python: str, wheels: str, extras: str = "", model: str | None = None) -> None:
    """Raises ``CalledProcessError`` where a step fails."""
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        write_index(Path(wheels), place)
        run([python, "-m", "venv", "bare"], place)
        binaries = place / "bare" / "bin"
        with served(place) as index:
            install = [
                "-m",
                "pip",
                "install",
                "--quiet",
                "--constraint",
                str(ROOT / "constraints.txt"),
            ]
            run(
                [
                    str(binaries / "python"),
                    *install,
                    "--extra-index-url",
                    index,
                    f"carb-cli{extras}",
                ],
                place,
            )
        (place / "work").mkdir()
        walk(place / "work", binaries, None if model is None else Path(model))


if __name__ == "__main__":
    main(*sys.argv[1:])
