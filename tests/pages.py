"""Code blocks of Markdown pages, and running them."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(
    r"(?:^<!--\s*(?P<note>[^\n]*?)\s*-->\n)?^```(?P<language>\w*)(?:[ "
    r"](?P<file>\S+))?\n(?P<text>.*?)^```$",
    flags=re.DOTALL | re.MULTILINE,
)
SILENT = ("", "text")
"""Kinds of blocks that show something and do nothing."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    note: str
    """The comment right above it: ``not run: WHY``, ``needs: public data``, ``model: PATH``,
    ``policy: PATH``, or nothing of this."""
    file: str | None
    """The file that it is the content of."""

    @property
    def reason(self) -> str | None:
        """Why it is not run."""
        return self.note.partition("not run:")[2].strip() or None

    @property
    def commands(self) -> list[str]:
        """The lines of a shell block, those that go on joined, without comments."""
        joined = self.text.replace("\\\n", " ")
        lines = (re.sub(r"\s+#\s.*$", "", line).strip() for line in joined.splitlines())
        return [line for line in lines if line and not line.startswith("#")]


def blocks(page: Path) -> list[Block]:
    """Every fenced block of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(m["language"], m["text"], m["note"] or "", m["file"]) for m in _BLOCK.finditer(text)
    ]


class Page:
    """Runs the blocks of one page in one folder; Python blocks share their names."""

    def __init__(self, folder: Path, carb: Callable[[list[str]], int]) -> None:
        self.folder = folder
        self._carb = carb
        self._names: dict[str, Any] = {"__name__": "page"}

    def run(self, block: Block) -> None:
        """Run one block in the current folder, which must be ``folder``."""
        if block.file is not None:
            (self.folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            exec(compile(block.text, "page", "exec"), self._names)
        elif block.language == "sh":
            for command in block.commands:
                self._shell(command)
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language not in SILENT:
            raise AssertionError(
                f"a block of {block.language} that is no file and is not marked as not run"
            )

    def _shell(self, command: str) -> None:
        words = shlex.split(command)
        if words[0] == "python":
            self._script(words[1:])
            return
        assert words[0] == "carb", f"not a carb command, and not marked as not run: {command}"
        target = words[words.index(">") + 1] if ">" in words else None
        code, out = self._call(words[1 : words.index(">")] if target else words[1:])
        assert code == 0, (command, code)
        if target is not None:
            (self.folder / target).write_text(out, encoding="utf-8")

    @staticmethod
    def _script(words: list[str]) -> None:
        """Run a script of the repository, here, where its libraries are imported already."""
        code: object = None
        with mock.patch.object(sys, "argv", words):
            try:
                runpy.run_path(str(ROOT / words[0]), run_name="__main__")
            except SystemExit as ended:
                code = ended.code
        assert not code, (words, code)

    def _call(self, arguments: list[str]) -> tuple[int, str]:
        import contextlib
        import io

        stream = io.StringIO()
        with contextlib.redirect_stdout(stream):
            code = self._carb(arguments)
        return code, stream.getvalue()
