"""What sources yield: sets and skips. And reference snippets, from which sets are constructed."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from carb_data.models import CultureId, Domain, Frozen, Identifier, LanguageTag, Provenance, Text


class Reference(Frozen):
    """A piece of cultural reference material: what is right in a culture, from which sets can be constructed."""

    id: Identifier
    culture: CultureId
    domain: Domain
    topic: str | None = None
    language: LanguageTag
    text: Text
    """The reference text; where ``question`` is given, its right answer."""
    question: Text | None = None
    """The question that ``text`` answers, where the source asks one."""
    provenance: Provenance


class Skip(Frozen):
    """One source item from which nothing was made, and why."""

    source_id: str
    reason: Annotated[str, StringConstraints(min_length=1)]
    """A phrase that is the same for all items skipped for the same cause, so that reasons can be counted."""
    culture: str | None = None
    language: str | None = None
