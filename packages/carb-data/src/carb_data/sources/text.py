"""Free reference text: pages about a culture become reference snippets, from which sets can be constructed.

For files that a user has: text, Markdown or saved HTML pages, for example of the Cultural Atlas (which may not be
redistributed). Culture and domain are named by options, or by folders: ``CULTURE/DOMAIN/page.md``.
"""

from __future__ import annotations

import html.parser
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field

from carb_data.errors import CarbError
from carb_data.models import Domain, Provenance
from carb_data.options import closest
from carb_data.registry import cultures
from carb_data.sources.base import Options, Source
from carb_data.sources.models import Reference, Skip
from carb_data.sources.reading import read_text

SUFFIXES = (".txt", ".md", ".html", ".htm")
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$")
_SENTENCE = re.compile(r"(?<=[.!?。！？؟])\s+|(?<=[。！？])")
_BLOCKS = frozenset({"p", "li", "div", "br", "tr", "section", "article", "ul", "ol", "table", "blockquote"})
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_HIDDEN = frozenset({"script", "style", "nav", "header", "footer", "noscript", "template", "svg", "form"})


class TextOptions(Options):
    """Options of ``text``."""

    culture: str | None = Field(None, description="Culture of all pages; otherwise the first folder's name")
    domain: str | None = Field(None, description="Domain of all pages; otherwise the second folder's name")
    language: str = Field("en", description="Language of the pages, BCP 47")
    license: str = Field("LicenseRef-none-stated", description="Licence of the pages")
    url: str | None = Field(None, description="Where the pages come from")
    min_chars: int = Field(80, ge=1, description="Shorter snippets are skipped")
    max_chars: int = Field(1200, ge=40, description="Longer paragraphs are cut between sentences")


def build(
    path: Path,
    options: TextOptions,
    seed: int,  # noqa: ARG001 - one signature for all sources
) -> Iterator[Reference | Skip]:
    """Yield a reference for every paragraph or group of short paragraphs under one heading.

    Args:
        path: a page, or a folder of pages.
        options: culture, domain, language, licence and sizes.
        seed: It has no effect here: nothing is drawn.
    """
    root = path if path.is_dir() else path.parent
    files = [path] if path.is_file() else sorted(f for f in path.rglob("*") if f.suffix.casefold() in SUFFIXES)
    if not files:
        raise CarbError(f"{path} holds no {', '.join(SUFFIXES)} file.")
    for file in files:
        yield from _page(file, file.relative_to(root), options)


def _page(file: Path, place: Path, options: TextOptions) -> Iterator[Reference | Skip]:
    parents = place.parts[:-1]
    culture = options.culture or (parents[0] if parents else None)
    domain = options.domain or (parents[1] if len(parents) > 1 else None)
    if culture is None or domain is None:
        raise CarbError(
            f"{file}: its culture and domain are not known. Give the options culture and domain, or put the page in "
            "folders named after them: CULTURE/DOMAIN/page.md."
        )
    if domain not in list(Domain):
        known = ", ".join(Domain)
        raise CarbError(f"{file}: there is no domain '{domain}'.{closest(domain, list(Domain))} Domains: {known}.")
    culture = cultures[culture].id
    text = read_text(file, "your reference text")
    markdown = _from_html(text) if file.suffix.casefold() in {".html", ".htm"} else text
    number = 0
    for topic, snippet in snippets(markdown, options.max_chars):
        source_id = f"{place.as_posix()}#{number}"
        number += 1
        if len(snippet) < options.min_chars:
            reason = f"shorter than {options.min_chars} characters"
            yield Skip(source_id=source_id, reason=reason, culture=culture, language=options.language)
            continue
        yield Reference(
            id=f"text/{source_id}",
            culture=culture,
            domain=Domain(domain),
            topic=topic,
            language=options.language,
            text=snippet,
            provenance=Provenance(
                source="text", source_id=source_id, license=options.license, url=options.url, method="authored"
            ),
        )


def snippets(markdown: str, longest: int) -> Iterator[tuple[str | None, str]]:
    """Heading and text of each snippet: paragraphs under one heading, put together up to ``longest`` characters."""
    topic: str | None = None
    held = ""
    for block in re.split(r"\n\s*\n", markdown.replace("\r\n", "\n")):
        for kind, text in _parts(block):
            if kind == "heading":
                if held:
                    yield topic, held
                topic, held = text, ""
                continue
            for piece in _cut(text, longest):
                if held and len(held) + 1 + len(piece) > longest:
                    yield topic, held
                    held = ""
                held = f"{held}\n{piece}" if held else piece
    if held:
        yield topic, held


def _parts(block: str) -> Iterator[tuple[str, str]]:
    lines: list[str] = []
    for line in block.split("\n"):
        heading = _HEADING.match(line.strip())
        if heading:
            if lines:
                yield "text", " ".join(lines)
                lines = []
            yield "heading", heading.group(1)
        elif line.strip():
            lines.append(" ".join(line.split()))
    if lines:
        yield "text", " ".join(lines)


def _cut(text: str, longest: int) -> Iterator[str]:
    held = ""
    for sentence in _SENTENCE.split(text):
        if held and len(held) + 1 + len(sentence) > longest:
            yield held
            held = ""
        held = f"{held} {sentence}".strip()
    if held:
        yield held


@dataclass
class _Page(html.parser.HTMLParser):
    """Visible text of a page, with headings as in Markdown. Nothing in the page is executed."""

    written: list[str] = field(default_factory=list)
    hidden: int = 0

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - HTMLParser's signature
        if tag in _HIDDEN:
            self.hidden += 1
        elif tag in _HEADINGS:
            self.written.append("\n\n# ")
        elif tag in _BLOCKS:
            self.written.append("\n\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in _HIDDEN:
            self.hidden = max(0, self.hidden - 1)
        elif tag in _BLOCKS or tag in _HEADINGS:
            self.written.append("\n\n")

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.written.append(re.sub(r"\s+", " ", data))


def _from_html(text: str) -> str:
    page = _Page()
    page.feed(text)
    page.close()
    return "".join(page.written)


SOURCE = Source(
    name="text",
    description="Free text you bring (.txt, .md, .html), such as Cultural Atlas pages, as references",
    license="as given",
    rows=build,
    options=TextOptions,
    yields="references",
)
