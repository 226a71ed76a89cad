"""How many rows each source gives, by domain and culture: ``python -m carb_data.sources.coverage``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from carb_data.errors import CarbError
from carb_data.registry import cultures
from carb_data.sources.base import BuildReport, build, sources
from carb_data.sources.published import published_names

START, END = "<!-- sources -->", "<!-- end sources -->"
_HEADER = "| source | yields | domain | rows | in its language, by culture | in English, by culture |"


def reports(names: Sequence[str] = ()) -> Iterator[BuildReport]:
    """Build sources with their defaults and seed 0.

    Args:
        names: sources; by default all whose files are published.
    """
    open_ = [name for name in sources if (sources[name].files or name) in published_names()]
    with tempfile.TemporaryDirectory() as drafts:
        for name in names or open_:
            yield build(name, None, Path(drafts) / f"{name}.jsonl")


def table(found: Sequence[BuildReport]) -> str:
    """A Markdown table with a row per source and domain; cultures are those of the benchmark, others are counted."""
    lines = [_HEADER, "|---|---|---|--:|---|---|"]
    listed = {culture.id for culture in cultures}
    for report in found:
        for domain in sorted({count.domain for count in report.counts}):
            by: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
            for count in report.counts:
                if count.domain == domain:
                    root = cultures.root(count.culture).id
                    by[count.language == "en"][root if root in listed else "others"] += count.rows
            cells = (", ".join(f"{name} {n}" for name, n in sorted(by[english].items())) for english in (False, True))
            total = sum(by[True].values()) + sum(by[False].values())
            lines.append(f"| {report.source} | {report.yields} | {domain} | {total} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, or write it between the markers of a page; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m carb_data.sources.coverage", description=__doc__)
    parser.add_argument("names", nargs="*", help="sources to build; by default all whose files are published")
    parser.add_argument("--page", type=Path, help="write the table between the markers of this file")
    given = parser.parse_args(arguments)
    try:
        text = table(list(reports(given.names)))
        if given.page is None:
            sys.stdout.write(text + "\n")
        else:
            _replace(given.page, text)
    except CarbError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _replace(page: Path, text: str) -> None:
    content = page.read_text(encoding="utf-8")
    before, start, rest = content.partition(START)
    section, end, after = rest.partition(END)
    if not start or not end:
        raise CarbError(f"{page} lacks the lines {START} and {END}.")
    said = section.partition(_HEADER)[0].strip()
    page.write_text(f"{before}{start}\n{said}\n\n{text}\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
