"""The paper's generation pipeline, on any OpenAI-compatible server or local transformers model.

Needs the extra ``construct`` (and ``local`` for local models).
"""

from carb_data.construct.config import Config, EmbedderSpec, ModelSpec, load_config
from carb_data.construct.prompts import Prompts
from carb_data.construct.report import ConstructReport, Failure, Plan, PlannedStep
from carb_data.construct.run import construct, plan, read_references

__all__ = [
    "Config",
    "ConstructReport",
    "EmbedderSpec",
    "Failure",
    "ModelSpec",
    "Plan",
    "PlannedStep",
    "Prompts",
    "construct",
    "load_config",
    "plan",
    "read_references",
]
