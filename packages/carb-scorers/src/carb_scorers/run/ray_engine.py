"""Scorers on a Ray cluster: a pool of actors per scorer, fed by Ray Data; the run keeps what they send back.

A window of requests is one task. Ray gives a task that was lost with its worker to another one, so a window may be
scored twice, and is kept once.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import anyio.to_thread
from pydantic import TypeAdapter

from carb_data import CarbError
from carb_data.extras import require
from carb_scorers.evaluation import OnResults, score_all
from carb_scorers.run.local_engine import open_any
from carb_scorers.scorer import Scorer, ScoreRequest, ScoreResult, ScorerSpec
from carb_scorers.waiting import wait_for

__all__ = ["RayEngine"]

_N = TypeVar("_N", int, float)
_results = TypeAdapter(list[ScoreResult])


class RayWorker:
    """What an actor does: score a window."""

    def __init__(self, spec: str) -> None:
        self._spec = spec
        self._scorer: Scorer | None = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        """Score the requests of one window.

        Args:
            batch: a batch with the column ``request``, which holds JSON.

        Returns:
            One row: the results (JSON), and a user's mistake where there was one.
        """
        requests = [ScoreRequest.model_validate_json(line) for line in batch["request"]]
        try:
            results = wait_for(self._score, requests)
        except CarbError as error:
            return {"results": ["[]"], "mistake": [str(error)]}
        return {"results": [_results.dump_json(results, exclude_defaults=True).decode()], "mistake": [""]}

    async def _score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        if self._scorer is None:
            self._scorer = open_any(self._spec)
        results: list[ScoreResult] = []
        await score_all(self._scorer, requests, results.extend, window=len(requests))
        return results


class RaySession:
    """A scorer that workers open, each for itself."""

    def __init__(self, engine: RayEngine, given: str, spec: ScorerSpec) -> None:
        self.spec = spec
        self._engine = engine
        self._given = given

    async def score(self, requests: Sequence[ScoreRequest], on_results: OnResults, *, window: int) -> None:
        """See ``Session``."""
        if not requests:
            return
        windows = [requests[start : start + window] for start in range(0, len(requests), window)]
        rows = self._engine.rows(windows, self._given)
        try:
            while (row := await anyio.to_thread.run_sync(next, rows, None)) is not None:
                if row["mistake"]:
                    raise CarbError(row["mistake"])
                on_results(_results.validate_json(row["results"]))
        finally:
            del rows  # ends what is still running

    async def aclose(self) -> None:
        """Workers end with their pool."""


class RayEngine:
    """A Ray cluster, joined by its address or started here."""

    name = "ray"

    def __init__(self, *, workers: int | None = None, cpus: float | None = None, gpus: float | None = None) -> None:
        """Join the cluster that the environment variable ``RAY_ADDRESS`` names, or start one that ends with the engine.

        Args:
            workers: the number of actors for each scorer; null means ``CARB_RAY_WORKERS`` of the environment, or else
                as many as the cluster has room for.
            cpus: the number of CPUs of each worker; null means ``CARB_RAY_CPUS``, or else 1.
            gpus: the number of GPUs of each worker; null means ``CARB_RAY_GPUS``, or else 0.

        Raises:
            MissingExtraError: Ray is not installed.
            CarbError: there is no cluster at the address, it has no room for a worker, or a variable is no number.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self._ray = require("ray", package="carb-scorers", extra="ray")
        self._data = require("ray.data", package="carb-scorers", extra="ray")
        workers = _number("CARB_RAY_WORKERS", 0, int) if workers is None else workers
        cpus = _number("CARB_RAY_CPUS", 1.0, float) if cpus is None else cpus
        gpus = _number("CARB_RAY_GPUS", 0.0, float) if gpus is None else gpus
        self._started = not self._ray.is_initialized()
        if self._started:
            try:
                self._ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise CarbError(f"No Ray cluster at {os.environ.get('RAY_ADDRESS')}: {error}") from None
        self._resources = {"num_cpus": cpus, "num_gpus": gpus}
        self._workers = workers or self._room(cpus, gpus)

    async def open(self, given: Scorer | str) -> RaySession:
        """Learn from a worker what the scorer is; the driver need not be able to hold the model."""
        if not isinstance(given, str):
            raise CarbError("Workers on other machines open their own scorers: give spec strings, not Scorer objects.")
        describe = self._ray.remote(**self._resources, max_retries=3)(_describe)
        spec, mistake = await anyio.to_thread.run_sync(self._ray.get, describe.remote(given))
        if mistake:
            raise CarbError(mistake)
        return RaySession(self, given, ScorerSpec.model_validate_json(spec))

    def rows(self, windows: Iterable[Sequence[ScoreRequest]], spec: str) -> Iterator[dict[str, str]]:
        """Score windows; a row for each, in the order in which they are done.

        Ray Data restarts workers and gives their tasks to others for as long as that takes.
        """
        pyarrow = require("pyarrow", package="carb-scorers", extra="ray")
        blocks = [pyarrow.table({"request": [r.model_dump_json() for r in window]}) for window in windows]
        context = self._data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        scored = self._data.from_arrow(blocks).map_batches(
            RayWorker,
            fn_constructor_args=(spec,),
            batch_size=None,  # a block is a window
            compute=self._data.ActorPoolStrategy(size=max(1, min(self._workers, len(blocks)))),
            **self._resources,
        )
        yield from scored.iter_rows()

    def _room(self, cpus: float, gpus: float) -> int:
        cluster = self._ray.cluster_resources()
        shares = [cluster.get(name, 0.0) / share for name, share in (("CPU", cpus), ("GPU", gpus)) if share > 0]
        room = math.floor(min(shares, default=1.0))
        if room < 1:
            raise CarbError(f"The Ray cluster has no room for a worker with {cpus:g} CPUs and {gpus:g} GPUs.")
        return room

    async def aclose(self) -> None:
        """End a cluster that was started here."""
        if self._started:
            await anyio.to_thread.run_sync(self._ray.shutdown)


def _number(variable: str, default: _N, read: Callable[[str], _N]) -> _N:
    """A number from the environment."""
    try:
        return read(os.environ.get(variable) or str(default))
    except ValueError:
        raise CarbError(f"The environment variable {variable} must be a number.") from None


def _describe(given: str) -> tuple[str, str]:
    """A scorer's spec (JSON), or the user's mistake that keeps it from being opened."""

    async def describe() -> str:
        scorer = open_any(given)
        try:
            return scorer.spec.model_dump_json()
        finally:
            await scorer.aclose()

    try:
        return wait_for(describe), ""
    except CarbError as error:
        return "", str(error)
