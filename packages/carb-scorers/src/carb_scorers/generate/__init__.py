"""Sets and perturbed versions that language models write: construction, perturbation, and how they
are verified."""

from carb_scorers.generate.construction import (
    ConstructConfig,
    Reference,
    construct,
    read_construct_config,
)
from carb_scorers.generate.perturbation import perturb
from carb_scorers.generate.writers import WriteReport

__all__ = [
    "ConstructConfig",
    "Reference",
    "WriteReport",
    "construct",
    "perturb",
    "read_construct_config",
]
