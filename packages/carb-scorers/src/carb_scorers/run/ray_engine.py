"""A scorer on a Ray cluster: its copies on several workers share each window of requests."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import anyio.to_thread

from carb_data import CarbError
from carb_data.errors import require
from carb_scorers.evaluation import score_all
from carb_scorers.scorer import ScoreRequest, ScoreResult, ScorerSpec
from carb_scorers.texts import Opened
from carb_scorers.waiting import wait_for


class Copy:
    """What a worker runs."""

    def __init__(self, spec: str) -> None:
        self._opened = Opened(spec)

    def score(self, requests: Sequence[ScoreRequest]) -> tuple[ScorerSpec, list[ScoreResult]]:
        """What the scorer is, and its results in any order."""
        results: list[ScoreResult] = []
        try:
            scorer = self._opened.get()
            wait_for(lambda: score_all(scorer, requests, results.extend, window=max(1, len(requests))))
        except CarbError as error:
            raise CarbError(str(error)) from None  # an error with fields of its own may not survive the way back
        return scorer.spec, results


class RayScorer:
    """A scorer behind the contract of every scorer; the machine that asks need not be able to hold the model.

    Ray restarts a worker that died and gives it its share of the window again: that may be scored twice, and counts
    once.
    """

    def __init__(self, spec: str) -> None:
        """Join the cluster that the environment variable ``RAY_ADDRESS`` names, or start one that ends with us.

        ``CARB_RAY_WORKERS`` says how many copies to open, by default as many as the cluster has room for. Each takes a
        CPU, and as many GPUs as ``CARB_RAY_GPUS`` says, by default none.

        Raises:
            MissingExtraError: Ray is not installed.
            CarbError: there is no cluster at the address, it has no room for a worker, a variable is no number, or
                the scorer cannot be opened.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self._ray = require("ray", package="carb-scorers", extra="ray")
        if not self._ray.is_initialized():
            try:
                self._ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise CarbError(f"No Ray cluster at {os.environ.get('RAY_ADDRESS')}: {error}") from None
        gpus = _number("CARB_RAY_GPUS", 0)
        there = self._ray.cluster_resources()
        room = int(min(there.get("CPU", 0), there.get("GPU", 0) / gpus if gpus else math.inf))
        if room < 1:
            raise CarbError(f"The Ray cluster has no room for a worker with a CPU and {gpus:g} GPUs.")
        count = min(int(_number("CARB_RAY_WORKERS", room)), room)
        copy = self._ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1, max_task_retries=-1)(Copy)
        self._copies = [copy.remote(spec) for _ in range(count)]
        ((found, _),) = self._get([self._copies[0].score.remote([])])
        self.spec: ScorerSpec = found.model_copy(update={"in_flight": None})

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        """See ``Scorer``."""
        shares = [requests[number :: len(self._copies)] for number in range(len(self._copies))]
        asked = [copy.score.remote(share) for copy, share in zip(self._copies, shares, strict=True) if share]
        found = await anyio.to_thread.run_sync(self._get, asked, abandon_on_cancel=True)
        results = {result.request_id: result for _, share in found for result in share}
        return [results[request.request_id] for request in requests]

    def _get(self, asked: Sequence[Any]) -> Sequence[tuple[ScorerSpec, list[ScoreResult]]]:
        try:
            got: Sequence[tuple[ScorerSpec, list[ScoreResult]]] = self._ray.get(asked)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, CarbError):
                raise CarbError(str(error.cause)) from None
            raise
        return got

    async def aclose(self) -> None:
        """End the workers."""
        for copy in self._copies:
            self._ray.kill(copy)
        self._copies = []


def _number(variable: str, default: float) -> float:
    """A number from the environment."""
    try:
        return float(os.environ.get(variable) or default)
    except ValueError:
        raise CarbError(f"The environment variable {variable} must be a number.") from None
