"""Where scorers run: in this process, or on the machines of a Ray cluster."""

from carb_scorers.engines.base import Engine, Session
from carb_scorers.engines.local import LocalEngine
from carb_scorers.engines.ray import RayEngine

__all__ = ["Engine", "LocalEngine", "RayEngine", "Session"]
