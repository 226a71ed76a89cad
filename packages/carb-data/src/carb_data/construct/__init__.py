"""The paper's generation pipeline over models that the caller opens: it declares a ``Writer`` and an ``Embedder``.

Needs the extra ``construct``. ``carb_scorers.models.construction`` has models for it: servers and transformers.
"""

from carb_data.construct.clients import Completion, Embedder, GenerationError, Models, NgramEmbedder, Writer
from carb_data.construct.config import Config, EmbedderSpec, ModelSpec, load_config
from carb_data.construct.prompts import Prompts
from carb_data.construct.report import ConstructReport, FailedSet, Plan, PlannedStep
from carb_data.construct.run import construct, plan, read_references

__all__ = [
    "Completion",
    "Config",
    "ConstructReport",
    "Embedder",
    "EmbedderSpec",
    "FailedSet",
    "GenerationError",
    "ModelSpec",
    "Models",
    "NgramEmbedder",
    "Plan",
    "PlannedStep",
    "Prompts",
    "Writer",
    "construct",
    "load_config",
    "plan",
    "read_references",
]
