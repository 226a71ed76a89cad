"""Builds the documentation site: ``nox -s docs``.

Pages are gathered in ``.nox/docs``: those of ``docs/``, and the reference, which is made from the
code. Links between files of the repository become links between pages; links to other files become
their path. Then zensical builds it strictly, so that a link to nowhere is an error.

Usage: python docs/make_site.py
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from make_reference import generated

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
STAGE = ROOT / ".nox" / "docs"
_LINK = re.compile(r"(!?)\[([^\]\n]*)\]\(([^()\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```$)", flags=re.DOTALL | re.MULTILINE)
_NAMED = re.compile(r"^```(\w+) (\S+)$", flags=re.MULTILINE)
_COMMENT = re.compile(r"^<!--.*?-->\n", flags=re.DOTALL | re.MULTILINE)


def sources() -> dict[Path, str]:
    """Which file of the repository becomes which page."""
    return {path: str(path.relative_to(DOCS)) for path in sorted(DOCS.rglob("*.md"))}


def relinked(text: str, source: Path, page: str) -> str:
    """The text of ``source`` as that of ``page``, with its links to files of the repository
    rewritten."""
    known = sources()

    def link(match: re.Match[str]) -> str:
        image, label, target = match.groups()
        path, _, anchor = target.partition("#")
        if not path or "://" in target or target.startswith("mailto:"):
            return match[0]
        file = (source.parent / path).resolve()
        file = file / "README.md" if file.is_dir() and file / "README.md" in known else file
        if file in known or (image and file.is_relative_to(DOCS)):
            goal = known.get(file) or str(file.relative_to(DOCS))
            up = "../" * page.count("/")
            return f"{image}[{label}]({up}{goal}{'#' + anchor if anchor else ''})"
        return f"{label} (`{file.relative_to(ROOT)}`)" if file.is_relative_to(ROOT) else label

    def rendered(part: str) -> str:
        """The site wants the name of a file as the title of its block, and takes what follows a
        comment for text."""
        if part.startswith("```"):
            return _NAMED.sub(r'```\1 title="\2"', part, count=1)
        return _LINK.sub(link, _COMMENT.sub("", part))

    return "".join(map(rendered, _FENCE.split(text)))


def gather() -> None:
    """Fill the folder from which the site is built."""
    shutil.rmtree(STAGE, ignore_errors=True)
    made = {
        page: relinked(source.read_text(encoding="utf-8"), source, page)
        for source, page in sources().items()
    }
    for page, text in (made | generated()).items():
        (STAGE / page).parent.mkdir(parents=True, exist_ok=True)
        (STAGE / page).write_text(text, encoding="utf-8")
    shutil.copytree(DOCS / "images", STAGE / "images", dirs_exist_ok=True)


if __name__ == "__main__":
    gather()
    sys.exit(
        subprocess.call(
            [sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=ROOT
        )
    )
