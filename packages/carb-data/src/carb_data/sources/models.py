"""Reference material, from which sets are constructed."""

from __future__ import annotations

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
