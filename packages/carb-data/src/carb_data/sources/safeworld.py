"""SafeWorld: scenes that go against a norm or a law of a country, with the norm or law that they touch.

Yin et al. 2024, SafeWorld: Geo-Diverse Safety Alignment, NeurIPS, arXiv:2412.06483. For files that a user supplies:
``data/{culture,policy}/type{1..4}.json`` (no licence is stated, so they may not be redistributed).

``safeworld`` yields sets from types 1 and 2, where a norm or policy is violated: the prompt is the scene and asks what
it goes against; ``chosen`` is the violated norm, each ``rejected`` the norm that a scene of like wording in another
country violates. ``safeworld-references`` yields norms and policies as references. Types 3 and 4 give no wrong
response: type 3 is prompts to be declined, type 4 scenes that violate nothing.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from carb_data.errors import CarbError
from carb_data.models import BonSet, Domain, Provenance, Response, Role
from carb_data.sources.answers import normalise
from carb_data.sources.base import Options, Source
from carb_data.sources.countries import Country, culture_id_of, culture_of, find_country, names_country
from carb_data.sources.grouping import of_mixed_length
from carb_data.sources.models import Reference, Skip
from carb_data.sources.reading import read_text
from carb_data.validation import first_defect

LICENSE = "LicenseRef-none-stated"
URL = "https://github.com/PlusLabNLP/SafeWorld"

_FIELD = re.compile(r"^#[^:]*:\s*")
_SHORT_NAME = re.compile(r"\bU\.(?:K|S)\.")
_NO_CULTURE = "no registered culture has this country among its regions"
_SHORTEST, _LONGEST = 0.5, 2.0
_REJECTED = 3
_BLOCK = 80
_PLAIN_WORDS = frozenset(
    normalise(word) for word in ["this", "that", "will", "have", "been", "from", "with", "without"]
)


class SafeworldOptions(Options):
    """Options of ``safeworld``."""

    parts: Literal["both", "culture", "policy"] = Field("both", description="Cultural norms, legal policies, or both")


class _Row(BaseModel):
    model_config = ConfigDict(extra="ignore")

    country: str
    query: str
    index: str = ""
    topic: str | None = None
    scene: str = ""
    root_norm: str | None = None
    root_policy: str | None = None
    violated_aug_norm: str | None = None
    violated_aug_policy: str | None = None
    aug_norm: str | None = None
    aug_policy: str | None = None
    violated_specific_norm: str | None = None
    violated_specific_policy: str | None = None


_ROW = TypeAdapter(_Row)


@dataclass(frozen=True, slots=True)
class _Scene:
    source_id: str
    part: str
    row: _Row
    norm: str
    country: Country | None
    words: frozenset[str]


def build(path: Path, options: SafeworldOptions, seed: int) -> Iterator[BonSet | Skip]:
    """Yield a set or a skip for every scene of types 1 and 2, and a skip for every row of types 3 and 4.

    Args:
        path: the folder ``data`` of SafeWorld, or the one above it.
        options: The part of the source to build.
        seed: chooses among wrong norms of like wording, and the order.
    """
    scenes: list[_Scene] = []
    for part, kind, number, row in _files(path, options.parts):
        source_id = f"{part}/type{kind}/{number}"
        if isinstance(row, str):
            yield Skip(source_id=source_id, reason=row, language="en")
            continue
        country = find_country(row.country)
        told = (row.violated_specific_norm or row.violated_specific_policy or "").strip()
        norm = _unplaced(_FIELD.sub("", told), row.country, country)
        reason = _defect(row, kind, norm)
        if reason is not None:
            yield Skip(source_id=source_id, reason=reason, language="en")
        else:
            words = _words(f"{row.topic} {row.scene}")
            scenes.append(_Scene(source_id, part, row, norm, country, words))
    blocks: dict[str, list[_Scene]] = {}
    for scene in scenes:
        blocks.setdefault(_block(scene, len(scenes)), []).append(scene)
    for name, block in blocks.items():
        for scene in block:
            yield _make(scene, block, name, seed)


def _defect(row: _Row, kind: int, norm: str) -> str | None:
    if kind == 3:
        return "type 3 holds prompts to be declined, without responses"
    if kind == 4:
        return "type 4 violates nothing, so there is no wrong response"
    if not norm or not (row.scene or row.query).strip():
        return "the scene or the norm is empty"
    if "," in row.country or ";" in row.country:
        return "the scene is about several countries"
    if norm[0].islower():
        return "the beginning of the norm is cut off"
    if _SHORT_NAME.search(norm) or names_country(norm.replace("_", " ")):
        return "the norm names a country, which would give the answer away"
    return None


def _block(scene: _Scene, scenes: int) -> str:
    """Scenes come in blocks by their norm, and wrong norms from the same block: no split divides an answer."""
    digest = int.from_bytes(sha256(scene.norm.encode()).digest()[:8], "big")
    return f"{scene.part}/{digest % max(1, scenes // _BLOCK)}"


def _make(scene: _Scene, block: Sequence[_Scene], name: str, seed: int) -> BonSet | Skip:
    culture = culture_of(scene.country)
    if culture is None or scene.country is None:
        return Skip(source_id=scene.source_id, reason=_NO_CULTURE, language="en")
    random_ = random.Random(f"safeworld:{seed}:{scene.source_id}")
    own = _words(scene.norm)
    others = [
        other
        for other in block
        if other.part == scene.part
        and other.country not in (None, scene.country)
        and _SHORTEST * len(scene.norm) <= len(other.norm) <= _LONGEST * len(scene.norm)
        and len(own & _words(other.norm)) <= len(own) / 3
    ]
    random_.shuffle(others)
    others.sort(key=lambda other: -len(scene.words & other.words))
    different = list({other.norm: other for other in others}.values())
    three = of_mixed_length(len(scene.norm), different, lambda other: len(other.norm), _REJECTED, random_)
    if len(three) < _REJECTED:
        reason = "fewer than three norms of other countries of like length and other content"
        return Skip(source_id=scene.source_id, reason=reason, culture=culture.id, language="en")
    told = (scene.row.scene or scene.row.query).strip()
    what = "custom" if scene.part == "culture" else "law or rule"
    order = random_.sample("abcd", _REJECTED + 1)
    responses = [
        Response(
            id=letter,
            text=other.norm,
            role=Role.CHOSEN if other is scene else Role.REJECTED,
            language="en",
            culture=culture_id_of(other.country),
        )
        for letter, other in zip(order, [scene, *three], strict=True)
    ]
    return BonSet(
        id=f"safeworld/{scene.source_id}",
        culture=culture.id,
        domain=Domain.SAFETY,
        topic=scene.row.topic,
        language="en",
        prompt=f"{told}\n\nWhich {what} of {scene.country.name} is at stake here?",
        responses=tuple(sorted(responses, key=lambda response: response.id)),
        provenance=Provenance(
            source="safeworld",
            source_id=name,
            license=LICENSE,
            url=URL,
            method="generated",
            notes="Norms written by a model and checked by the authors; a wrong one belongs to another scene.",
        ),
    )


def build_references(
    path: Path,
    options: SafeworldOptions,
    seed: int,  # noqa: ARG001 - one signature for all sources
) -> Iterator[Reference | Skip]:
    """Yield every norm or policy of a country, and its regional form, once.

    Args:
        path: the folder ``data`` of SafeWorld, or the one above it.
        options: The part of the source to build.
        seed: It has no effect here: nothing is drawn.
    """
    seen: set[str] = set()
    for part, kind, number, row in _files(path, options.parts):
        source_id = f"{part}/type{kind}/{number}"
        if isinstance(row, str):
            yield Skip(source_id=source_id, reason=row, language="en")
            continue
        country = find_country(row.country)
        culture = culture_of(country)
        texts = [row.root_norm, row.root_policy, row.aug_norm, row.aug_policy]
        texts += [row.violated_aug_norm, row.violated_aug_policy]
        fresh = [text.strip() for text in texts if text and text.strip() and text.strip() not in seen]
        if culture is None or not fresh:
            reason = _NO_CULTURE if culture is None else "no norm that is not a repetition"
            yield Skip(source_id=source_id, reason=reason, culture=culture.id if culture else None, language="en")
            continue
        seen.update(fresh)
        for place, text in enumerate(fresh):
            yield Reference(
                id=f"safeworld/{source_id}/{place}",
                culture=culture.id,
                domain=Domain.SAFETY,
                topic=row.topic,
                language="en",
                text=text,
                provenance=Provenance(
                    source="safeworld", source_id=source_id, license=LICENSE, url=URL, method="generated"
                ),
            )


def _files(path: Path, parts: str) -> Iterator[tuple[str, int, int, _Row | str]]:
    root = path / "data" if (path / "data").is_dir() else path
    found = False
    for part in ("culture", "policy"):
        for kind in (1, 2, 3, 4):
            file = root / part / f"type{kind}.json"
            if parts in ("both", part) and file.exists():
                found = True
                for number, row in enumerate(_read(file)):
                    yield part, kind, number, row
    if not found:
        raise CarbError(f"{path} does not hold SafeWorld: no culture/type1.json or policy/type1.json and so on.")


def _read(file: Path) -> Iterator[_Row | str]:
    """Each record, or why it cannot be read.

    The published files are not strict JSON: commas stand before brackets, control characters in texts, and some records
    are cut off. What is broken costs its own record alone.
    """
    text = re.sub(r",(\s*[}\]])", r"\1", read_text(file, "SafeWorld"))
    try:
        content: Any = json.loads(text, strict=False)
        records: Iterator[Any] = iter(content) if isinstance(content, list) else iter([content])
    except json.JSONDecodeError:
        records = _records(text)
    whole = False
    for record in records:
        try:
            yield _ROW.validate_python(record) if not isinstance(record, str) else record
            whole = whole or not isinstance(record, str)
        except ValidationError as error:
            yield f"not a record of SafeWorld: {first_defect(error)}"
    if not whole:
        raise CarbError(f"{file} is not a file of SafeWorld: no record in it can be read.")


def _records(text: str) -> Iterator[Any]:
    """The objects of a damaged list, one after the other; a reason in the place of each that is not whole."""
    decoder = json.JSONDecoder(strict=False)
    starts = [found.start(1) for found in re.finditer(r"(?:^|[\[,}\n])\s*(\{)\s*\"", text)]
    end = 0
    for start in starts:
        if start < end:
            continue  # inside the record before
        try:
            record, end = decoder.raw_decode(text, start)
            yield record
        except json.JSONDecodeError:
            yield "the record is cut off"


def _words(text: str) -> frozenset[str]:
    return frozenset(word for word in normalise(text).split() if len(word) > 3 and word not in _PLAIN_WORDS)


def _unplaced(norm: str, written: str, country: Country | None) -> str:
    """The norm without "In Kenya, " before it or " in Kenya" in it, as the record writes the name or as it is."""
    if country is None:
        return norm
    name = "|".join(map(re.escape, (written, country.name)))
    norm = re.sub(rf"^In (?:the )?(?:{name}), (\w)", lambda found: found.group(1).upper(), norm)
    return re.sub(rf",? in (?:the )?(?:{name})(?!\w)", "", norm)


SOURCE = Source(
    name="safeworld",
    description="SafeWorld, files you bring: the norm or law that a scene violates against those of other scenes",
    license=LICENSE,
    rows=build,
    options=SafeworldOptions,
)
REFERENCES = Source(
    name="safeworld-references",
    description="SafeWorld, files you bring: norms and laws of countries as references",
    license=LICENSE,
    rows=build_references,
    options=SafeworldOptions,
    yields="references",
    files="safeworld",
)
