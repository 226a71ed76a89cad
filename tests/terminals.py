"""A command in a terminal of its own: what it shows, keys that it gets, and how it ends."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

PATIENCE = 120.0
"""Seconds after which a command counts as stuck."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]")


class Terminal:
    """``carb`` in a pseudo-terminal, with it as the controlling one, so that Ctrl-C is a real
    Ctrl-C."""

    def __init__(
        self,
        arguments: Sequence[object],
        *,
        columns: int = 80,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in ("COLUMNS", "LINES", "NO_COLOR")
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "carb_cli", *map(str, arguments)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env={**kept, "TERM": "xterm-256color", "PYTHONUTF8": "1", **(environment or {})},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.raw = ""
        self._bytes = b""

    def _read(self, deadline: float) -> bool:
        """Take in what there is; false at the end."""
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            self._process.kill()
            raise AssertionError(
                f"nothing more within {PATIENCE:.0f} seconds; at the end:\n{self.raw[-2000:]}"
            )
        try:
            part = os.read(self._master, 65536)
        except OSError:  # Linux: the other side was closed
            return False
        self._bytes += part
        self.raw = self._bytes.decode("utf-8", "replace")
        return bool(part)

    def wait_for(self, text: str) -> None:
        """Wait until it has shown a text."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.plain:
            if not self._read(deadline):
                raise AssertionError(f"it ended without showing {text!r}:\n{self.raw[-2000:]}")

    def press(self, keys: str) -> None:
        """Send keys; ``\\x03`` is Ctrl-C."""
        os.write(self._master, keys.encode())

    def ended(self) -> int:
        """Wait for its end; the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        os.close(self._master)
        return self._process.wait(PATIENCE)

    @property
    def plain(self) -> str:
        """All that it showed, without escape sequences."""
        return _ESCAPES.sub("", self.raw)

    @property
    def lines(self) -> list[str]:
        """Every line that it drew, those drawn over included."""
        return [line for line in re.split(r"[\r\n]+", self.plain) if line]
