"""Where the scorers of a run are: in this process, or on the workers of another engine."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Protocol

from carb_data import CarbError
from carb_scorers.evaluation import OnResults, score_all
from carb_scorers.scorer import Scorer, ScoreRequest, ScorerSpec
from carb_scorers.spec import open_scorer


class Session(Protocol):
    """A scorer that an engine has open."""

    spec: ScorerSpec

    async def score(self, requests: Sequence[ScoreRequest], on_results: OnResults, *, window: int) -> None:
        """Score requests and hand over the results as they come, each exactly once, in any order.

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


class LocalSession:
    """A scorer in this process; closed with the session where it was opened by it."""

    def __init__(self, scorer: Scorer, *, close: bool) -> None:
        self.spec = scorer.spec
        self._scorer = scorer
        self._close = close

    async def score(self, requests: Sequence[ScoreRequest], on_results: OnResults, *, window: int) -> None:
        """See ``Session``."""
        await score_all(self._scorer, requests, on_results, window=window)

    async def aclose(self) -> None:
        """Close the scorer. That it cannot be closed is no reason to lose its results."""
        if not self._close:
            return
        try:
            await self._scorer.aclose()
        except Exception as error:
            warnings.warn(f"'{self.spec.name}' did not close: {type(error).__name__}: {error}", stacklevel=2)


class LocalEngine:
    """One scorer after the other in this process."""

    name = "local"

    async def open(self, given: Scorer | str) -> LocalSession:
        """See ``Engine``."""
        if not isinstance(given, str):
            return LocalSession(given, close=False)
        return LocalSession(open_any(given), close=True)


def open_any(spec: str) -> Scorer:
    """Open a scorer; a third party's mistake becomes a message, since it must not end the whole run.

    Raises:
        CarbError: it cannot be opened.
    """
    try:
        return open_scorer(spec)
    except CarbError:
        raise
    except Exception as error:
        raise CarbError(f"'{spec}' cannot be opened: {type(error).__name__}: {error}") from error
