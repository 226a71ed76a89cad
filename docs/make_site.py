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
from tempfile import TemporaryDirectory

from make_reference import generated

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
STAGE = ROOT / ".nox" / "docs"
REVIEW = "reference/review.html"
"""A real review page of eight sets, which a reader can open before installing anything."""
GENERATED = ("reference/commands.md", "reference/python.md", REVIEW)
_LINK = re.compile(r"(!?)\[((?:[^\]\n]|\n(?!\n))*)\]\(([^()\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```$)", flags=re.DOTALL | re.MULTILINE)
_NAMED = re.compile(r"^```(\w+) (\S+)$", flags=re.MULTILINE)
_COMMENT = re.compile(r"^<!--.*?-->\n", flags=re.DOTALL | re.MULTILINE)


def sources() -> dict[Path, str]:
    """Which file of the repository becomes which page."""
    return {path: str(path.relative_to(DOCS)) for path in sorted(DOCS.rglob("*.md"))}


def relinked(text: str, source: Path, page: str) -> str:
    """The text of ``source`` as that of ``page``, with its links to files of the repository
    rewritten."""
    known = sources() | {DOCS / path: path for path in GENERATED}

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


def write_review(page: Path) -> None:
    """The review page of the first eight English main sets of carb-seed, without its review file
    and kit."""
    from carb_cli.main import main
    from carb_data import Dataset, is_main, load

    main_sets = load("carb-seed").filter(
        lambda one: one.language == "en" and is_main(one.culture, one.language)
    )
    page.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        data, made = Path(folder) / "eight.jsonl", Path(folder) / "review.html"
        Dataset(list(main_sets)[:8]).save(data)
        places = sorted({one.culture for one in list(main_sets)[:8]})
        command = ["review", "page", "--data", str(data), "--out", str(made), "--quiet"]
        if main([*command, "--culture", *places]):
            raise SystemExit("carb review page failed")
        shutil.copy(made, page)


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
    write_review(STAGE / REVIEW)
    shutil.copytree(DOCS / "images", STAGE / "images", dirs_exist_ok=True)


if __name__ == "__main__":
    gather()
    sys.exit(
        subprocess.call(
            [sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=ROOT
        )
    )
