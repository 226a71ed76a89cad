"""Preference pairs, and those that sets give."""

from carb_data import UNSPECIFIED, BonSet, Frozen
from tal_rlvr.judge_prompts import GENERAL
from tal_rlvr.judgement import Verdict


class Pair(Frozen):
    """One question with a better and a worse response."""

    id: str
    source_item: str
    """A split never divides it."""
    prompt: str
    chosen: str
    rejected: str
    culture: str
    """Id in the registry, or a name; ``general`` where the source knows none."""
    language: str


class OrderedPair(Frozen):
    """A pair as it is shown: which response is A, and which verdict is right."""

    pair: Pair
    first: str
    second: str
    label: Verdict


def both_orders(pair: Pair) -> tuple[OrderedPair, OrderedPair]:
    """The pair with the better response first, and second: trained on both, position carries no
    signal."""
    return (
        OrderedPair(pair=pair, first=pair.chosen, second=pair.rejected, label="A"),
        OrderedPair(pair=pair, first=pair.rejected, second=pair.chosen, label="B"),
    )


def pairs_from_set(item: BonSet, origin: str | None = None) -> list[Pair]:
    """One pair per rejected response, tied to the set's origin (``Dataset.origins``) or, without
    one, to its source item."""
    return [
        Pair(
            id=f"{item.id}/{rejected.id}",
            source_item=origin or item.source_item,
            prompt=item.prompt_text,
            chosen=item.chosen.text,
            rejected=rejected.text,
            culture=GENERAL if item.culture == UNSPECIFIED else item.culture,
            language=item.language,
        )
        for rejected in item.rejected
    ]
