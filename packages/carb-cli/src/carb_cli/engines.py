"""Where a run is computed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

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
    from carb_scorers.runs import run

    if name == "local":
        return run
    from carb_scorers.engines import RayEngine

    async def run_on_ray(*arguments: Any, **options: Any) -> RunRecord:
        engine = RayEngine.from_environment()
        try:
            return await run(*arguments, **options, engine=engine)
        finally:
            await engine.aclose()

    require("ray", package="carb-scorers", extra="ray")
    return run_on_ray
