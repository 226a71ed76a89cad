"""``carb run`` on a Ray cluster: copies of each scorer, on as many workers, share its requests.

    python examples/on_ray.py --data carb-seed --scorer mine=judge:PATH --out runs/mine --workers 8 --gpus 1

It joins the cluster that ``RAY_ADDRESS`` names, or starts one on this machine. What the workers score comes back to the
one journal: the same command goes on after any interruption, also with ``carb run``, and the table is the same. Ray
restarts a worker that died and gives it its share again: that may be scored twice, and counts once.
"""

# ruff: noqa: T201 - a script, which prints

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import ray

from carb_data import CarbError, load
from carb_scorers import Scorer, ScoreRequest, ScoreResult, ScorerSpec, open_scorer
from carb_scorers.evaluation import score_all
from carb_scorers.run import run
from carb_scorers.waiting import wait_for


class Copy:
    """What a worker runs."""

    def __init__(self, spec: str) -> None:
        self.spec = spec
        self.scorer: Scorer | None = None

    def score(self, requests: Sequence[ScoreRequest]) -> tuple[ScorerSpec, list[ScoreResult]]:
        """What the scorer is, and its results in any order."""
        results: list[ScoreResult] = []
        try:
            scorer = self.scorer = self.scorer or open_scorer(self.spec)
            wait_for(lambda: score_all(scorer, requests, results.extend))
        except CarbError as error:
            raise CarbError(str(error)) from None  # an error with fields of its own may not survive the way back
        return scorer.spec, results


class RayScorer:
    """A scorer like any other; the machine that asks need not be able to hold the model."""

    def __init__(self, spec: str, workers: int, gpus: float) -> None:
        copy = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1, max_task_retries=-1)(Copy)
        self.copies = [copy.remote(spec) for _ in range(workers)]
        ((found, _),) = got([self.copies[0].score.remote([])])
        self.spec: ScorerSpec = found.model_copy(update={"in_flight": None})

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        """See ``Scorer``."""
        shares = [requests[number :: len(self.copies)] for number in range(len(self.copies))]
        asked = [copy.score.remote(share) for copy, share in zip(self.copies, shares, strict=True) if share]
        found = await anyio.to_thread.run_sync(got, asked, abandon_on_cancel=True)
        results = {result.request_id: result for _, share in found for result in share}
        return [results[request.request_id] for request in requests]

    async def aclose(self) -> None:
        """End the workers."""
        for copy in self.copies:
            ray.kill(copy)


def got(asked: Sequence[Any]) -> Sequence[tuple[ScorerSpec, list[ScoreResult]]]:
    """What workers answer; a user's mistake as the error that it was."""
    try:
        return ray.get(asked)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, CarbError):
            raise CarbError(str(error.cause)) from None
        raise


async def work(given: argparse.Namespace) -> None:
    """Score the data with one scorer after the other."""
    room = ray.cluster_resources()
    if room.get("CPU", 0) < given.workers or room.get("GPU", 0) < given.workers * given.gpus:
        raise CarbError(f"The cluster has no room for {given.workers} workers with a CPU and {given.gpus:g} GPUs.")
    for spec in given.scorer:
        scorer = RayScorer(spec, given.workers, given.gpus)
        try:
            await run(
                load(given.data),
                [scorer],
                given.out,
                names=[given.data],
                seed=given.seed,
                window=given.window,
                command=sys.argv,
                on_progress=lambda state: print(f"{state.scorer}: {state.done}/{state.total}, {state.errors} errors"),
            )
        finally:
            await scorer.aclose()


def main() -> int:
    """Score, and say what went wrong; 2 where nothing could be done about it here."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="as for carb run")
    parser.add_argument("--scorer", nargs="+", required=True, help="as for carb run")
    parser.add_argument("--out", type=Path, required=True, help="folder of the run")
    parser.add_argument("--workers", type=int, default=1, help="copies of a scorer")
    parser.add_argument("--gpus", type=float, default=0, help="of each worker")
    parser.add_argument("--window", type=int, help="requests shared out at once; as many as take seconds by default")
    parser.add_argument("--seed", type=int, default=0, help="of the order in which candidates are presented")
    given = parser.parse_args()
    try:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        anyio.run(work, given)
    except (CarbError, ConnectionError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
