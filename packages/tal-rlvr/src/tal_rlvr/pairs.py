"""Preference pairs, and those that sets give."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable

from pydantic import Field

from carb_data import BonSet
from carb_data.models import Frozen
from tal_rlvr.judgement import Verdict


class Pair(Frozen):
    """One question with a better and a worse response."""

    id: str
    source_item: str
    """What a split must not divide."""
    prompt: str
    chosen: str
    rejected: str
    culture: str
    """Id in the registry, or a name; ``general`` where the source knows none."""
    language: str
    domain: str | None = None
    difficulty: float = Field(default=0.5, ge=0.0, le=1.0)
    """0 easy to 1 hard, as far as the source tells: how alike the two responses are rated; 0.5 where it does not."""


class OrderedPair(Frozen):
    """A pair as it is shown: which response is A, and which verdict is right."""

    pair: Pair
    first: str
    second: str
    label: Verdict


def both_orders(pair: Pair) -> tuple[OrderedPair, OrderedPair]:
    """The pair with the better response first, and second: trained on both, position carries no signal."""
    return (
        OrderedPair(pair=pair, first=pair.chosen, second=pair.rejected, label="A"),
        OrderedPair(pair=pair, first=pair.rejected, second=pair.chosen, label="B"),
    )


def pairs_from_set(item: BonSet) -> list[Pair]:
    """One pair per rejected response."""
    return [
        Pair(
            id=f"{item.id}/{rejected.id}",
            source_item=item.source_item,
            prompt=item.prompt_text,
            chosen=item.chosen.text,
            rejected=rejected.text,
            culture=item.culture,
            language=item.language,
            domain=str(item.domain),
        )
        for rejected in item.rejected
    ]


def off_topic_pairs(dataset: Iterable[BonSet], *, seed: int = 0) -> list[Pair]:
    """The right response against the right response to another question of the same culture, on another topic.

    A task about relevance rather than culture.
    """
    return _contrasted(
        dataset, "off-topic", lambda item, o: o.topic != item.topic and o.language == item.language, seed
    )


def other_language_pairs(dataset: Iterable[BonSet], *, seed: int = 0) -> list[Pair]:
    """The right response against a right response of the same culture in another language than the question's.

    An easy task: does a response keep to the asker's language? It shows whether a model can learn in this form at all.
    Responses without a letter are left out, since a number has no language.
    """

    def differs(item: BonSet, other: BonSet) -> bool:
        return other.language != item.language and any(map(str.isalpha, other.chosen.text))

    return _contrasted(dataset, "other-language", differs, seed)


def _contrasted(dataset: Iterable[BonSet], task: str, fits: Callable[[BonSet, BonSet], bool], seed: int) -> list[Pair]:
    by_culture: dict[str, list[BonSet]] = defaultdict(list)
    for item in dataset:
        by_culture[item.culture].append(item)
    pairs = []
    for culture, items in sorted(by_culture.items()):
        rng = random.Random(f"{seed}\0{task}\0{culture}")
        for item in items:
            used = {response.text.casefold() for response in item.responses}
            others = [o for o in items if fits(item, o) and o.chosen.text.casefold() not in used]
            if others:
                other = rng.choice(others)
                update = {"id": f"{item.id}/{task}", "rejected": other.chosen.text}
                pairs.append(pairs_from_set(item)[0].model_copy(update=update))
    return pairs
