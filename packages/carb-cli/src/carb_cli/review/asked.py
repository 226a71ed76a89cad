"""What a reviewer is shown of a set: its texts under names that do not say which answer is the key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from carb_data import BonSet, Dataset
from carb_data.models import Frozen

__all__ = ["Option", "ReviewItem", "ShownTurn", "items_of"]


class ShownTurn(Frozen):
    """A part of the question; a plain prompt is one turn of the user."""

    role: str
    text: str


class Option(Frozen):
    """One answer as it is shown."""

    token: str
    """Its name for the page and the stored answers, made from its text alone."""
    text: str
    language: str


class ReviewItem(Frozen):
    """One thing to review. ``shown`` is all that a reviewer's page receives of it."""

    id: str
    """Hash of what is shown: a changed text is another item."""
    set_id: str
    kind: Literal["choice"] = "choice"
    culture: str
    domain: str
    language: str
    source_item: str
    turns: tuple[ShownTurn, ...]
    options: tuple[Option, ...]
    """The answers in the order of their tokens, so that the place says nothing."""
    responses: dict[str, str]
    """Token to response id; never shown."""
    key: str
    """Token of the chosen response; never shown."""

    @property
    def shown(self) -> dict[str, Any]:
        """What the page receives."""
        fields = {"id", "kind", "language", "turns", "options"}
        return self.model_dump(mode="json", include=fields)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the answers, in the item's own order."""
        return tuple(option.token for option in self.options)


def items_of(dataset: Dataset | Iterable[BonSet]) -> Iterator[ReviewItem]:
    """The items of a data set, one for each set."""
    for item in dataset:
        texts = sorted(item.responses, key=lambda r: (_digest(r.text), r.id))
        tokens = _tokens([r.text for r in texts])
        named = sorted(zip(tokens, texts, strict=True), key=_first)
        options = tuple(Option(token=token, text=r.text, language=r.language) for token, r in named)
        turns = _turns(item.prompt)
        parts = [t.model_dump() for t in turns], [o.model_dump() for o in options]
        shown = [item.id, "choice", item.culture, item.language, *parts]
        yield ReviewItem(
            id=_digest(json.dumps(shown, ensure_ascii=False, sort_keys=True))[:20],
            set_id=item.id,
            culture=item.culture,
            domain=str(item.domain),
            language=item.language,
            source_item=item.family or item.source_item,
            turns=turns,
            options=options,
            responses={token: r.id for token, r in named},
            key=next(token for token, r in named if r.id == item.chosen.id),
        )


def _turns(prompt: Any) -> tuple[ShownTurn, ...]:
    """The prompt as turns: it is a text, or a conversation of messages."""
    if isinstance(prompt, str):
        return (ShownTurn(role="user", text=prompt),)
    return tuple(ShownTurn(role=str(message.role), text=str(message.content)) for message in prompt)


def _tokens(texts: list[str]) -> list[str]:
    """A short name for each text, made from the text and, where two are alike, from its place."""
    found: list[str] = []
    for place, text in enumerate(texts):
        token = _digest(text)[:8]
        found.append(token if token not in found else _digest(f"{text}\0{place}")[:8])
    return found


def _first(pair: tuple[str, Any]) -> str:
    return pair[0]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
