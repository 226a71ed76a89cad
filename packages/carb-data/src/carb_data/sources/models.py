"""What sources yield: complete sets, candidate pools without a label, reference snippets, and skips."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from carb_data.models import BonSet, CultureId, Domain, Frozen, Identifier, LanguageTag, Provenance, Text


class PoolCandidate(Frozen):
    """One response of unknown worth."""

    id: Identifier
    text: Text
    language: LanguageTag | None = None
    """Language of the text where the source tells it; null where a model may have answered in another one."""
    generator: str | None = None


class CandidatePool(Frozen):
    """One prompt with several responses and no label: nobody has said yet which of them is right."""

    id: Identifier
    culture: CultureId
    domain: Domain
    topic: str | None = None
    language: LanguageTag
    prompt: Text
    candidates: Annotated[tuple[PoolCandidate, ...], Field(min_length=2)]
    provenance: Provenance

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Self:
        if len({candidate.id for candidate in self.candidates}) != len(self.candidates):
            raise ValueError("candidate ids must be unique within a pool")
        return self


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


Row = BonSet | CandidatePool | Reference
"""A product of a source; each source yields rows of one of these kinds."""
