"""Small sets that the tests of this package make."""

from __future__ import annotations

from collections.abc import Sequence

from carb_data import BonSet, Provenance, Response, Role


def small_set(name: str, texts: Sequence[str], right: int = 0, **changes: object) -> BonSet:
    """A set about Germany in English with these answers, of which one is right; ``changes`` replace its fields."""
    responses = tuple(
        Response(id=f"r{n}", text=text, role=Role.CHOSEN if n == right else Role.REJECTED, language="en")
        for n, text in enumerate(texts)
    )
    fields: dict[str, object] = {
        "id": name,
        "culture": "german",
        "domain": "values",
        "language": "en",
        "prompt": f"Question {name}?",
        "responses": responses,
        "provenance": Provenance(source="test", source_id=name, license="CC0-1.0", method="authored"),
    }
    return BonSet.model_validate(fields | changes)
