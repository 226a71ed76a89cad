"""Proof that no test item, nor a near-duplicate of one, is in training: ``carb_data``'s check on
preference pairs."""

from collections.abc import Sequence

from carb_data import BonSet, Frozen, Provenance, Response, Role, check_contamination, load
from tal_rlvr.mix import Parts
from tal_rlvr.preferences import Pair


class Repeated(Frozen):
    """A training pair that repeats something of an evaluation item."""

    train: str
    """Id of the pair."""
    test: str | None
    """Id of the evaluation item; null where another pair is stronger evidence of the same text."""
    similarity: float | None


class MixReport(Frozen):
    """The overlap of the evaluation data with the training pairs."""

    train_pairs: int
    evaluation_items: int
    """Held-out pairs and sets of ``evaluation.sets`` that were looked for."""
    threshold: float
    repeated: tuple[Repeated, ...]
    """Every training pair with an overlap, once."""


def report_contamination(parts: Parts, evaluation_sets: Sequence[str] = ()) -> MixReport:
    """Look for the held-out pairs and the items of evaluation sets in the training pairs, in one
    pass."""
    test = [
        *map(_set, [*parts.held_out, *parts.dev]),
        *(item for name in evaluation_sets for item in load(name)),
    ]
    report = check_contamination(map(_set, parts.train), test)
    strongest = {overlap.train_position: overlap for overlap in report.overlaps}
    overlaps = []
    for position in report.train_positions:
        hit = strongest.get(position)
        name = parts.train[position].id
        pair = Repeated(train=name, test=None, similarity=None)
        if hit is not None:
            pair = Repeated(train=name, test=hit.item_id, similarity=hit.score)
        overlaps.append(pair)
    return MixReport(
        train_pairs=len(parts.train),
        evaluation_items=len(test),
        threshold=report.threshold,
        repeated=tuple(overlaps),
    )


def _set(pair: Pair) -> BonSet:
    """A pair as a set, which is how the check knows its source item."""
    source, _, source_id = pair.source_item.partition(":")
    texts = {Role.CHOSEN: pair.chosen, Role.REJECTED: pair.rejected}
    responses = [
        Response.model_construct(id=role.value, text=text, role=role, language=pair.language)
        for role, text in texts.items()
    ]
    return BonSet.model_construct(
        id=pair.id,
        culture="general",
        domain="commonsense",
        language=pair.language,
        prompt=pair.prompt,
        responses=tuple(responses),
        perturbed=(),
        provenance=Provenance.model_construct(source=source, source_id=source_id),
    )
