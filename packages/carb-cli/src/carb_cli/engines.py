"""Where a run is computed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from carb_data import CarbError
from carb_data.extras import require

if TYPE_CHECKING:
    from carb_scorers.runs import RunRecord

Engine = Callable[..., Awaitable["RunRecord"]]
"""Called as ``carb_scorers.runs.run``."""


def engine_of(name: str) -> Engine:
    """The function that scores.

    Raises:
        CarbError: the engine's extra is not installed.
    """
    if name == "local":
        from carb_scorers.runs import run

        return run
    require("ray", package="carb-scorers", extra="ray")
    if find_spec("carb_scorers.ray_engine") is None:
        raise CarbError("This version of carb-scorers has no Ray engine; leave --engine out.")
    raise NotImplementedError
