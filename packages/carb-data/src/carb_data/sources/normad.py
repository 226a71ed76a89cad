"""NormAd: is what somebody did acceptable in a country? Stories with a verdict, from pages of the Cultural Atlas.

Rao et al. 2025, NormAd: A Framework for Measuring the Cultural Adaptability of Large Language Models, NAACL,
arXiv:2404.12464. For files that a user supplies: the CSV of its etiquette stories (ID, Country, Background, Axis,
Subaxis, Value, Rule-of-Thumb, Story, Explanation, Gold Label), which its authors keep in a protected archive.

``normad`` yields sets of two: ``chosen`` is the gold verdict, the other one is ``rejected`` (chance is a half). With
``neutral``, stories that the customs do not bear on give sets of three, too. ``normad-references`` yields the
background of each country as references.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from carb_data.errors import CarbError
from carb_data.models import BonSet, Domain, Provenance, Response, Role
from carb_data.sources.base import Options, Source
from carb_data.sources.countries import culture_of, find_country
from carb_data.sources.models import Reference, Skip

LICENSE = "CC-BY-4.0"
URL = "https://github.com/Akhila-Yerukola/NormAd"

VERDICTS = {
    "yes": "Yes, that is socially acceptable.",
    "no": "No, that is not socially acceptable.",
    "neutral": "It is neither: the customs of the place do not bear on it.",
}
"""Gold label to the wording of the response."""

NEEDED = ("Country", "Story", "Gold Label")
_NO_CULTURE = "no registered culture has this country among its regions"


class NormadOptions(Options):
    """Options of ``normad``."""

    neutral: bool = Field(False, description="Build sets from neutral stories too, and offer neutral as a verdict")


def build(path: Path, options: NormadOptions, seed: int) -> Iterator[BonSet | Skip]:
    """Yield a set or a skip for every story.

    Args:
        path: the CSV, or the folder that holds it.
        options: whether neutral is a verdict.
        seed: decides the order of the responses.
    """
    verdicts = {label: text for label, text in VERDICTS.items() if options.neutral or label != "neutral"}
    for number, row in enumerate(_rows(path, NEEDED)):
        source_id = row.get("ID") or str(number)
        label, story = row["Gold Label"].strip().casefold(), row["Story"].strip()
        country = find_country(row["Country"])
        culture = culture_of(country)
        reason = None
        if country is None or culture is None:
            reason = _NO_CULTURE
        elif not story:
            reason = "the story is empty"
        elif label not in verdicts:
            reason = "its label is not one of the verdicts asked for"
        if reason is not None or country is None or culture is None:
            yield Skip(
                source_id=source_id,
                reason=reason or _NO_CULTURE,
                culture=culture.id if culture else None,
                language="en",
            )
            continue
        order = random.Random(f"normad:{seed}:{source_id}").sample("abc"[: len(verdicts)], len(verdicts))
        responses = [
            Response(id=letter, text=text, role=Role.CHOSEN if verdict == label else Role.REJECTED, language="en")
            for letter, (verdict, text) in zip(order, verdicts.items(), strict=True)
        ]
        yield BonSet(
            id=f"normad/{source_id}",
            culture=culture.id,
            domain=Domain.VALUES,
            topic=row.get("Subaxis") or row.get("Axis") or None,
            language="en",
            prompt=f"This happened in {country.name}. {story}",
            responses=tuple(sorted(responses, key=lambda response: response.id)),
            provenance=Provenance(
                source="normad",
                source_id=source_id,
                license=LICENSE,
                url=URL,
                method="generated",
                notes=f"Rule: {row['Rule-of-Thumb'].strip()}" if row.get("Rule-of-Thumb") else None,
            ),
        )


def build_references(
    path: Path,
    options: Options,  # noqa: ARG001 - there are none
    seed: int,  # noqa: ARG001 - one signature for all sources
) -> Iterator[Reference | Skip]:
    """Yield the background of a country and topic once, as a reference.

    Args:
        path: the CSV, or the folder that holds it.
        options: This source has no options.
        seed: It has no effect here: nothing is drawn.
    """
    seen: set[str] = set()
    for number, row in enumerate(_rows(path, ("Country", "Background"))):
        source_id = row.get("ID") or str(number)
        text = row["Background"].strip()
        country = find_country(row["Country"])
        culture = culture_of(country)
        reason = None
        if not text:
            reason = "the background is empty"
        elif text in seen:
            reason = "the background is a repetition"
        if culture is None or reason is not None:
            yield Skip(
                source_id=source_id,
                reason=reason or _NO_CULTURE,
                culture=culture.id if culture else None,
                language="en",
            )
            continue
        seen.add(text)
        yield Reference(
            id=f"normad/{source_id}/background",
            culture=culture.id,
            domain=Domain.VALUES,
            topic=row.get("Subaxis") or row.get("Axis") or None,
            language="en",
            text=text,
            provenance=Provenance(source="normad", source_id=source_id, license=LICENSE, url=URL, method="authored"),
        )


def _rows(path: Path, needed: tuple[str, ...]) -> Iterator[dict[str, str]]:
    files = [path] if path.is_file() else sorted(path.glob("*.csv"))
    if len(files) != 1:
        raise CarbError(f"{path} must hold one CSV of NormAd; found {len(files)}. Name the file itself.")
    try:
        with files[0].open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.DictReader(lines)
            missing = [name for name in needed if name not in (reader.fieldnames or ())]
            if missing:
                raise CarbError(f"{files[0]} is not NormAd's CSV: it lacks the columns {', '.join(missing)}.")
            for row in reader:
                yield {name: value or "" for name, value in row.items() if isinstance(name, str)}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CarbError(f"Cannot read NormAd's {files[0]}: {error}.") from None


SOURCE = Source(
    name="normad",
    description="NormAd, a file you bring: stories with a verdict, acceptable in a country or not",
    license=LICENSE,
    rows=build,
    options=NormadOptions,
)
REFERENCES = Source(
    name="normad-references",
    description="NormAd, a file you bring: backgrounds of countries as references",
    license=LICENSE,
    rows=build_references,
    yields="references",
    files="normad",
)
