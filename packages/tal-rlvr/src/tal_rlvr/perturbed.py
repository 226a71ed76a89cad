"""A judge's scores of perturbed texts before and after training; ``carb_metrics.sensitivity_change`` compares them."""

from __future__ import annotations

from carb_data import CarbError, Dataset, ScoreTable, load
from carb_scorers import evaluate
from tal_rlvr.config import PerturbedSets, TrainConfig
from tal_rlvr.scorer import open_with


def perturbed_sets(wanted: PerturbedSets) -> Dataset:
    """The sets that have perturbed texts, in the languages asked for.

    Raises:
        CarbError: there are none.
    """
    found = load(wanted.path).filter(lambda item: bool(item.perturbed), languages=wanted.languages or None)
    if not len(found):
        languages = f" in {', '.join(wanted.languages)}" if wanted.languages else ""
        raise CarbError(
            f"evaluation.perturbed: '{wanted.path}' has no set with perturbed texts{languages}. Add them with "
            f"'carb data perturb', or name another data set."
        )
    return found


def score_perturbed(config: TrainConfig, name: str, model: str, share: tuple[int, int] = (0, 1)) -> ScoreTable:
    """Every text of ``config.evaluation.perturbed``, scored by a model as the judge of this run.

    Args:
        name: the scorer's name in the table.
        model: folder or hub id.
        share: the number of this process, counted from 0, and the number of processes; each scores its part of the
            sets.

    Returns:
        A row per response, perturbed ones included; null where the model wrote no judgement.
    """
    wanted = config.evaluation.perturbed
    if wanted is None:
        raise CarbError("evaluation.perturbed is not set; name sets with perturbed texts there.")
    scorer = open_with(name, model, config.backend_options(model), config.judge)
    rank, count = share
    own = Dataset(tuple(perturbed_sets(wanted))[rank::count])
    return evaluate(own, [scorer], seed=config.seed)
