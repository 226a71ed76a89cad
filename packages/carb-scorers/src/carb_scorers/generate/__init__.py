"""Sets and perturbed versions that language models write: construction, perturbation, and how they are verified."""

from carb_scorers.generate.construction import (
    ConstructConfig,
    ConstructReport,
    Reference,
    construct,
    plan_construction,
    read_construct_config,
)
from carb_scorers.generate.perturbation import PerturbReport, perturb

__all__ = [
    "ConstructConfig",
    "ConstructReport",
    "PerturbReport",
    "Reference",
    "construct",
    "perturb",
    "plan_construction",
    "read_construct_config",
]
