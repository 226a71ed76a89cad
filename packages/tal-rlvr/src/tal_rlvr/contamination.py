"""Proof that no test item, nor a near-duplicate of one, is in training: ``carb_data``'s check on preference pairs."""

from __future__ import annotations

from collections.abc import Sequence

from carb_data import BonSet, Provenance, Response, Role, load
from carb_data.contamination import ContaminationReport, check_contamination
from carb_data.models import Frozen
from tal_rlvr.mix import Parts
from tal_rlvr.pairs import Pair

__all__ = ["ContaminationReport", "check_contamination", "drop_contaminated", "report_contamination"]

ROUNDS = 50


class Found(Frozen):
    """A training pair that repeats something of an evaluation item."""

    train: str
    """Id of the pair."""
    test: str
    kind: str
    """``source``, ``exact`` or ``near``, see ``carb_data.contamination``."""
    field: str
    similarity: float


class MixReport(Frozen):
    """What of the evaluation data is in the training pairs."""

    train_pairs: int
    held_out_pairs: int
    evaluation_sets: tuple[str, ...]
    evaluation_items: int
    """Held-out pairs and sets of ``evaluation_sets`` that were looked for."""
    threshold: float
    found: tuple[Found, ...]
    """Every training pair with an overlap, once."""


def report_contamination(parts: Parts, evaluation_sets: Sequence[str] = ()) -> MixReport:
    """Look for the held-out pairs and the items of evaluation sets in the training pairs.

    ``check_contamination`` names the strongest overlap of each test text; here every training pair with any overlap
    is wanted, so the check is repeated without those that were found until nothing more is.
    """
    test = [*_sets(parts.held_out), *(item for name in evaluation_sets for item in load(name))]
    left = list(parts.train)
    found: list[Found] = []
    threshold = 0.0
    for _ in range(ROUNDS):
        report = check_contamination(_sets(left), test)
        threshold = report.threshold
        hits = {overlap.train_position: overlap for overlap in report.overlaps}
        if not hits:
            break
        found += [
            Found(train=left[place].id, test=hit.item_id, kind=hit.kind, field=hit.field, similarity=hit.score)
            for place, hit in sorted(hits.items())
        ]
        left = [pair for place, pair in enumerate(left) if place not in hits]
    return MixReport(
        train_pairs=len(parts.train),
        held_out_pairs=len(parts.held_out),
        evaluation_sets=tuple(evaluation_sets),
        evaluation_items=len(test),
        threshold=threshold,
        found=tuple(found),
    )


def drop_contaminated(pairs: Sequence[Pair], report: MixReport) -> list[Pair]:
    """The pairs without those that the report names."""
    named = {found.train for found in report.found}
    return [pair for pair in pairs if pair.id not in named]


def _sets(pairs: Sequence[Pair]) -> list[BonSet]:
    """Pairs as sets, which is how the check knows their source items."""
    return [
        BonSet.model_construct(
            id=pair.id,
            culture="general",
            domain="commonsense",
            language=pair.language,
            prompt=pair.prompt,
            responses=tuple(
                Response.model_construct(id=role.value, text=text, role=role, language=pair.language)
                for role, text in ((Role.CHOSEN, pair.chosen), (Role.REJECTED, pair.rejected))
            ),
            perturbed=(),
            provenance=Provenance.model_construct(
                source=pair.source_item.partition(":")[0], source_id=pair.source_item.partition(":")[2]
            ),
        )
        for pair in pairs
    ]
