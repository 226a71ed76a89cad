"""What a reviewer is shown of a set: its texts under names that do not say which answer is the key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from carb_data import BonSet, Dataset
from carb_data.models import Frozen

__all__ = ["Option", "ReviewItem", "ShownTurn", "items_of"]

Kind = Literal["choice", "version"]
ORIGINAL, VERSION = "original", "version"
"""Tokens of the two texts of a ``version`` item."""


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
    kind: Kind
    """``choice``: which answer is best here; ``version``: is a perturbed text (second) still its original (first)?"""
    culture: str
    domain: str
    language: str
    source_item: str
    turns: tuple[ShownTurn, ...]
    options: tuple[Option, ...]
    """The answers: for ``choice`` in the order of their tokens, so that the place says nothing; else original, then
    version."""
    responses: dict[str, str]
    """Token to response id; never shown."""
    key: str | None
    """Token of the chosen response; null for ``version``; never shown."""
    perturbation: str | None = None
    """How the version was made; never shown."""

    @property
    def shown(self) -> dict[str, Any]:
        """What the page receives."""
        fields = {"id", "kind", "language", "turns", "options"}
        return self.model_dump(mode="json", include=fields)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the answers, in the item's own order."""
        return tuple(option.token for option in self.options)


def items_of(dataset: Dataset | Iterable[BonSet], *, versions: bool = False) -> Iterator[ReviewItem]:
    """The items of a data set: a choice for each set and, if asked for, each perturbed text beside its original.

    Args:
        dataset: the sets to review.
        versions: whether to include the second task.
    """
    sets = list(dataset)
    for each in sets:
        yield _choice(each)
    if versions:
        for each in sets:
            yield from _versions(each)


def _choice(item: BonSet) -> ReviewItem:
    texts = sorted(item.responses, key=lambda r: (_digest(r.text), r.id))
    tokens = _tokens([r.text for r in texts])
    options = tuple(
        Option(token=t, text=r.text, language=r.language)
        for t, r in sorted(zip(tokens, texts, strict=True), key=_first)
    )
    responses = {token: r.id for token, r in zip(tokens, texts, strict=True)}
    key = next(token for token, id_ in responses.items() if id_ == item.chosen.id)
    return _item(item, "choice", options, responses, key=key)


def _versions(item: BonSet) -> Iterator[ReviewItem]:
    originals = {r.id: r for r in item.responses}
    for version in item.perturbed:
        original = originals[str(version.original)]
        options = (
            Option(token=ORIGINAL, text=original.text, language=original.language),
            Option(token=VERSION, text=version.text, language=version.language),
        )
        responses = {ORIGINAL: original.id, VERSION: version.id}
        yield _item(item, "version", options, responses, perturbation=str(version.perturbation))


def _item(item: BonSet, kind: Kind, options: tuple[Option, ...], responses: dict[str, str], **more: Any) -> ReviewItem:
    turns = _turns(item.prompt)
    shown = [kind, item.culture, item.language, [t.model_dump() for t in turns], [o.model_dump() for o in options]]
    return ReviewItem(
        id=_digest(json.dumps([item.id, *shown], ensure_ascii=False, sort_keys=True))[:20],
        set_id=item.id,
        kind=kind,
        culture=item.culture,
        domain=str(item.domain),
        language=item.language,
        source_item=getattr(item, "family", None) or item.source_item,
        turns=turns,
        options=options,
        responses=responses,
        key=more.get("key"),
        perturbation=more.get("perturbation"),
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
