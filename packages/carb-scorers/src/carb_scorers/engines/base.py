"""What a run needs of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from carb_scorers.evaluation import OnResults
from carb_scorers.scorer import Scorer, ScoreRequest, ScorerSpec


class Session(Protocol):
    """A scorer that an engine has open."""

    spec: ScorerSpec
    writes_parts: bool
    """Whether results are in files (see ``parts``) by the time that they are handed over."""

    async def score(self, requests: Sequence[ScoreRequest], on_results: OnResults, *, window: int, parts: Path) -> None:
        """Score requests and hand over the results as they come, each exactly once, in any order.

        Args:
            requests: the requests to score, cut into windows in their order.
            on_results: the function that gets the results, called in the caller's thread.
            window: the number of requests handed to a scorer at once.
            parts: folder for the files of an engine that writes its own.

        Raises:
            CarbError: the scorer met a user's mistake, or ``on_results`` raised it.
        """
        ...

    async def aclose(self) -> None:
        """Give back memory, processes and connections."""
        ...


class Engine(Protocol):
    """Opens scorers."""

    name: str

    async def open(self, given: Scorer | str) -> Session:
        """Open a scorer from its spec, or take one that is open.

        Raises:
            CarbError: it cannot be opened, or not here.
        """
        ...

    async def aclose(self) -> None:
        """Give back what the engine holds."""
        ...
