"""How many rows each source gives, by culture and domain: ``python -m carb_data.sources.coverage ../shared/data``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from carb_data.errors import CarbError
from carb_data.sources.base import BuildReport, build, sources

START, END = "<!-- sources -->", "<!-- end sources -->"
_HEADER = "| source | yields | culture | domain | rows | by language |"


def reports(folder: Path) -> Iterator[BuildReport]:
    """Build every source that has a folder of its name in ``folder``, with its defaults and seed 0."""
    with tempfile.TemporaryDirectory() as drafts:
        for name in sources:
            if (folder / name).is_dir():
                yield build(name, folder / name, Path(drafts) / f"{name}.jsonl")


def table(found: Sequence[BuildReport]) -> str:
    """A Markdown table with a row per source, culture and domain, and a total per source."""
    lines = [_HEADER, "|---|---|---|---|--:|---|"]
    for report in found:
        cells: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        for count in report.counts:
            cells[count.culture, count.domain][count.language] = count.rows
        for (culture, domain), languages in sorted(cells.items()):
            by = ", ".join(f"{language} {n}" for language, n in sorted(languages.items()))
            total = sum(languages.values())
            lines.append(f"| {report.source} | {report.yields} | {culture} | {domain} | {total} | {by} |")
        lines.append(f"| **{report.source}** | {report.yields} | all | all | **{report.built}** | |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, or write it between the markers of a README; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m carb_data.sources.coverage", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder with a folder for each source")
    parser.add_argument("--readme", type=Path, help="write the table after the line that names this command")
    given = parser.parse_args(arguments)
    try:
        found = list(reports(given.folder))
        if not found:
            raise CarbError(f"{given.folder} holds no folder of the name of a source: {', '.join(sources)}.")
        text = table(found)
        if given.readme is None:
            sys.stdout.write(text + "\n")
        else:
            _replace(given.readme, text)
    except CarbError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _replace(readme: Path, text: str) -> None:
    content = readme.read_text(encoding="utf-8")
    before, start, rest = content.partition(START)
    section, end, after = rest.partition(END)
    if not start or not end:
        raise CarbError(f"{readme} lacks the lines {START} and {END}.")
    said = section.partition(_HEADER)[0].strip()
    readme.write_text(f"{before}{start}\n{said}\n\n{text}\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
